// SPDX-License-Identifier: Apache-2.0
#include "rooftile/ops/gemm/gemm_reference.h"

#include <array>
#include <cmath>
#include <numbers>

namespace rooftile::ops {
namespace {

// Eight running sums: independent additions, so that large references take seconds, not minutes.
double dot(const double* x, const double* y, int64_t count) {
  std::array<double, 8> sums{};
  int64_t i = 0;
  for (; i + 8 <= count; i += 8)
    for (int64_t s = 0; s < 8; ++s) sums[static_cast<size_t>(s)] += x[i + s] * y[i + s];
  double total = 0;
  for (double s : sums) total += s;
  for (; i < count; ++i) total += x[i] * y[i];
  return total;
}

}  // namespace

double activation_f64(double x, int64_t activation) {
  switch (activation) {
    case 1:
      return x > 0 || std::isnan(x) ? x : 0.0;
    case 2:
      return x / (1.0 + std::exp(-x));
    case 3:
      return x * 0.5 * std::erfc(-x / std::numbers::sqrt2);
    case 4: {
      const double inner = std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * std::pow(x, 3));
      return 0.5 * x * (1.0 + std::tanh(inner));
    }
    default:
      return x;
  }
}

void matmul_f64(const double* a, const double* b, bool b_is_kn, int64_t M, int64_t N, int64_t K,
                double* out) {
#pragma omp parallel for schedule(static) if (M * N * K > 100000)
  for (int64_t at = 0; at < M * N; ++at) {
    const int64_t m = at / N, n = at % N;
    if (!b_is_kn) {
      out[at] = dot(a + m * K, b + n * K, K);
      continue;
    }
    double total = 0;
    for (int64_t k = 0; k < K; ++k) total += a[m * K + k] * b[k * N + n];
    out[at] = total;
  }
}

void epilogue_f64(const RefCall& call, const double* c, int64_t M, int64_t N, double* d) {
  const double alpha = call.attr("alpha"), beta = call.attr("beta");
  const bool integers = call.config.dtype("d") == DType::kI32;
  const int64_t activation = call.config.flag("activation");
  for (int64_t m = 0; m < M; ++m)
    for (int64_t n = 0; n < N; ++n) {
      double& y = d[m * N + n];
      y = alpha == 0 ? 0.0 : alpha * y;
      if (integers) y = std::nearbyint(y);
      if (call.has("bias")) y += call["bias"]({n});
      y = activation_f64(y, activation);
      if (c == nullptr || beta == 0) continue;
      const double term = beta * c[m * N + n];
      y += integers ? std::nearbyint(term) : term;
    }
}

}  // namespace rooftile::ops
