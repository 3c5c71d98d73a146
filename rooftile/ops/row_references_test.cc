// SPDX-License-Identifier: Apache-2.0
// The float64 references of the row operators against values known in closed form: what the rest of
// the ladder rests on.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "rooftile/check/case_inputs.h"
#include "rooftile/ops/op_def.h"

namespace rooftile {
namespace {

// A call of `op` with zeroed tensors of the case's shapes.
RefCall call_of(const char* op, const std::string& text) {
  const OpDef* def = find_op(op);
  auto parsed = check::parse_case(text);
  auto call = check::resolve_case(*def, *parsed);
  EXPECT_TRUE(call.ok()) << call.diag().str();
  EXPECT_TRUE(check::make_inputs(*def, *call, 1).ok());
  for (auto& [name, tensor] : call->tensors) std::fill(tensor.data.begin(), tensor.data.end(), 0.0);
  return *call;
}

void run(const char* op, RefCall& call) { find_op(op)->reference_fn(call); }

TEST(RowReferences, RmsNormOfThreeAndFour) {
  RefCall call = call_of("rms_norm", "T=1 H=2 dtype=f32 weight_plus_one=1 eps=1e-30");
  call["x"].data = {3, 4};  // mean square 12.5
  call["weight"].data = {0, 1};
  run("rms_norm", call);
  EXPECT_NEAR(call["out"].data[0], 3 / std::sqrt(12.5), 1e-15);
  EXPECT_NEAR(call["out"].data[1], 2 * 4 / std::sqrt(12.5), 1e-15);
}

TEST(RowReferences, LayerNormOfTwoValuesIsPlusMinusOne) {
  RefCall call = call_of("layer_norm", "T=1 H=2 dtype=f32 bias=1 eps=1e-30");
  call["x"].data = {1e6, 1e6 + 2};
  call["weight"].data = {3, 3};
  call["bias"].data = {10, 10};
  run("layer_norm", call);
  EXPECT_NEAR(call["out"].data[0], 7, 1e-9);
  EXPECT_NEAR(call["out"].data[1], 13, 1e-9);
}

TEST(RowReferences, AddRmsNormRoundsTheResidualToItsType) {
  RefCall call = call_of("add_rms_norm", "T=1 H=1 dtype=bf16 eps=1e-30");
  call["x"].data = {1};
  call["residual"].data = {0x1p-9};  // 1 + 2^-9 is not a bf16: rounds to 1
  call["weight"].data = {5};
  run("add_rms_norm", call);
  EXPECT_EQ(call["residual"].data[0], 1);
  EXPECT_NEAR(call["out"].data[0], 5, 1e-12);
}

TEST(RowReferences, SoftmaxOfLogarithms) {
  RefCall call = call_of("softmax", "T=1 V=3 dtype=f32 scale=2");
  for (size_t i = 0; i < 3; ++i) call["x"].data[i] = 0.5 * std::log(static_cast<double>(i + 1));
  run("softmax", call);
  for (size_t i = 0; i < 3; ++i)
    EXPECT_NEAR(call["out"].data[i], static_cast<double>(i + 1) / 6, 1e-15);
}

TEST(RowReferences, GatedActivationsAtKnownPoints) {
  RefCall silu = call_of("silu_and_mul", "T=1 H=2 dtype=f32");
  silu["x"].data = {0, std::log(3.0), 7, 2};  // sigmoid(log 3) = 3/4
  run("silu_and_mul", silu);
  EXPECT_EQ(silu["out"].data[0], 0);
  EXPECT_NEAR(silu["out"].data[1], std::log(3.0) * 0.75 * 2, 1e-15);

  // Phi(1) = 0.841344746068543; gelu(-x) = gelu(x) - x.
  RefCall gelu = call_of("gelu_and_mul", "T=1 H=2 dtype=f32");
  gelu["x"].data = {1, -1, 2, 1};
  run("gelu_and_mul", gelu);
  EXPECT_NEAR(gelu["out"].data[0], 2 * 0.841344746068543, 1e-14);
  EXPECT_NEAR(gelu["out"].data[1], 0.841344746068543 - 1, 1e-14);

  RefCall approximate = call_of("gelu_and_mul", "T=1 H=1 dtype=f32 approximate=tanh");
  approximate["x"].data = {1, 1};
  run("gelu_and_mul", approximate);
  EXPECT_NEAR(approximate["out"].data[0],
              0.5 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * 1.044715)), 1e-15);
}

