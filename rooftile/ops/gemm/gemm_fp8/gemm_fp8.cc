// SPDX-License-Identifier: Apache-2.0
// D = (scale_a A) (scale_b B)^T + bias for 8-bit floats, one scale a tensor.
//
// Every 8-bit float is a bf16, so the product is stated on bf16: machines without 8-bit products
// compute it as it stands, and those that have them may multiply the bytes themselves, because no
// bit is lost on the way. The scales are on the device, where whoever quantised left them; their
// product is taken first, in f32.
#include <algorithm>
#include <cmath>

#include "rooftile/ops/gemm/gemm_contract.h"
#include "rooftile/ops/gemm/gemm_program.h"
#include "rooftile/ops/gemm/gemm_sm90.h"
#include "rooftile/ops/numerics.h"
#include "rooftile/ops/strips_sm90.h"

namespace rooftile::ops {

void gemm_fp8_ref(RefCall& call);

namespace {

using dsl::Index;
using dsl::Kernel;
using dsl::Range;
using dsl::Tile;

void gemm_fp8_tiles(Kernel& k, const Config& config) {
  const Index M = k.dim("M"), N = k.dim("N"), K = k.dim("K");
  const Index BM = k.tile_param("BM"), BN = k.tile_param("BN"), BK = k.tile_param("BK");
  k.tiles({{"i", ceil_div(M, BM)}, {"j", ceil_div(N, BN)}}, [&](Index i, Index j) {
    const Range rows = dsl::block(i, BM, M), columns = dsl::block(j, BN, N);
    const Tile sum = k.loop(
        "kk", 0, K, BK, {k.zeros({rows.extent, columns.extent})},
        [&](Index kk, std::vector<Tile> s) {
          const Range deep = dsl::range(kk, min(BK, K - kk));
          Tile a = k.load(k["a"](rows, deep), "a");     // [BM, BK]
          Tile b = k.load(k["b"](columns, deep), "b");  // [BN, BK]
          return std::vector<Tile>{mma(a.to(DType::kBf16), b.to(DType::kBf16).t(), s[0], "mm")};
        })[0];
    const Tile scale = k.load(k["scale_a"](Index(0)), "scale_a") *
                       k.load(k["scale_b"](Index(0)), "scale_b");  // rank 0
    Tile y = sum * scale;
    if (config.has("bias")) y = y + k.load(k["bias"](dsl::new_axis, columns), "bias");
    k.store(k["d"](rows, columns), y);
  });
}

Schedule gemm_fp8_schedule(const Config& config, const Env& dims, const TargetInfo& target) {
  if (target.gpu) {
    Schedule s = *sm90_gemm_schedule({.rows = dims.at("M"),
                                      .columns = dims.at("N"),
                                      .depth = dims.at("K"),
                                      .operand = config.dtype("a"),
                                      .result = config.dtype("d")},
                                     target);
    s.gpu.product["mm"].bytes = true;
    s.otherwise = {sm90_mma_product(dims.at("M"), dims.at("N"), DType::kBf16)};
    return s;
  }
  // The blocks of a bf16 product, which this is once both operands have been widened into scratch.
  Schedule s = is_small_m(dims)
                   ? small_m_schedule(dims, dims.at("N"), DType::kBf16, false, {}, target)
                   : large_m_schedule(dims, dims.at("N"), DType::kBf16, false, {}, target);
  // A block of B lies in scratch twice, widened and packed: less of K at a time keeps both in L2.
  s.tile["BK"] = 512;
  return s;
}

// A tensor core takes 32 products a step: it aligns them and the running sum to the largest of them
// and cuts each off below 2^-13 of that, towards zero. (f32 sums on other machines lose far less.)
// How much, for factors of random sign:
//   what is cut off: the running sum's adds up over the K / 32 steps; the products' walks at
//   random, sqrt(K) of them. the largest addend: a sum of k terms walks to about sqrt(k / K) of
//   ||a|| ||b|| / sqrt(K); no element goes beyond four times that, nor beyond ||a|| ||b||
//   (Cauchy-Schwarz). The norm of all errors takes it once; results of few elements may lie further
//   from it.
Tolerance gemm_fp8_tolerance(const RefCall& call) {
  const auto K = static_cast<double>(std::max<int64_t>(call.dim("K"), 1));
  const double cut = 0x1p-13 * (std::ceil(K / 32) + std::sqrt(K));
  const double scale = std::abs(call["scale_a"].data[0] * call["scale_b"].data[0]);
  const double product = scale * largest_row_norm(call["a"]) * largest_row_norm(call["b"]);
  const double magnitude = product + (call.has("bias") ? max_abs(call["bias"]) : 0.0);
  const DType d = call.config.dtype("d");
  // Product of the scales, of that and the sum, addition of the bias: three roundings, and one to
  // spare.
  const double epilogue = 4 * kF32Roundoff * magnitude + underflow_error(d);
  Tolerance tol;
  tol.abs = cut * std::min(1.0, 4 / std::sqrt(K)) * product + epilogue;
  tol.rel = unit_roundoff(d) + 4 * kF32Roundoff;
  const double elements = std::max(static_cast<double>(call["d"].numel()), 1.0);
  const double sums =
      cut / std::sqrt(K) * scale * euclidean_norm(call["a"]) * euclidean_norm(call["b"]);
  const double error = (1 + 6 / std::sqrt(elements)) * sums + epilogue * std::sqrt(elements);
  const double result = euclidean_norm(call["d"]);
  tol.norm = unit_roundoff(d) + (result > 0 ? error / result : 1.0);
  tol.why =
      "half an ulp of d; an 8-bit tensor core cuts each addend off at 2^-13 of the largest: K / 32 "
      "sums and sqrt(K) products of it; three f32 roundings in the epilogue";
  return tol;
}

Cost gemm_fp8_cost(const RefCall& call) {
  const auto M = static_cast<double>(call.dim("M")), N = static_cast<double>(call.dim("N"));
  const auto K = static_cast<double>(call.dim("K"));
  Cost cost;
  cost.flops = 2 * M * N * K;
  cost.bytes = bytes_of(call, "a", M * K) + bytes_of(call, "b", N * K) +
               bytes_of(call, "d", M * N) + bytes_of(call, "scale_a", 1) +
               bytes_of(call, "scale_b", 1);
  if (call.has("bias")) cost.bytes += bytes_of(call, "bias", N);
  return cost;
}

}  // namespace

OpDef gemm_fp8() {
  const Expr M = Expr::sym("M"), N = Expr::sym("N"), K = Expr::sym("K");
  return OpDef("gemm", "gemm_fp8", "matrix product of 8-bit floats with one scale a tensor")
      .out({.name = "d",
            .shape = {M, N},
            .dtypes = {DType::kBf16, DType::kF16, DType::kF32},
            .doc = "[M, N] result, rounded once"})
      .in({.name = "a",
           .shape = {M, K},
           .dtypes = {DType::kF8E4M3, DType::kF8E5M2},
           .doc = "[M, K] left operand; a NaN makes its row of d NaN"})
      .in({.name = "b",
           .shape = {N, K},
           .same_dtype_as = "a",
           .doc = "[N, K] right operand, transposed: its rows are columns of the product"})
      .in({.name = "scale_a",
           .shape = {1},
           .dtypes = {DType::kF32},
           .doc = "[1] what one unit of a stands for: a is scale_a times its elements"})
      .in({.name = "scale_b",
           .shape = {1},
           .dtypes = {DType::kF32},
           .doc = "[1] what one unit of b stands for"})
      .in({.name = "bias",
           .shape = {N},
           .dtypes = {DType::kF32, DType::kBf16},
           .optional = true,
           .doc = "[N] added to every row"})
      .limit("M", (int64_t{1} << 31) - 1)
      .limit("N", (int64_t{1} << 31) - 1)
      .limit("K", (int64_t{1} << 31) - 1)
      .source(
          "Micikevicius et al. 2022, FP8 formats for deep learning, arXiv:2209.05433; scales as in "
          "cuBLASLt's per-tensor scaling")
      .reference(gemm_fp8_ref)
      .kernel({.name = "tiled", .build = gemm_fp8_tiles, .schedule = gemm_fp8_schedule})
      .cost(gemm_fp8_cost)
      .tolerance(gemm_fp8_tolerance)
      .cases(R"(
M=1 N=1 K=1 : smoke,ci
M=0 N=5 K=7 : smoke,ci
M=5 N=0 K=7 : smoke,ci
M=3 N=5 K=0 bias=1 : smoke,ci
M=7 N=17 K=33 : smoke,ci
M=7 N=17 K=33 a=f8e5m2 d=f32 : smoke,ci
M=70 N=72 K=144 bias=1 : smoke,ci
M=64 N=96 K=512 d=f16 : smoke,ci
M=16 N=48 K=80 a=f8e5m2 d=f16 bias=bf16 : smoke,ci
M=1 N=300 K=1030 d=f32 bias=bf16 : ci
M=130 N=260 K=400 a=f8e5m2 bias=1 : ci
M=257 N=511 K=1025 d=f32 : ci
M=191 N=96 K=2052 a=f8e5m2 d=f16 : ci
M=1 N=4096 K=4096 : llm
M=16 N=4096 K=4096 : llm
M=128 N=4096 K=4096 : llm
M=4096 N=4096 K=4096 : llm
M=8192 N=8192 K=8192 : full
)");
}

}  // namespace rooftile::ops
