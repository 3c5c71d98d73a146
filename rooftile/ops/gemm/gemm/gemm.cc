// SPDX-License-Identifier: Apache-2.0
// D = act(alpha * A B + bias) + beta * C: the linear layer.
//
// One tile program: a block of D is a sum of block products over K, finished in f32 (i32 for an i32
// result) and rounded once. The schedules differ: up to 16 rows the weights are streamed, above the
// block of A stays in cache.
#include "rooftile/ops/gemm/gemm/gemm_raw.h"
#include "rooftile/ops/gemm/gemm_contract.h"
#include "rooftile/ops/gemm/gemm_program.h"
#include "rooftile/ops/gemm/gemm_sm90.h"
#include "rooftile/ops/strips_sm90.h"

namespace rooftile::ops {

void gemm_ref(RefCall& call);

namespace {

void gemm_tiles(dsl::Kernel& k, const Config& config) {
  const dsl::Index M = k.dim("M"), N = k.dim("N");
  const dsl::Index BM = k.tile_param("BM"), BN = k.tile_param("BN"), BK = k.tile_param("BK");
  k.tiles({{"i", ceil_div(M, BM)}, {"j", ceil_div(N, BN)}}, [&](std::vector<dsl::Index> at) {
    const ResultBlock block = {{}, dsl::block(at[0], BM, M), dsl::block(at[1], BN, N)};
    dsl::Tile sum = blocked_product(k, config, block, BK);  // [BM, BN]
    store_with_epilogue(k, config, block, sum);
  });
}

Schedule sm90(const Config& config, const Env& dims, const TargetInfo& target) {
  std::optional<Schedule> tensor_cores = sm90_gemm_schedule({.rows = dims.at("M"),
                                                             .columns = dims.at("N"),
                                                             .depth = dims.at("K"),
                                                             .operand = config.dtype("a"),
                                                             .result = config.dtype("d"),
                                                             .b_is_kn = config.flag("layout") == 1},
                                                            target);
  Schedule strips = sm90_strips_product(dims.at("M"), dims.at("N"), config.dtype("a"));
  if (!tensor_cores) return strips;
  tensor_cores->otherwise = {strips};
  return *tensor_cores;
}

Schedule small_m(const Config& config, const Env& dims, const TargetInfo& target) {
  if (target.gpu) return sm90(config, dims, target);
  return small_m_schedule(dims, dims.at("N"), config.dtype("a"), config.flag("packed_b") != 0,
                          {"b"}, target);
}

Schedule large_m(const Config& config, const Env& dims, const TargetInfo& target) {
  if (target.gpu) return sm90(config, dims, target);
  return large_m_schedule(dims, dims.at("N"), config.dtype("a"), config.flag("packed_b") != 0,
                          {"b"}, target);
}

}  // namespace

OpDef gemm() {
  OpDef op("gemm", "gemm", "matrix product with bias, activation and residual");
  declare_gemm(op, {});
  op.cpu_flag("packed_b", false,
              "b was packed beforehand for this machine (weights used many times)")
      .source(
          "PyTorch Linear with a cuBLASLt-style epilogue; order: scale, bias, activation, "
          "residual, cast")
      .reference(gemm_ref)
      .kernel({.name = "small_m",
               .build = gemm_tiles,
               .schedule = small_m,
               .applies = [](const Config&, const Env& dims,
                             const TargetInfo&) { return is_small_m(dims); }})
      .kernel({.name = "large_m", .build = gemm_tiles, .schedule = large_m})
      .kernel(gemm_raw_few_rows())
      .kernel(gemm_raw_tiles())
      .cases(R"(
M=1 N=1 K=1 : smoke,ci
M=0 N=5 K=7 : smoke,ci
M=5 N=0 K=7 dtype=f32 : smoke,ci
M=3 N=5 K=0 bias=1 activation=relu : smoke,ci
M=3 N=5 K=0 bias=1 c=1 beta=0.5 dtype=f32 : smoke,ci
M=7 N=17 K=33 : smoke,ci
M=7 N=17 K=33 dtype=f32 : smoke,ci
M=7 N=17 K=33 dtype=f16 : smoke,ci
M=7 N=17 K=33 a=i8 d=i32 : smoke,ci
M=15 N=31 K=63 packed_b=1 : smoke,ci
M=16 N=32 K=64 packed_b=1 dtype=f32 : smoke,ci
M=17 N=33 K=65 packed_b=1 a=i8 d=i32 : smoke,ci
M=17 N=33 K=65 layout=nn : smoke,ci
M=17 N=33 K=65 layout=nn dtype=f32 bias=1 : smoke,ci
M=9 N=40 K=31 layout=nn a=i8 d=i32 : smoke,ci
M=4 N=70 K=19 layout=nn packed_b=1 dtype=f16 : smoke,ci
M=33 N=65 K=129 bias=1 activation=silu c=1 beta=0.5 alpha=0.25 : smoke,ci
M=12 N=48 K=40 bias=1 activation=gelu dtype=f32 : smoke,ci
M=12 N=48 K=40 bias=1 activation=gelu_tanh dtype=f16 : smoke,ci
M=12 N=48 K=40 d=f32 bias=f32 activation=relu c=1 : smoke,ci
M=20 N=36 K=52 a=i8 d=bf16 alpha=0.001 bias=f32 activation=gelu : smoke,ci
M=20 N=36 K=52 a=i8 d=f32 alpha=0.001 : smoke,ci
M=20 N=36 K=52 a=i8 d=i32 bias=i32 activation=relu c=1 beta=1 : smoke,ci
M=6 N=9 K=24 a=i8 d=i32 c=1 beta=-3 alpha=0.5 : smoke,ci
M=5 N=9 K=12 alpha=0 c=1 beta=2 : smoke,ci
M=5 N=9 K=12 c=1 beta=0 : smoke,ci
M=255 N=513 K=127 : ci
M=257 N=511 K=1025 : ci
M=191 N=96 K=2052 a=i8 d=i32 : ci
M=193 N=160 K=1030 packed_b=1 : ci
M=300 N=700 K=513 packed_b=1 dtype=f32 activation=silu bias=1 : ci
M=128 N=256 K=64 bias=1 c=1 : ci
M=1 N=384 K=64 bias=1 c=1 : ci
M=576 N=16 K=7168 : ci
M=5 N=776 K=328 : ci
M=40 N=1000 K=136 alpha=0.25 : ci
M=130 N=776 K=264 : ci
M=300 N=1032 K=520 alpha=2 : ci
M=65536 N=10 K=10 bias=1 : ci
M=1 N=4096 K=4096 packed_b=1 : llm
M=16 N=4096 K=4096 packed_b=1 : llm
M=128 N=4096 K=4096 packed_b=1 : llm
M=1024 N=4096 K=4096 packed_b=1 : llm
M=1 N=1024 K=4096 packed_b=1 : llm
M=16 N=1024 K=4096 packed_b=1 : llm
M=128 N=1024 K=4096 packed_b=1 : llm
M=1024 N=1024 K=4096 packed_b=1 : llm
M=1 N=4096 K=1024 packed_b=1 : llm
M=16 N=4096 K=1024 packed_b=1 : llm
M=128 N=4096 K=1024 packed_b=1 : llm
M=1024 N=4096 K=1024 packed_b=1 : llm
M=1 N=4096 K=4096 packed_b=1 dtype=f32 : llm
M=16 N=4096 K=4096 packed_b=1 dtype=f32 : llm
M=128 N=4096 K=4096 packed_b=1 dtype=f32 : llm
M=1024 N=4096 K=4096 packed_b=1 dtype=f32 : llm
M=1 N=1024 K=4096 packed_b=1 dtype=f32 : llm
M=16 N=1024 K=4096 packed_b=1 dtype=f32 : llm
M=128 N=1024 K=4096 packed_b=1 dtype=f32 : llm
M=1024 N=1024 K=4096 packed_b=1 dtype=f32 : llm
M=1 N=4096 K=1024 packed_b=1 dtype=f32 : llm
M=16 N=4096 K=1024 packed_b=1 dtype=f32 : llm
M=128 N=4096 K=1024 packed_b=1 dtype=f32 : llm
M=1024 N=4096 K=1024 packed_b=1 dtype=f32 : llm
M=1 N=4096 K=4096 packed_b=1 a=i8 d=i32 : llm
M=16 N=4096 K=4096 packed_b=1 a=i8 d=i32 : llm
M=128 N=4096 K=4096 packed_b=1 a=i8 d=i32 : llm
M=1024 N=4096 K=4096 packed_b=1 a=i8 d=i32 : llm
M=1 N=1024 K=4096 packed_b=1 a=i8 d=i32 : llm
M=16 N=1024 K=4096 packed_b=1 a=i8 d=i32 : llm
M=128 N=1024 K=4096 packed_b=1 a=i8 d=i32 : llm
M=1024 N=1024 K=4096 packed_b=1 a=i8 d=i32 : llm
M=1 N=4096 K=1024 packed_b=1 a=i8 d=i32 : llm
M=16 N=4096 K=1024 packed_b=1 a=i8 d=i32 : llm
M=128 N=4096 K=1024 packed_b=1 a=i8 d=i32 : llm
M=1024 N=4096 K=1024 packed_b=1 a=i8 d=i32 : llm
M=512 N=14336 K=4096 packed_b=1 : full
M=2048 N=2048 K=2048 : full
M=1000 N=1000 K=1000 dtype=f32 layout=nn : full
M=655360 N=10 K=10 bias=1 dtype=f32 : full
M=4096 N=4096 K=4096 : large
M=8192 N=8192 K=8192 : large
M=8192 N=8192 K=8192 dtype=f16 : large
M=8192 N=8192 K=8192 a=i8 d=i32 : large
)");
  return op;
}

}  // namespace rooftile::ops
