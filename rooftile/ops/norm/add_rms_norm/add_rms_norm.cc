// SPDX-License-Identifier: Apache-2.0
// Residual add and RMSNorm in one pass: residual <- round(x + residual), out <- rms_norm(residual).
//
// The sum is rounded to the storage type before it is normalised, so that the result is that of the
// two operators one after the other (vLLM's and FlashInfer's definition) and a later layer reads
// what was normalised here.
#include "rooftile/ops/norm/rms_norm/rms_norm.h"
#include "rooftile/ops/numerics.h"
#include "rooftile/ops/strips_sm90.h"

namespace rooftile::ops {

using namespace dsl;

void add_rms_norm_ref(RefCall& call);
Status add_then_rms_norm(RefCall& call);

namespace {

void add_rms_norm_rows(Kernel& k, const Config& config) {
  Index T = k.dim("T"), H = k.dim("H");
  k.tiles({"row", T}, [&](Index row) {
    Tile x = k.load(k["x"](row, all), "x");                       // [H]
    Tile residual = k.load(k["residual"](row, all), "residual");  // [H]
    Tile h = (x + residual).to(config.dtype("x")).named("h");     // [H], as stored
    Tile r = reciprocal_rms(k, h, H, k.scalar("eps"));            // [1]
    Tile weight = k.load(k["weight"](all), "weight");             // [H]
    if (config.flag("weight_plus_one")) weight = weight + 1.0;
    k.store(k["out"](row, all), h * r * weight);
    k.store(k["residual"](row, all), h);
  });
}

Tolerance add_rms_norm_tolerance(const RefCall& call) {
  DType dtype = call.config.dtype("x");
  double rel = 2 * unit_roundoff(dtype) + (sum_chain(call.dim("H")) / 2 + 10) * kF32Roundoff;
  return bounded(underflow_error(dtype), rel, call["out"],
                 "two roundings to the stored type: of x + residual, and of the result (in the "
                 "stored types the first is the reference's own, bit for bit; evaluated in float64 "
                 "the program does not make it); then as rms_norm, half the error of H/8 + 8 "
                 "additions and ten f32 roundings");
}

}  // namespace

OpDef add_rms_norm() {
  Expr T = Expr::sym("T"), H = Expr::sym("H");
  return OpDef("norm", "add_rms_norm",
               "add x to the residual stream in place and normalise the sum")
      .out({.name = "out",
            .shape = {T, H},
            .same_dtype_as = "x",
            .may_alias = {"x"},
            .doc = "[T, H] the normalised sum; may be x itself"})
      .inout({.name = "residual",
              .shape = {T, H},
              .same_dtype_as = "x",
              .doc = "[T, H] replaced by x + residual, rounded to its type"})
      .in({.name = "x",
           .shape = {T, H},
           .dtypes = kFloating,
           .doc = "[T, H] what the last layer adds"})
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
          "Zhang and Sennrich 2019, arXiv:1910.07467; fused residual as in vLLM's "
          "fused_add_rms_norm")
      .reference(add_rms_norm_ref)
      .rounds_inside("the sum is rounded to the residual's dtype before it is normalised")
      .replaces({"add", "rms_norm"}, add_then_rms_norm)
      .kernel({.name = "rows",
               .build = add_rms_norm_rows,
               .schedule =
                   [](const Config& config, const Env& dims, const TargetInfo& target) {
                     if (target.gpu)
                       return sm90_rows(dims.at("T"), dims.at("H"), config.dtype("x"), 2);
                     return row_schedule({"h"});
                   }})
      .cost([](const RefCall& call) {
        double rows = static_cast<double>(call.dim("T")),
               columns = static_cast<double>(call.dim("H"));
        return Cost{.flops = 5 * rows * columns,
                    .bytes = bytes_of(call, "x", 4 * rows * columns + columns)};
      })
      .tolerance(add_rms_norm_tolerance)
      .cases(R"(
        T=1 H=1 : smoke
        T=0 H=8 : smoke
        T=3 H=7 : smoke
        T=2 H=31 dtype=f16 : smoke
        T=5 H=33 dtype=f32 : smoke
        T=4 H=64 weight_plus_one=1 : smoke
        T=7 H=769 : smoke
        T=2 H=1025 dtype=f32 : smoke
        T=16 H=4096 : ci
        T=64 H=3072 dtype=f16 : ci
        T=3 H=16384 : ci
        T=3 H=65536 : ci
        T=1 H=4096 : llm
        T=16 H=4096 : llm
        T=4096 H=4096 : llm
        T=512 H=896 : llm
        T=257 H=1031 : full
        T=1000 H=5120 dtype=f32 : full
      )");
}

}  // namespace rooftile::ops
