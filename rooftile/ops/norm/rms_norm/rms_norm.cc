// SPDX-License-Identifier: Apache-2.0
// RMSNorm: out[t,h] = x[t,h] * r[t] * weight[h], r[t] = 1 / sqrt(mean_h(x[t,h]^2) + eps).
//
// Statistics and products are f32, rounded once at the store. Any finite row gives a finite r: rows
// whose sum of squares leaves the range of f32 use a second sum, taken over x * 2^-80, that cannot.
#include "rooftile/ops/norm/rms_norm/rms_norm.h"

#include <limits>

#include "rooftile/ops/numerics.h"
#include "rooftile/ops/strips_sm90.h"

namespace rooftile::ops {

using namespace dsl;

// Of two sums, the plain one is exact enough whenever it is finite. If it is not, the largest |x|
// exceeds 2^64 / sqrt(H), so that (x * 2^-80)^2 keeps full precision, and it is at most 2^96, so
// that H < 2^31 of them fit. A NaN fails the comparison and reaches both results.
Tile reciprocal_rms(Kernel& k, const Tile& x, const Index& extent, const Tile& eps) {
  constexpr double kScale = 0x1p-80;
  Tile count = k.index(extent).to(DType::kF32);
  Tile scaled = x * kScale;
  Tile plain_sum = sum(x * x);  // [1]
  // The constant keeps partial sums out of the range of subnormal numbers, where an addition costs
  // a hundred cycles; this sum counts only when the plain one overflowed, and is then above 2^-32.
  Tile scaled_sum = sum(scaled * scaled + 0x1p-100);  // [1]
  Tile fits = plain_sum < std::numeric_limits<double>::infinity();
  return where_(fits, rsqrt(plain_sum / count + eps), rsqrt(scaled_sum / count) * kScale);
}

void rms_norm_ref(RefCall& call);

namespace {

void rms_norm_rows(Kernel& k, const Config& config) {
  Index T = k.dim("T"), H = k.dim("H");
  k.tiles({"row", T}, [&](Index row) {
    Tile x = k.load(k["x"](row, all), "x");             // [H]
    Tile r = reciprocal_rms(k, x, H, k.scalar("eps"));  // [1]
    Tile weight = k.load(k["weight"](all), "weight");   // [H]
    if (config.flag("weight_plus_one")) weight = weight + 1.0;
    k.store(k["out"](row, all), x * r * weight);
  });
}

Tolerance rms_norm_tolerance(const RefCall& call) {
  DType dtype = call.config.dtype("x");
  double u = unit_roundoff(dtype);
  double rel = u + (sum_chain(call.dim("H")) / 2 + 10) * kF32Roundoff;
  return bounded(underflow_error(dtype), rel, call["out"],
                 "one rounding to the stored type (u), half the relative error of the sum of "
                 "squares (H/8 + 8 additions of "
                 "positive terms, v = 2^-24 each; the root halves it), ten further f32 roundings "
                 "(square, mean, eps, rsqrt "
                 "to 2 ulp, scale, 1 + weight, two products)");
}

}  // namespace

OpDef rms_norm() {
  Expr T = Expr::sym("T"), H = Expr::sym("H");
  return OpDef("norm", "rms_norm",
               "divide each row by its root mean square and multiply by a weight")
      .out({.name = "out",
            .shape = {T, H},
            .same_dtype_as = "x",
            .may_alias = {"x"},
            .doc = "[T, H]; may be x itself"})
      .in({.name = "x", .shape = {T, H}, .dtypes = kFloating, .doc = "[T, H] rows to normalise"})
      .in({.name = "weight", .shape = {H}, .same_dtype_as = "x", .doc = "[H] gain of each column"})
      .attr({.name = "eps",
             .default_value = 1e-6,
             .min = 1e-30,
             .max = 1,
             .has_range = true,
             .doc = "added to the mean square, inside the root"})
      .flag("weight_plus_one", false, "multiply by 1 + weight (Gemma's zero-centred weights)")
      .needs(H >= 1, "a row needs at least one element")
      .limit("H", (int64_t{1} << 31) - 1)
      .source(
          "Zhang and Sennrich 2019, arXiv:1910.07467, equation 4; eps inside the root as in Llama")
      .reference(rms_norm_ref)
      .kernel({.name = "rows",
               .build = rms_norm_rows,
               .schedule =
                   [](const Config& config, const Env& dims, const TargetInfo& target) {
                     if (target.gpu)
                       return sm90_rows(dims.at("T"), dims.at("H"), config.dtype("x"));
                     return row_schedule();
                   }})
      .cost([](const RefCall& call) {
        double rows = static_cast<double>(call.dim("T")),
               columns = static_cast<double>(call.dim("H"));
        return Cost{.flops = 4 * rows * columns,
                    .bytes = bytes_of(call, "x", 2 * rows * columns + columns)};
      })
      .tolerance(rms_norm_tolerance)
      .cases(R"(
        T=1 H=1 : smoke
        T=1 H=1 dtype=f32 : smoke
        T=0 H=16 : smoke
        T=3 H=7 : smoke
        T=2 H=15 dtype=f16 : smoke
        T=5 H=33 dtype=f32 : smoke
        T=4 H=64 weight_plus_one=1 : smoke
        T=7 H=769 : smoke
        T=7 H=129 weight_plus_one=1 dtype=f16 : smoke
        T=2 H=1025 eps=0.1 dtype=f32 : smoke
        T=16 H=4096 : ci
        T=64 H=3072 dtype=f16 : ci
        T=33 H=5120 dtype=f32 : ci
        T=3 H=16384 : ci
        T=3 H=65536 : ci
        T=1 H=4096 : llm
        T=16 H=4096 : llm
        T=4096 H=4096 : llm
        T=4096 H=4096 dtype=f32 : llm
        T=512 H=896 : llm
        T=2048 H=8192 : llm
        T=16384 H=128 weight_plus_one=1 : llm
        T=257 H=1031 : full
        T=1000 H=5120 dtype=f16 : full
        T=16384 H=8192 : large
      )");
}

}  // namespace rooftile::ops
