// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "rooftile/compile/target.h"
#include "rooftile/ops/gemm/gemm_reference.h"
#include "rooftile/ops/reference_case.h"

namespace rooftile::ops {
namespace {

TEST(GemmReference, SmallProductBothLayouts) {
  RefCall nt = reference_case("gemm", "M=2 N=2 K=3 dtype=f32");
  nt["a"].data = {1, 2, 3, 4, 5, 6};
  nt["b"].data = {1, 0, -1, 2, 1, 0};  // rows are columns of the product
  EXPECT_EQ(run_reference("gemm", nt)["d"].data, (std::vector<double>{-2, 4, -2, 13}));
  RefCall nn = reference_case("gemm", "M=2 N=2 K=3 layout=nn dtype=f32");
  EXPECT_EQ(nn["b"].shape, (std::vector<int64_t>{3, 2}));
  nn["a"].data = {1, 2, 3, 4, 5, 6};
  nn["b"].data = {1, 2, 0, 1, -1, 0};
  EXPECT_EQ(run_reference("gemm", nn)["d"].data, (std::vector<double>{-2, 4, -2, 13}));
}

// 0.5 * 4 + 1 = 3, rectified, plus 2 * 10: the order is scale, bias, activation, residual.
TEST(GemmReference, EpilogueOrder) {
  RefCall call =
      reference_case("gemm", "M=1 N=2 K=1 dtype=f32 bias=f32 c=1 activation=relu alpha=0.5 beta=2");
  call["a"].data = {4};
  call["b"].data = {1, -1};
  call["bias"].data = {1, 1};
  call["c"].data = {10, 10};
  EXPECT_EQ(run_reference("gemm", call)["d"].data, (std::vector<double>{23, 20}));
}

TEST(GemmReference, FactorsOfZeroReadNothing) {
  RefCall call = reference_case("gemm", "M=1 N=1 K=1 dtype=f32 c=1 alpha=0 beta=0");
  call["a"].data = {NAN};
  call["c"].data = {NAN};
  EXPECT_EQ(run_reference("gemm", call)["d"].data, (std::vector<double>{0}));
}

TEST(GemmReference, Activations) {
  EXPECT_EQ(activation_f64(-2, 1), 0);
  EXPECT_NEAR(activation_f64(1, 2), 0.7310585786300049, 1e-15);  // 1 / (1 + e^-1)
  EXPECT_NEAR(activation_f64(1, 3), 0.8413447460685429, 1e-15);  // Phi(1)
  EXPECT_NEAR(activation_f64(1, 4), 0.8411919906082768, 1e-15);  // PyTorch, approximate='tanh'
  EXPECT_NEAR(activation_f64(-30, 3), 0, 1e-15);
}

TEST(GemmContract, RefusesWhatDoesNotExist) {
  const OpDef& op = *find_op("gemm");
  const auto code = [&](std::map<std::string, DType, std::less<>> dtypes, int64_t activation,
                        bool bias) {
    Config config;
    config.dtypes = std::move(dtypes);
    config.flags["activation"] = activation;
    config.present["bias"] = bias;
    const Status status = op.check_config(config);
    return status.ok() ? "ok" : status.diag().argument;
  };
  EXPECT_EQ(code({{"a", DType::kI8}, {"d", DType::kI32}}, 1, false), "ok");
  EXPECT_EQ(code({{"a", DType::kI8}, {"d", DType::kF16}}, 0, false), "d");
  EXPECT_EQ(code({{"a", DType::kBf16}, {"d", DType::kF16}}, 0, false), "d");
  EXPECT_EQ(code({{"a", DType::kI8}, {"d", DType::kI32}}, 3, false), "activation");
  EXPECT_EQ(code({{"a", DType::kI8}, {"d", DType::kI32}, {"bias", DType::kF32}}, 0, true), "bias");
}

TEST(GemmCost, CountsEachTensorOnce) {
  const RefCall call = reference_case("gemm", "M=2 N=3 K=5 bias=bf16 c=1");
  const Cost cost = find_op("gemm")->cost_fn(call);
  EXPECT_EQ(cost.flops, 60);
  EXPECT_EQ(cost.bytes, 2 * (6 + 10 + 15 + 3 + 6));
}

// Measured choices: whole tiles, parts of K, and runs of steps over the last waves.
TEST(GemmSm90, DividesKWhereTilesAreFewOrTheLastWaveIsNearlyEmpty) {
  const auto chosen = [](const std::string& shape) {
    const RefCall call = reference_case("gemm", shape + " dtype=bf16");
    const OpDef& op = *find_op("gemm");
    const TargetInfo& target = sm90_target();
    return op.candidates(call.config, call.dims, target, Route::kTile)
        .at(0)
        ->schedule(call.config, call.dims, target)
        .name;
  };
  EXPECT_EQ(chosen("M=128 N=64 K=4096"), "wgmma_64x64_k6");
  EXPECT_EQ(chosen("M=65 N=24 K=64"), "wgmma_64x64");
  EXPECT_EQ(chosen("M=2304 N=2304 K=64"), "wgmma_128x192_c2");
  EXPECT_EQ(chosen("M=1 N=34048 K=64"), "swap_128x8_stream2");
  EXPECT_EQ(chosen("M=1 N=28672 K=64"), "swap_128x8_stream1");
}

TEST(GemmBatchedReference, ProductsAreIndependent) {
  RefCall call = reference_case("gemm_batched", "B=2 M=1 N=1 K=2 dtype=f32");
  call["a"].data = {1, 2, 3, 4};
  call["b"].data = {5, 6, 7, 8};
  EXPECT_EQ(run_reference("gemm_batched", call)["d"].data, (std::vector<double>{17, 53}));
}

TEST(GatedMlpReference, GateTimesUp) {
  RefCall call = reference_case("gated_mlp", "M=1 I=1 K=2 dtype=f32");
  call["x"].data = {1, 2};
  call["w_gate"].data = {1, 0};
  call["w_up"].data = {0, 3};
  EXPECT_NEAR(run_reference("gated_mlp", call)["out"].data[0], 6 * 0.7310585786300049, 1e-14);
}

}  // namespace
}  // namespace rooftile::ops
