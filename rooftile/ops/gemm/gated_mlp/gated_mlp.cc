// SPDX-License-Identifier: Apache-2.0
// out = act(x Wg^T) * (x Wu^T): the first half of a gated MLP (SwiGLU, GeGLU) as one kernel.
//
// Both products share each block of x, and gate and up meet in f32 before the only rounding: the
// unfused form writes and reads 4 M I values more and rounds twice more.
#include <cmath>

#include "rooftile/ops/gemm/gated_mlp/gated_mlp_ref.h"
#include "rooftile/ops/gemm/gemm_contract.h"
#include "rooftile/ops/gemm/gemm_program.h"
#include "rooftile/ops/gemm/gemm_sm90.h"
#include "rooftile/ops/numerics.h"
#include "rooftile/ops/strips_sm90.h"

namespace rooftile::ops {
namespace {

using dsl::Index;
using dsl::Kernel;
using dsl::Tile;

// The choice `activation` lists only the functions that gate; the first is kActSilu.
int64_t gating(const Config& config) { return config.flag("activation") + kActSilu; }

void gated_mlp_tiles(Kernel& k, const Config& config) {
  const Index M = k.dim("M"), I = k.dim("I"), K = k.dim("K");
  const Index BM = k.tile_param("BM"), BN = k.tile_param("BN"), BK = k.tile_param("BK");
  k.tiles({{"i", ceil_div(M, BM)}, {"j", ceil_div(I, BN)}}, [&](std::vector<Index> at) {
    const dsl::Range rows = dsl::block(at[0], BM, M), columns = dsl::block(at[1], BN, I);
    const Tile zero = k.zeros({rows.extent, columns.extent});
    auto sums = k.loop("kk", 0, K, BK, {zero, zero}, [&](Index kk, std::vector<Tile> sum) {
      const dsl::Range deep = dsl::range(kk, min(BK, K - kk));
      Tile x = k.load(k["x"](rows, deep), "x");                      // [BM, BK]
      Tile gate = k.load(k["w_gate"](columns, deep), "w_gate").t();  // [BK, BN]
      Tile up = k.load(k["w_up"](columns, deep), "w_up").t();        // [BK, BN]
      return std::vector<Tile>{mma(x, gate, sum[0], "mm_gate"), mma(x, up, sum[1], "mm_up")};
    });
    k.store(k["out"](rows, columns), activate(sums[0], gating(config)) * sums[1]);
  });
}

const std::vector<std::string> kWeights = {"w_gate", "w_up"};

Schedule sm90(const Config& config, const Env& dims, const TargetInfo& target) {
  const gpu::Labels products = {"mm_gate", "mm_up"};
  Schedule strips = sm90_strips_product(dims.at("M"), dims.at("I"), config.dtype("x"), products);
  std::optional<Schedule> tensor_cores = sm90_gemm_schedule({.rows = dims.at("M"),
                                                             .columns = dims.at("I"),
                                                             .depth = dims.at("K"),
                                                             .operand = config.dtype("x"),
                                                             .result = config.dtype("out"),
                                                             .left = "x",
                                                             .out = "out",
                                                             .right = kWeights,
                                                             .products = products},
                                                            target);
  if (!tensor_cores) return strips;
  tensor_cores->otherwise = {strips};
  return *tensor_cores;
}

Schedule small_m(const Config& config, const Env& dims, const TargetInfo& target) {
  if (target.gpu) return sm90(config, dims, target);
  return small_m_schedule(dims, dims.at("I"), config.dtype("x"), config.flag("packed_b") != 0,
                          kWeights, target);
}

// Two sums a block: half the width of a plain product keeps them in the same cache.
Schedule large_m(const Config& config, const Env& dims, const TargetInfo& target) {
  if (target.gpu) return sm90(config, dims, target);
  Schedule s = large_m_schedule(dims, dims.at("I"), config.dtype("x"), config.flag("packed_b") != 0,
                                kWeights, target);
  s.tile["BN"] = std::max<int64_t>(s.tile["BN"] / 2 / 32 * 32, 32);
  return s;
}

Cost gated_mlp_cost(const RefCall& call) {
  const auto M = static_cast<double>(call.dim("M")), I = static_cast<double>(call.dim("I"));
  const auto K = static_cast<double>(call.dim("K"));
  return {.flops = 4 * M * I * K, .bytes = bytes_of(call, "x", M * K + 2 * I * K + M * I)};
}

// With e the error of each f32 sum: |d(act(g) u)| <= 1.13 e |u| + e |act(g)| + f32 roundings.
Tolerance gated_mlp_tolerance(const RefCall& call) {
  const GatePair pair = gate_and_up_f64(call);
  const double largest_gate = max_abs(pair.activated), largest_up = max_abs(pair.up);
  const double x_norm = largest_row_norm(call["x"]);
  const double gate_error =
      sum_error(static_cast<double>(call.dim("K"))) * x_norm * largest_row_norm(call["w_gate"]);
  const double up_error =
      sum_error(static_cast<double>(call.dim("K"))) * x_norm * largest_row_norm(call["w_up"]);
  const double u = unit_roundoff(call.config.dtype("x"));
  Tolerance tol;
  tol.abs = 1.13 * gate_error * largest_up + up_error * largest_gate +
            16 * kF32Roundoff * largest_gate * largest_up;
  tol.rel = u + 16 * kF32Roundoff;
  // The same bound element by element, summed up in the norm.
  const double result = euclidean_norm(call["out"]);
  const double carried =
      1.13 * gate_error * euclidean_norm(pair.up) + up_error * euclidean_norm(pair.activated);
  tol.norm = tol.rel + (result > 0 ? carried / result : 0.0);
  tol.why =
      "half an ulp of out; each product's f32 sum min(K, 8 sqrt K) 2^-24 ||x|| ||w||, carried "
      "through the other factor; 16 f32 roundings in activation and product";
  return tol;
}

// The unfused form: two linear layers, then the gated activation, each on its own reference.
Status unfused(RefCall& call) {
  const OpDef* linear = find_op("gemm");
  const int64_t activation = call.config.flag("activation");
  const OpDef* gate_op = find_op(activation == 0 ? "silu_and_mul" : "gelu_and_mul");
  if (linear == nullptr || gate_op == nullptr) {
    Diag diag;
    diag.subject = "gated_mlp";
    diag.message = "an operator that it replaces is missing";
    return diag;
  }
  const int64_t M = call.dim("M"), I = call.dim("I"), K = call.dim("K");
  const auto linear_layer = [&](const NdArray& weight) {
    RefCall part;
    part.dims = {{"M", M}, {"N", I}, {"K", K}};
    part.config.flags = {{"layout", 0}, {"activation", kActNone}, {"packed_b", 0}};
    part.config.present = {{"bias", false}, {"c", false}};
    for (const char* tensor : {"a", "b", "d"}) part.config.dtypes[tensor] = call.config.dtype("x");
    part.attrs = {{"alpha", 1.0}, {"beta", 1.0}};
    part.tensors["a"] = call["x"];
    part.tensors["b"] = weight;
    part.tensors["d"] = {{M, I}, std::vector<double>(static_cast<size_t>(M * I), 0.0)};
    linear->reference_fn(part);
    return part.tensors["d"];
  };
  const NdArray gate = linear_layer(call["w_gate"]), up = linear_layer(call["w_up"]);
  RefCall last;
  last.dims = {{"T", M}, {"H", I}};
  last.config.flags = {{"approximate", activation == 2 ? 1 : 0}};
  for (const char* tensor : {"x", "out"}) last.config.dtypes[tensor] = call.config.dtype("x");
  NdArray& joined = last.tensors["x"];
  joined = {{M, 2 * I}, std::vector<double>(static_cast<size_t>(2 * M * I), 0.0)};
  for (int64_t m = 0; m < M; ++m)
    for (int64_t i = 0; i < I; ++i) {
      joined({m, i}) = gate({m, i});
      joined({m, I + i}) = up({m, i});
    }
  last.tensors["out"] = {{M, I}, std::vector<double>(static_cast<size_t>(M * I), 0.0)};
  gate_op->reference_fn(last);
  call["out"] = last.tensors["out"];
  return {};
}

}  // namespace

OpDef gated_mlp() {
  const Expr M = Expr::sym("M"), I = Expr::sym("I"), K = Expr::sym("K");
  return OpDef("gemm", "gated_mlp", "gate and up projections of a gated MLP in one kernel")
      .out({.name = "out", .shape = {M, I}, .same_dtype_as = "x", .doc = "act(x Wg^T) * (x Wu^T)"})
      .in({.name = "x",
           .shape = {M, K},
           .dtypes = {DType::kBf16, DType::kF16, DType::kF32},
           .doc = "one row a token"})
      .in({.name = "w_gate",
           .shape = {I, K},
           .same_dtype_as = "x",
           .doc = "weights of the gate, which the activation acts on"})
      .in({.name = "w_up", .shape = {I, K}, .same_dtype_as = "x", .doc = "weights of the factor"})
      .choice("activation", {"silu", "gelu", "gelu_tanh"}, "gating function")
      .cpu_flag("packed_b", false, "both weights were packed beforehand for this machine")
      .source("Shazeer 2020, GLU Variants Improve Transformer, arXiv:2002.05202")
      .reference(gated_mlp_ref)
      .replaces({"gemm", "silu_and_mul"}, unfused)
      .kernel({.name = "small_m",
               .build = gated_mlp_tiles,
               .schedule = small_m,
               .applies = [](const Config&, const Env& dims,
                             const TargetInfo&) { return is_small_m(dims); }})
      .kernel({.name = "large_m", .build = gated_mlp_tiles, .schedule = large_m})
      .cost(gated_mlp_cost)
      .tolerance(gated_mlp_tolerance)
      .cases(R"(
M=1 I=1 K=1 : smoke,ci
M=0 I=3 K=5 : smoke,ci
M=4 I=3 K=0 : smoke,ci
M=7 I=17 K=33 : smoke,ci
M=7 I=17 K=33 dtype=f32 activation=gelu : smoke,ci
M=16 I=32 K=64 packed_b=1 : smoke,ci
M=17 I=33 K=65 packed_b=1 activation=gelu_tanh dtype=f16 : smoke,ci
M=33 I=96 K=130 dtype=f32 : smoke,ci
M=130 I=257 K=513 : ci
M=257 I=300 K=1025 packed_b=1 : ci
M=1 I=14336 K=4096 packed_b=1 : llm
M=16 I=14336 K=4096 packed_b=1 : llm
M=128 I=4864 K=896 packed_b=1 : llm
M=512 I=4864 K=896 packed_b=1 : llm
M=512 I=14336 K=4096 packed_b=1 : full
)");
}

}  // namespace rooftile::ops
