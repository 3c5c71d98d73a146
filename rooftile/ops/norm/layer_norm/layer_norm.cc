// SPDX-License-Identifier: Apache-2.0
// LayerNorm: out = (x - mean) / sqrt(var + eps) * weight + bias, over each row, with the biased
// variance.
//
// Two passes of statistics. The first finds an approximate mean; the second sums the distances from
// it and their squares, so that the correction of the mean is small and nothing cancels (mean >>
// deviation, pytorch#51102). Rows that hold a value above 1e15 are worked on in units of 2^80:
// squares stay in f32's range (pytorch#178123).
#include "rooftile/ops/numerics.h"
#include "rooftile/ops/strips_sm90.h"

namespace rooftile::ops {

using namespace dsl;

void layer_norm_ref(RefCall& call);

namespace {

constexpr double kLarge = 1e15;    // squares of smaller values, and sums of 2^31 of them, fit f32
constexpr double kUnit = 0x1p-80;  // 2^128 * 2^-80 squared, times 2^31, fits too
constexpr double kSumUnit = 0x1p-32;

// Row statistics in the row's own unit: x * unit - shift has mean `offset` and 1 / deviation `r`.
// All [1].
struct RowStatistics {
  Tile unit, shift, offset, r;
};

RowStatistics row_statistics(Kernel& k, const Tile& x, const Index& extent, const Tile& eps) {
  Tile count = k.index(extent).to(DType::kF32);
  Tile small = reduce_max(abs(x)) < kLarge;  // false for NaN
  Tile one = k.full({1}, 1.0);
  Tile unit = where_(small, one, k.full({1}, kUnit));
  Tile mean = sum(x * kSumUnit) / count;  // in 2^32
  Tile shift = mean * where_(small, k.full({1}, 1 / kSumUnit), k.full({1}, kUnit / kSumUnit));
  Tile distance = x * unit - shift;  // [H]
  Tile offset = sum(distance) / count;
  Tile variance = max(sum(distance * distance) / count - offset * offset, 0.0);
  // The floor keeps rows of equal huge values, whose variance and scaled eps are both zero, at 0 *
  // finite.
  Tile r = rsqrt(variance + max(eps * (unit * unit), 0x1p-120));
  return {unit, shift, offset, r};
}

void layer_norm_rows(Kernel& k, const Config& config) {
  Index T = k.dim("T"), H = k.dim("H");
  k.tiles({"row", T}, [&](Index row) {
    Tile x = k.load(k["x"](row, all), "x");  // [H]
    RowStatistics s = row_statistics(k, x, H, k.scalar("eps"));
    Tile y = ((x * s.unit - s.shift) - s.offset) * s.r * k.load(k["weight"](all), "weight");
    if (config.has("bias")) y = y + k.load(k["bias"](all), "bias");
    k.store(k["out"](row, all), y);
  });
}

// With z = (x - mean) / deviation: z carries a relative error from r and an absolute one from the
// mean; both scale with the largest |z * weight|, which shows in the reference as |out - bias|.
Tolerance layer_norm_tolerance(const RefCall& call) {
  const NdArray& out = call["out"];
  const int64_t columns = std::max<int64_t>(call.dim("H"), 1);
  double largest = max_abs(call["weight"]);
  for (size_t i = 0; i < out.data.size(); ++i) {
    double bias = call.has("bias") ? call["bias"].data[i % static_cast<size_t>(columns)] : 0.0;
    if (std::isfinite(out.data[i])) largest = std::max(largest, std::fabs(out.data[i] - bias));
  }
  double abs =
      (sum_chain(columns) + 12) * kF32Roundoff * largest + underflow_error(call.config.dtype("x"));
  return bounded(abs, unit_roundoff(call.config.dtype("x")) + 2 * kF32Roundoff, out,
                 "one rounding to the stored type, and an absolute error of (H/8 + 8 additions + "
                 "12 roundings) * 2^-24 "
                 "times the largest |weight| or |out - bias|: the corrected mean errs by that "
                 "share of the deviation, "
                 "the variance by that share of itself");
}

}  // namespace

OpDef layer_norm() {
  Expr T = Expr::sym("T"), H = Expr::sym("H");
  return OpDef("norm", "layer_norm",
               "normalise each row to mean 0 and variance 1, then scale and shift it")
      .out({.name = "out",
            .shape = {T, H},
            .same_dtype_as = "x",
            .may_alias = {"x"},
            .doc = "[T, H]; may be x itself"})
      .in({.name = "x", .shape = {T, H}, .dtypes = kFloating, .doc = "[T, H] rows to normalise"})
      .in({.name = "weight", .shape = {H}, .same_dtype_as = "x", .doc = "[H] gain of each column"})
      .in({.name = "bias",
           .shape = {H},
           .same_dtype_as = "x",
           .optional = true,
           .doc = "[H] added to each column; absent: none"})
      .attr({.name = "eps",
             .default_value = 1e-5,
             .min = 1e-30,
             .max = 1,
             .has_range = true,
             .doc = "added to the variance, inside the root"})
      .needs(H >= 1, "a row needs at least one element")
      .limit("H", (int64_t{1} << 31) - 1)
      .source(
          "Ba, Kiros and Hinton 2016, arXiv:1607.06450; biased variance as in torch.nn.LayerNorm")
      .reference(layer_norm_ref)
      .kernel({.name = "rows",
               .build = layer_norm_rows,
               .schedule =
                   [](const Config& config, const Env& dims, const TargetInfo& target) {
                     if (target.gpu)
                       return sm90_rows(dims.at("T"), dims.at("H"), config.dtype("x"));
                     return row_schedule();
                   }})
      .cost([](const RefCall& call) {
        double rows = static_cast<double>(call.dim("T")),
               columns = static_cast<double>(call.dim("H"));
        double vectors = call.config.has("bias") ? 2 : 1;
        return Cost{.flops = 8 * rows * columns,
                    .bytes = bytes_of(call, "x", (2 * rows + vectors) * columns)};
      })
      .tolerance(layer_norm_tolerance)
      .cases(R"(
        T=1 H=1 : smoke
        T=1 H=1 dtype=f32 bias=1 : smoke
        T=0 H=16 : smoke
        T=3 H=7 bias=1 : smoke
        T=2 H=15 dtype=f16 : smoke
        T=5 H=33 dtype=f32 bias=1 : smoke
        T=7 H=769 bias=1 : smoke
        T=7 H=129 dtype=f16 bias=1 : smoke
        T=2 H=1025 eps=0.1 dtype=f32 : smoke
        T=16 H=4096 bias=1 : ci
        T=64 H=3072 dtype=f16 bias=1 : ci
        T=33 H=5120 dtype=f32 : ci
        T=3 H=65536 bias=1 : ci
        T=1 H=4096 bias=1 : llm
        T=4096 H=4096 bias=1 : llm
        T=4096 H=1024 bias=1 dtype=f32 : llm
        T=512 H=768 bias=1 : llm
        T=257 H=1031 : full
        T=1000 H=5120 bias=1 dtype=f16 : full
      )");
}

}  // namespace rooftile::ops
