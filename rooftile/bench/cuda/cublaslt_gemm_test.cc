// SPDX-License-Identifier: Apache-2.0
// What cuBLASLt is asked for, and what it is not: a peer that computes something else would make
// every ratio a lie.
#include "rooftile/bench/cuda/cublaslt_gemm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rooftile/check/case_inputs.h"

namespace rooftile::bench {
namespace {

Result<MatmulShape> shape_of_case(const std::string& op, const std::string& text) {
  auto test_case = check::parse_case(text);
  if (!test_case.ok()) return test_case.diag();
  auto call = check::resolve_case(*find_op(op), *test_case);
  if (!call.ok()) return call.diag();
  return cublaslt_shape(*find_op(op), *call);
}

TEST(CublasLtShape, FollowsTheCase) {
  auto shape = shape_of_case("gemm", "M=3 N=5 K=7 layout=nn bias=1 activation=relu dtype=f16");
  ASSERT_TRUE(shape.ok()) << shape.diag().str();
  EXPECT_EQ(shape->m, 3);
  EXPECT_EQ(shape->n, 5);
  EXPECT_EQ(shape->k, 7);
  EXPECT_EQ(shape->batch, 1);
  EXPECT_TRUE(shape->b_is_kn);
  EXPECT_EQ(shape->operands, DType::kF16);
  EXPECT_EQ(shape->epilogue, cublaslt_abi::kEpilogueReluBias);
  auto batched = shape_of_case("gemm_batched", "B=4 M=3 N=5 K=7");
  ASSERT_TRUE(batched.ok()) << batched.diag().str();
  EXPECT_EQ(batched->batch, 4);
  EXPECT_FALSE(batched->b_is_kn);
}

TEST(CublasLtShape, BytesHaveScales) {
  auto shape = shape_of_case("gemm_fp8", "M=16 N=32 K=64");
  ASSERT_TRUE(shape.ok()) << shape.diag().str();
  EXPECT_TRUE(shape->scales);
  EXPECT_EQ(shape->operands, DType::kF8E4M3);
  EXPECT_EQ(shape->result, DType::kBf16);
  EXPECT_FALSE(shape_of_case("gemm_fp8", "M=16 N=32 K=63").ok());
  EXPECT_FALSE(shape_of_case("gemm_fp8", "M=16 N=32 K=64 a=f8e5m2").ok());
}

TEST(CublasLtShape, RefusesWhatItWouldComputeOtherwise) {
  for (const auto& [text, why] : {
           std::pair("M=3 N=5 K=0", "empty"),
           {"M=3 N=5 K=7 activation=silu", "silu"},
           {"M=3 N=5 K=7 activation=gelu bias=1", "gelu"},
           {"M=3 N=5 K=7 activation=relu c=1", "residual"},
           {"M=3 N=5 K=7 d=f32 bias=bf16", "bias"},
           {"M=4 N=4 K=4 a=i8 d=bf16", "bf16"},
           {"M=4 N=4 K=4 a=i8 d=i32 bias=i32", "integers"},
           {"M=4 N=4 K=4 a=i8 d=i32 alpha=0.5", "whole"},
       }) {
    auto shape = shape_of_case("gemm", text);
    ASSERT_FALSE(shape.ok()) << text;
    EXPECT_EQ(shape.diag().code, ErrorCode::kUnsupported) << text;
    EXPECT_THAT(shape.diag().message, testing::HasSubstr(why)) << text;
  }
}

}  // namespace
}  // namespace rooftile::bench
