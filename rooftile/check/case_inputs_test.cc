// SPDX-License-Identifier: Apache-2.0
#include "rooftile/check/case_inputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace rooftile::check {
namespace {

using testing::HasSubstr;

OpDef sample_op() {
  const Expr T = Expr::sym("T"), H = Expr::sym("H"), B = Expr::sym("B");
  OpDef op("test", "sample", "for tests");
  op.out({.name = "y", .shape = {T, H}, .same_dtype_as = "x"})
      .in({.name = "x", .shape = {T, H}, .dtypes = {DType::kBf16, DType::kF32}})
      .in({.name = "bias", .shape = {H}, .dtypes = {DType::kF32, DType::kBf16}, .optional = true})
      .in({.name = "starts", .shape = {B + 1}, .dtypes = {DType::kI32}})
      .in({.name = "ids", .shape = {T}, .dtypes = {DType::kI32}})
      .attr({.name = "eps", .default_value = 1e-6})
      .flag("causal", false, "")
      .choice("act", {"none", "relu"}, "")
      .needs(H % 2 == 0, "pairs of columns")
      .index_range("ids", 3, 10, "rows of a table")
      .non_decreasing("starts", "")
      .first_is("starts", 0, "")
      .last_is("starts", T, "");
  return op;
}

Result<RefCall> resolve(std::string_view text) {
  auto test_case = parse_case(text);
  if (!test_case) return test_case.status();
  return resolve_case(sample_op(), *test_case);
}

TEST(ResolveCase, ReadsSizesDtypesFlagsAndAttributes) {
  auto call = resolve("T=5 H=8 B=2 dtype=f32 bias=1 causal=1 act=relu eps=1e-3");
  ASSERT_TRUE(call.ok()) << call.diag().str();
  EXPECT_EQ(call->dim("T"), 5);
  EXPECT_EQ(call->config.dtype("x"), DType::kF32);
  EXPECT_EQ(call->config.dtype("y"), DType::kF32);
  EXPECT_EQ(call->config.dtype("starts"), DType::kI32);
  EXPECT_TRUE(call->config.has("bias"));
  EXPECT_EQ(call->config.flag("causal"), 1);
  EXPECT_EQ(call->config.flag("act"), 1);
  EXPECT_DOUBLE_EQ(call->attr("eps"), 1e-3);
}

TEST(ResolveCase, HasDefaults) {
  auto call = resolve("T=5 H=8 B=2");
  ASSERT_TRUE(call.ok()) << call.diag().str();
  EXPECT_EQ(call->config.dtype("x"), DType::kBf16);
  EXPECT_FALSE(call->config.has("bias"));
  EXPECT_EQ(call->config.flag("act"), 0);
  EXPECT_DOUBLE_EQ(call->attr("eps"), 1e-6);
}

TEST(ResolveCase, ATensorsOwnDtypeComesBeforeTheCommonOne) {
  auto call = resolve("T=1 H=2 B=1 dtype=f32 bias=bf16");
  ASSERT_TRUE(call.ok()) << call.diag().str();
  EXPECT_EQ(call->config.dtype("x"), DType::kF32);
  EXPECT_EQ(call->config.dtype("bias"), DType::kBf16);
  EXPECT_TRUE(call->config.has("bias"));
}

struct BadCase {
  const char* text;
  const char* message;
  const char* detail;
};

class BadCases : public testing::TestWithParam<BadCase> {};

TEST_P(BadCases, AreRefused) {
  auto call = resolve(GetParam().text);
  ASSERT_FALSE(call.ok());
  EXPECT_EQ(call.diag().code, ErrorCode::kUsage);
  EXPECT_THAT(call.diag().str(), HasSubstr(GetParam().message));
  EXPECT_THAT(call.diag().str(), HasSubstr(GetParam().detail));
}

INSTANTIATE_TEST_SUITE_P(
    CaseInputs, BadCases,
    testing::Values(BadCase{"T=5", "leaves sizes open", "B, H"},  //
                    BadCase{"T=5 H=8 B=2 Q=3", "does not have", "Q"},
                    BadCase{"T=5 H=8 B", "not NAME=VALUE", "B"},
                    BadCase{"T=5 H=8 B=", "not NAME=VALUE", "B="},
                    BadCase{"T=5 H=eight B=2", "not a size", "H=eight"},
                    BadCase{"T=-5 H=8 B=2", "not a size", "T=-5"},
                    BadCase{"T=5.5 H=8 B=2", "not a size", "T=5.5"},
                    BadCase{"T=5 H=8 B=2 dtype=f64", "no tensor takes this dtype", "f64"},
                    BadCase{"T=5 H=8 B=2 dtype=i8", "no tensor takes this dtype", "i8"},
                    BadCase{"T=5 H=8 B=2 act=tanh", "not a value of this flag", "none, relu"},
                    BadCase{"T=5 H=8 B=2 causal=2", "not a value of this flag", "causal=2"},
                    BadCase{"T=5 H=8 B=2 bias=2", "not a dtype", "bias=2"},
                    BadCase{"T=5 H=8 B=2 x=1", "not a dtype", "x=1"},
                    BadCase{"T=5 H=8 B=2 eps=small", "not a number", "eps=small"},
                    BadCase{"T=5 H=7 B=2", "pairs of columns", "H % 2"}));

TEST(MakeInputs, FollowsTheClausesOfIndexTensors) {
  const OpDef op = sample_op();
  auto call = resolve("T=50 H=8 B=6");
  ASSERT_TRUE(call.ok());
  ASSERT_TRUE(make_inputs(op, *call, 7).ok());
  const std::vector<double>& starts = (*call)["starts"].data;
  EXPECT_EQ(starts.front(), 0);
  EXPECT_EQ(starts.back(), 50);
  EXPECT_TRUE(std::is_sorted(starts.begin(), starts.end()));
  for (double id : (*call)["ids"].data) {
    EXPECT_GE(id, 3);
    EXPECT_LT(id, 10);
  }
  EXPECT_EQ(call->tensors.count("bias"), 0u);
}

// Found by a counterexample with an empty table, whose call cannot be made.
TEST(MakeInputs, RefusesSizesAtWhichAnIndexHasNoValue) {
  OpDef op("test", "gather", "for tests");
  op.out({.name = "y", .shape = {Expr::sym("T")}, .same_dtype_as = "table"})
      .in({.name = "table", .shape = {Expr::sym("V")}, .dtypes = {DType::kF32}})
      .in({.name = "ids", .shape = {Expr::sym("T")}, .dtypes = {DType::kI32}})
      .index_range("ids", 0, Expr::sym("V"), "a row of the table");
  for (const auto& [text, possible] :
       {std::pair("T=2 V=0", false), std::pair("T=0 V=0", true), std::pair("T=2 V=1", true)}) {
    auto call = resolve_case(op, *parse_case(text));
    ASSERT_TRUE(call.ok()) << call.diag().str();
    EXPECT_EQ(make_inputs(op, *call, 1).ok(), possible) << text;
  }
}

TEST(ForTarget, AGpuHasNoFlagsOfTheCpu) {
  const Expr M = Expr::sym("M");
  OpDef op("test", "packed", "");
  op.in({.name = "x", .shape = {M}, .dtypes = {DType::kF32}})
      .flag("causal", false, "")
      .cpu_flag("packed_b", false, "");
  auto test_case = parse_case("M=4 packed_b=1 causal=1");
  ASSERT_TRUE(test_case.ok());
  EXPECT_EQ(for_target(op, *test_case, host_target()).text, "M=4 packed_b=1 causal=1");
  const Case on_gpu = for_target(op, *test_case, sm90_target());
  EXPECT_EQ(on_gpu.text, "M=4 causal=1");
  EXPECT_EQ(on_gpu.values.count("packed_b"), 0u);
  auto call = resolve_case(op, on_gpu);
  ASSERT_TRUE(call.ok());
  EXPECT_EQ(call->config.flag("packed_b"), 0);
  EXPECT_EQ(call->config.flag("causal"), 1);
}

TEST(MakeInputs, InputsAreRoundedRandomAndFreshAndOutputsZero) {
  const OpDef op = sample_op();
  auto call = resolve("T=64 H=64 B=1");
  ASSERT_TRUE(call.ok());
  RefCall other = *call;
  ASSERT_TRUE(make_inputs(op, *call, 7).ok());
  ASSERT_TRUE(make_inputs(op, other, 8).ok());
  const std::vector<double>& x = (*call)["x"].data;
  EXPECT_NE(x, other["x"].data);
  double sum = 0, squares = 0;
  for (double v : x) {
    EXPECT_EQ(v, static_cast<double>(static_cast<float>(v)));
    sum += v, squares += v * v;
  }
  const auto n = static_cast<double>(x.size());
  EXPECT_NEAR(sum / n, 0, 0.1);
  EXPECT_NEAR(squares / n, 1, 0.1);
  for (double v : (*call)["y"].data) EXPECT_EQ(v, 0);
}

}  // namespace
}  // namespace rooftile::check