TEST(RowReferences, RopeByAQuarterTurnSwapsThePair) {
  for (const bool interleaved : {false, true}) {
    RefCall call = call_of("rope", std::string("T=1 Hq=1 D=5 R=4 P=1 dtype=f32 interleaved=") +
                                       (interleaved ? "1" : "0"));
    call["cos_sin"].data = {0, 1, 1, 0};  // first pair: 90 degrees; second: none
    call["q"].data = {1, 2, 3, 4, 5};
    run("rope", call);
    const std::vector<double> want =
        interleaved ? std::vector<double>{-2, 1, 3, 4, 5} : std::vector<double>{-3, 2, 1, 4, 5};
    EXPECT_EQ(call["q"].data, want);
  }
}

TEST(RowReferences, EmbeddingCopiesOrZeroes) {
  RefCall call = call_of("embedding", "T=3 V=2 H=1 dtype=f32 zero_out_of_range=1");
  call["table"].data = {7, 8};
  call["ids"].data = {1, -1, 2};
  run("embedding", call);
  EXPECT_EQ(call["out"].data, (std::vector<double>{8, 0, 0}));
}

TEST(RowReferences, CrossEntropyOfEqualLogitsIsLogV) {
  RefCall call = call_of("cross_entropy", "T=2 V=4 dtype=f32 lse=1 label_smoothing=0.1 z_loss=0.5");
  call["logits"].data = {3, 3, 3, 3, 0, 0, 0, 0};
  call["targets"].data = {2, -100};
  run("cross_entropy", call);
  const double lse = 3 + std::log(4.0);
  EXPECT_NEAR(call["lse"].data[0], lse, 1e-15);
  EXPECT_NEAR(call["loss"].data[0], std::log(4.0) + 0.5 * lse * lse, 1e-14);
  EXPECT_EQ(call["loss"].data[1], 0);
  EXPECT_NEAR(call["lse"].data[1], std::log(4.0), 1e-15);
}

TEST(RowReferences, ArgmaxPrefersTheFirstAndNan) {
  RefCall call = call_of("argmax", "T=2 V=4 dtype=f32");
  call["x"].data = {1, 5, 5, 0, 9, std::nan(""), 10, std::nan("")};
  run("argmax", call);
  EXPECT_EQ(call["out"].data, (std::vector<double>{1, 1}));
}

// With one token left there is nothing to draw: each filter alone must leave only the largest.
TEST(RowReferences, SampleFiltersKeepTheMostProbable) {
  for (const char* filter : {"top_k=1", "top_p=1", "min_p=1"}) {
    RefCall call = call_of("sample", std::string("B=50 V=4 dtype=f32 ") + filter);
    for (int64_t b = 0; b < 50; ++b) {
      call["logits"]({b, 1}) = 1;
      call["temperature"]({b}) = 1;
      call["seed"]({b}) = static_cast<double>(b);
      if (call.has("top_k")) call["top_k"]({b}) = 1;
      if (call.has("top_p"))
        call["top_p"]({b}) = 0.4;  // the largest has probability e / (e + 3) = 0.475
      if (call.has("min_p")) call["min_p"]({b}) = 0.5;  // the others are 1/e = 0.37 as probable
    }
    run("sample", call);
    EXPECT_EQ(call["out"].data, std::vector<double>(50, 1.0)) << filter;
  }
}

}  // namespace
}  // namespace rooftile
