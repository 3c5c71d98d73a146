// SPDX-License-Identifier: Apache-2.0
// For tests: bf16 gemm kernels on fresh random inputs, compared with float64 sums.
#pragma once

#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "rooftile/base/float_convert.h"
#include "rooftile/emulate/emulate.h"

namespace rooftile::emulate::testing {

// Operands a[M, K], b[N, K] and output d[M, N] of a product, and what d should be.
struct GemmCase {
  int64_t m, n, k;
  std::vector<uint16_t> a, b, d;

  GemmCase(int64_t rows, int64_t cols, int64_t depth, uint64_t seed = 1)
      : m(rows), n(cols), k(depth) {
    std::mt19937_64 rng(seed);
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (auto* t : {&a, &b}) {
      t->resize(static_cast<size_t>((t == &a ? m : n) * k));
      for (uint16_t& x : *t) x = f32_to_bf16(uniform(rng));
    }
    d.assign(static_cast<size_t>(m * n), 0x7fc1);  // poison
  }

  Launch launch(uint64_t seed) {
    Launch out;
    out.tensors["a"] = {a.data(), DType::kBf16, {m, k}, {}};
    out.tensors["b"] = {b.data(), DType::kBf16, {n, k}, {}};
    out.tensors["d"] = {d.data(), DType::kBf16, {m, n}, {}, false};
    out.seed = seed;
    return out;
  }

  // With the workspaces that the kernel wants, beside the operands.
  Launch launch(uint64_t seed, const lanes::Program& program, int sms) {
    Launch out = launch(seed);
    out.sms = sms;
    const Env sizes = {{"M", m}, {"N", n}, {"K", k}, {"SMS", sms}};
    for (const lanes::TensorUse& use : program.tensors) {
      if (!use.workspace) continue;
      std::vector<int64_t> shape;
      for (const Expr& extent : use.shape) shape.push_back(evaluate(extent, sizes).value_or(0));
      std::vector<uint32_t>& data = workspaces[use.name];  // 32-bit elements
      data.assign(static_cast<size_t>(shape[0] * shape[1]), use.zeroed ? 0 : 0x7fc00001);
      out.tensors[use.name] = {data.data(), use.dtype, shape, {}, use.zeroed};
    }
    return out;
  }
  std::map<std::string, std::vector<uint32_t>> workspaces;

  // Elements of d that are not the sum rounded to bf16, within the error of f32 sums.
  int64_t wrong() const {
    int64_t bad = 0;
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0, size = 0;
        for (int64_t x = 0; x < k; ++x) {
          const double term = static_cast<double>(bf16_to_f32(a[static_cast<size_t>(i * k + x)])) *
                              bf16_to_f32(b[static_cast<size_t>(j * k + x)]);
          sum += term;
          size += std::fabs(term);
        }
        const double got = bf16_to_f32(d[static_cast<size_t>(i * n + j)]);
        const double tolerance =
            std::ldexp(std::fabs(sum), -8) + std::ldexp(static_cast<double>(k) * size, -24);
        if (!(std::fabs(got - sum) <= tolerance)) ++bad;
      }
    return bad;
  }
};

}  // namespace rooftile::emulate::testing
