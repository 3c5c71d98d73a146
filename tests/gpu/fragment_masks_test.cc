// SPDX-License-Identifier: Apache-2.0
// Masks over products in the fragment way: code without them where they hide nothing, the hidden
// product replaced in place where that is all that reads it, and neither where it must not be.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "rooftile/codegen/cuda/emit_cuda.h"
#include "rooftile/codegen/gpu/lower.h"
#include "tests/gpu/emulated_call.h"

namespace rooftile {
namespace {

using dsl::Index;
using dsl::Kernel;
using dsl::Tile;

constexpr double kInf = std::numeric_limits<double>::infinity();

enum class Reader { kMaximum, kMaximumAndStore, kMaximumAndProduct, kTwoMasks };

// For every row of a: the largest alpha a b^T among the columns up to its own number, in `top`;
// and, as `reader` says, the masked products themselves, the largest product without a mask, or the
// largest under a second mask, in `other`.
void build(Kernel& k, Reader reader) {
  const Expr M = k.dim("M"), N = k.dim("N");
  k.tiles({"i", ceil_div(M, 64)}, [&](Index i) {
    const dsl::Range rows = dsl::block(i, 64, M);
    const Tile a = k.load(k["a"](rows, dsl::all), "a");
    const Tile none = k.full({rows.extent, 1}, -kInf);
    const auto state =
        k.loop("j", 0, ceil_div(N, 64), 1, {none, none}, [&](Index j, std::vector<Tile> s) {
          const dsl::Range columns = dsl::block(j, 64, N);
          const Tile b = k.load(k["b"](columns, dsl::all), "b");
          const Tile product = mma(a, b.t(), "product") * k.scalar("alpha");
          const Tile row = k.iota({rows.extent, 1}, 0, rows.begin);
          const Tile column = k.iota({1, columns.extent}, 1, columns.begin);
          const Tile hidden = k.full({}, -kInf);
          const Tile masked = where_(column <= row, product, hidden);
          Tile other = s[1];
          if (reader == Reader::kMaximumAndStore) k.store(k["d"](rows, columns), masked);
          if (reader == Reader::kMaximumAndProduct) other = max(other, reduce_max(product, 1));
          if (reader == Reader::kTwoMasks)
            other = max(other, reduce_max(where_(row <= column, masked, hidden), 1));
          return std::vector<Tile>{max(s[0], reduce_max(masked, 1)), other};
        });
    k.store(k["top"](rows, dsl::new_axis), state[0]);
    k.store(k["other"](rows, dsl::new_axis), state[1]);
  });
}

void reference(RefCall& call, Reader reader) {
  const int64_t M = call.dim("M"), N = call.dim("N"), K = call.dim("K");
  const auto at = [](const NdArray& t, int64_t i) { return t.data[static_cast<size_t>(i)]; };
  for (int64_t m = 0; m < M; ++m) {
    double top = -kInf, other = -kInf;
    for (int64_t n = 0; n < N; ++n) {
      double x = 0;
      for (int64_t k = 0; k < K; ++k) x += at(call["a"], m * K + k) * at(call["b"], n * K + k);
      x *= call.attr("alpha");
      if (n <= m) top = std::fmax(top, x);
      if (reader == Reader::kMaximumAndStore)
        call["d"].data[static_cast<size_t>(m * N + n)] = n <= m ? x : -kInf;
      if (reader == Reader::kMaximumAndProduct || (reader == Reader::kTwoMasks && n == m))
        other = std::fmax(other, x);
    }
    call["top"].data[static_cast<size_t>(m)] = top;
    call["other"].data[static_cast<size_t>(m)] = other;
  }
}

OpDef masked_product(Reader reader) {
  const Expr M = Expr::sym("M"), N = Expr::sym("N"), K = Expr::sym("K");
  OpDef op("test", "masked_product", "largest visible products");
  op.out({.name = "top", .shape = {M}, .dtypes = {DType::kF32}})
      .out({.name = "other", .shape = {M}, .dtypes = {DType::kF32}})
      .in({.name = "a", .shape = {M, K}, .dtypes = {DType::kBf16}})
      .in({.name = "b", .shape = {N, K}, .dtypes = {DType::kBf16}})
      .attr({.name = "alpha", .default_value = 1})
      .reference([reader](RefCall& call) { reference(call, reader); })
      .cost([](const RefCall&) { return Cost{}; })
      .tolerance([](const RefCall&) {
        return Tolerance{1e-4, 1e-4, 1e-4, "f32 sums of exact products"};
      })
      .kernel(
          {.name = "blocks", .build = [reader](Kernel& k, const Config&) { build(k, reader); }});
  if (reader == Reader::kMaximumAndStore)
    op.out({.name = "d", .shape = {M, N}, .dtypes = {DType::kF32}});
  return op;
}

Schedule tensor_cores() {
  Schedule s;
  s.name = "wgmma";
  s.gpu.dims = {{"K", 64}};
  s.gpu.roles = {{.name = "feed", .groups = 1, .runs = {"a"}},
                 {.name = "mma", .groups = 1, .runs = {"product"}}};
  for (const char* load : {"a", "b"}) s.gpu.copy[load].via = gpu::Via::kTma;
  s.gpu.product["product"] = {};
  s.gpu.rings = {{.copies = {"a"}, .depth = 1}, {.copies = {"b"}, .depth = 2}};
  return s;
}

class FragmentMasks : public ::testing::TestWithParam<Reader> {};

TEST_P(FragmentMasks, AgreeWithTheReferenceForEverySignOfTheFactor) {
  const OpDef op = masked_product(GetParam());
  for (const char* alpha : {"1", "-0.5", "0"}) {
    const std::string text = std::string("M=200 N=230 K=64 alpha=") + alpha;
    auto emulated = testing::EmulatedCase::make(op, text, 1);
    ASSERT_TRUE(emulated.ok()) << emulated.diag().str();
    Result<ir::Program> program = op.build(op.kernels[0], emulated->call().config);
    ASSERT_TRUE(program.ok()) << program.diag().str();
    auto lanes = codegen::lower_gpu(*program, "kernel", tensor_cores());
    ASSERT_TRUE(lanes.ok()) << lanes.diag().str();
    auto result = emulated->run(lanes->variants[0], false, 3);
    ASSERT_TRUE(result.ok()) << result.diag().str();
    EXPECT_TRUE(result->pass) << text << ": " << result->reason;
    const auto cuda = codegen::emit_cuda(lanes->variants[0].phases[0]);
    ASSERT_TRUE(cuda.ok()) << cuda.diag().str();
    EXPECT_NE(cuda->find("unmasked"), std::string::npos) << "no code without the mask\n" << *cuda;
  }
}

INSTANTIATE_TEST_SUITE_P(Readers, FragmentMasks,
                         ::testing::Values(Reader::kMaximum, Reader::kMaximumAndStore,
                                           Reader::kMaximumAndProduct, Reader::kTwoMasks));

}  // namespace
}  // namespace rooftile
