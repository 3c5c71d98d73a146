// SPDX-License-Identifier: Apache-2.0
// D[b] = act(alpha * A[b] B[b] + bias) + beta * C[b]: independent products of one shape.
//
// The tile program of gemm with one more parallel index. One B for all products is a B whose batch
// stride is 0.
#include "rooftile/ops/gemm/gemm_contract.h"
#include "rooftile/ops/gemm/gemm_program.h"
#include "rooftile/ops/gemm/gemm_sm90.h"
#include "rooftile/ops/strips_sm90.h"

namespace rooftile::ops {

void gemm_batched_ref(RefCall& call);

namespace {

void gemm_batched_tiles(dsl::Kernel& k, const Config& config) {
  const dsl::Index B = k.dim("B"), M = k.dim("M"), N = k.dim("N");
  const dsl::Index BM = k.tile_param("BM"), BN = k.tile_param("BN"), BK = k.tile_param("BK");
  k.tiles({{"batch", B}, {"i", ceil_div(M, BM)}, {"j", ceil_div(N, BN)}},
          [&](std::vector<dsl::Index> at) {
            const ResultBlock block = {{at[0]}, dsl::block(at[1], BM, M), dsl::block(at[2], BN, N)};
            dsl::Tile sum = blocked_product(k, config, block, BK);  // [BM, BN]
            store_with_epilogue(k, config, block, sum);
          });
}

// Products of a batch are shared among the threads, so each may be one block wide. B is packed
// where it is used: there is no phase before that could know which products share it.
Schedule sm90(const Config& config, const Env& dims, const TargetInfo& target) {
  Schedule strips = sm90_strips_product(dims.at("M"), dims.at("N"), config.dtype("a"));
  std::optional<Schedule> tensor_cores = sm90_gemm_schedule({.rows = dims.at("M"),
                                                             .columns = dims.at("N"),
                                                             .depth = dims.at("K"),
                                                             .batches = dims.at("B"),
                                                             .operand = config.dtype("a"),
                                                             .result = config.dtype("d"),
                                                             .b_is_kn = config.flag("layout") == 1},
                                                            target);
  if (!tensor_cores) return strips;
  tensor_cores->otherwise = {strips};
  return *tensor_cores;
}

Schedule batched_schedule(const Config& config, const Env& dims, const TargetInfo& target) {
  if (target.gpu) return sm90(config, dims, target);
  const DType dtype = config.dtype("a");
  Schedule s = is_small_m(dims) ? small_m_schedule(dims, dims.at("N"), dtype, false, {"b"}, target)
                                : large_m_schedule(dims, dims.at("N"), dtype, false, {"b"}, target);
  s.operand["b"] = OperandForm::kPack;
  return s;
}

}  // namespace

OpDef gemm_batched() {
  OpDef op("gemm", "gemm_batched", "independent matrix products of one shape");
  declare_gemm(op, {Expr::sym("B")});
  op.source("PyTorch baddbmm with a cuBLASLt-style epilogue")
      .reference(gemm_batched_ref)
      .kernel({.name = "tiled", .build = gemm_batched_tiles, .schedule = batched_schedule})
      .cases(R"(
B=1 M=1 N=1 K=1 : smoke,ci
B=0 M=4 N=4 K=4 : smoke,ci
B=3 M=0 N=4 K=4 : smoke,ci
B=3 M=2 N=5 K=0 bias=1 : smoke,ci
B=3 M=7 N=17 K=33 : smoke,ci
B=2 M=17 N=33 K=65 dtype=f32 layout=nn : smoke,ci
B=4 M=5 N=40 K=19 a=i8 d=i32 : smoke,ci
B=2 M=20 N=33 K=21 dtype=f16 bias=1 activation=silu c=1 beta=0.5 alpha=2 : smoke,ci
B=5 M=33 N=70 K=130 bias=1 c=1 activation=gelu_tanh : ci
B=9 M=65 N=129 K=257 layout=nn : ci
B=32 M=128 N=128 K=128 : llm
B=32 M=1 N=4096 K=128 : llm
B=8 M=512 N=512 K=512 dtype=f32 : full
)");
  return op;
}

}  // namespace rooftile::ops
