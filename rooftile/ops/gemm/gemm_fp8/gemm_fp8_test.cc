// SPDX-License-Identifier: Apache-2.0
// gemm_fp8: its reference by hand, what its tolerance tells apart, and what 8-bit floats hold that
// wider ones do not: codes for NaN and infinity, subnormals and largest values in real operands.
#include <cmath>

#include "rooftile/check/compare.h"
#include "rooftile/ops/reference_case.h"
#include "tests/known_faults/fault_call.h"

namespace rooftile::ops {
namespace {

using known_faults::FaultCall;

TEST(GemmFp8Reference, ScalesComeBeforeTheBias) {
  RefCall call = reference_case("gemm_fp8", "M=2 N=2 K=3 d=f32 bias=f32");
  call["a"].data = {1, 2, 3, 4, 5, 6};
  call["b"].data = {1, 0, -1, 2, 1, 0};  // rows are columns of the product
  call["scale_a"].data = {0.5};
  call["scale_b"].data = {4};
  call["bias"].data = {10, -1};
  EXPECT_EQ(run_reference("gemm_fp8", call)["d"].data, (std::vector<double>{6, 7, 6, 25}));
}

TEST(GemmFp8Cost, CountsEachTensorOnce) {
  const RefCall call = reference_case("gemm_fp8", "M=2 N=3 K=5 d=f16 bias=bf16");
  const Cost cost = find_op("gemm_fp8")->cost_fn(call);
  EXPECT_EQ(cost.flops, 60);
  EXPECT_EQ(cost.bytes, 10 + 15 + 2 * 6 + 4 + 4 + 2 * 3);
}

// Long sums are where the bound is wide: it must still tell a product from none, from one that
// lost a block of K, and from one whose scale is off by a tenth.
TEST(GemmFp8Tolerance, TellsWrongResultsFromRoundedOnes) {
  for (const char* text : {"M=16 N=16 K=32", "M=16 N=16 K=512", "M=16 N=16 K=8192"}) {
    RefCall call = reference_case("gemm_fp8", text);
    run_reference("gemm_fp8", call);
    const Tolerance tolerance = find_op("gemm_fp8")->tolerance_fn(call);
    const NdArray& right = call["d"];
    EXPECT_TRUE(check::compare(right, right, tolerance).pass) << text;
    for (const double factor : {0.0, 1.1, -1.0}) {
      NdArray wrong = right;
      for (double& value : wrong.data) value *= factor;
      EXPECT_FALSE(check::compare(wrong, right, tolerance).pass) << text << " times " << factor;
    }
    RefCall shorter = call;
    const int64_t K = call.dim("K");
    for (int64_t row = 0; row < call.dim("M"); ++row)
      for (int64_t k = K - K / 16; k < K; ++k)
        shorter["a"].data[static_cast<size_t>(row * K + k)] = 0;
    run_reference("gemm_fp8", shorter);
    EXPECT_FALSE(check::compare(shorter["d"], right, tolerance).pass) << text;
  }
}

TEST(GemmFp8Kernel, ANanOrInfinitySpreadsAlongItsRowOnly) {
  for (const char* dtypes : {"a=f8e4m3 d=f32", "a=f8e5m2 d=bf16"}) {
    const std::string text = std::string("M=5 N=40 K=70 ") + dtypes;
    FaultCall none("gemm_fp8", text);
    none.input("a").data[2 * 70 + 69] = NAN;
    none.input("b").data[33 * 70] = NAN;
    none.expect_right();  // NaN where the reference has one, nowhere else
    const NdArray d = none.output("d");
    for (size_t i = 0; i < d.data.size(); ++i)
      ASSERT_EQ(std::isnan(d.data[i]), i / 40 == 2 || i % 40 == 33) << text << " at " << i;
  }
  // e5m2 has infinities, which storing a number never makes: their codes are written by hand.
  FaultCall infinite("gemm_fp8", "M=5 N=40 K=70 a=f8e5m2 d=f32");
  infinite.fill("scale_a", 1);
  infinite.fill("scale_b", 2);
  static_cast<uint8_t*>(infinite.view("a").data)[1 * 70 + 3] = 0x7c;
  ASSERT_TRUE(infinite.run().ok());
  const NdArray d = infinite.output("d");
  for (size_t i = 0; i < d.data.size(); ++i) {
    const double b = infinite.call()["b"].data[i % 40 * 70 + 3];
    if (i / 40 != 1)
      ASSERT_TRUE(std::isfinite(d.data[i])) << i;
    else if (b == 0)
      ASSERT_TRUE(std::isnan(d.data[i])) << i;
    else
      ASSERT_EQ(d.data[i], std::copysign(INFINITY, b)) << i;
  }
}

// Sums of equal terms that f32 holds exactly: the largest values, and the smallest subnormals.
TEST(GemmFp8Kernel, LargestAndSmallestCodesMultiplyExactly) {
  struct Extreme {
    const char* dtype;
    double value;
  };
  for (const Extreme& extreme : {Extreme{"f8e4m3", 448}, Extreme{"f8e4m3", 0x1p-9},
                                 Extreme{"f8e5m2", 57344}, Extreme{"f8e5m2", 0x1p-16}}) {
    FaultCall call("gemm_fp8", std::string("M=20 N=40 K=256 d=f32 a=") + extreme.dtype);
    call.fill("a", extreme.value);
    call.fill("b", -extreme.value);
    call.fill("scale_a", 2);
    call.fill("scale_b", 0.25);
    ASSERT_TRUE(call.run().ok());
    for (double value : call.output("d").data)
      ASSERT_EQ(value, -128 * extreme.value * extreme.value) << extreme.dtype;
  }
}

// Foreign callers name these types by DLPack's codes, of which the neighbours are other formats.
TEST(GemmFp8Contract, DlpackCodesAreThoseOfTheStandard) {
  EXPECT_EQ(info(DType::kF8E4M3).dlpack_code, 10);  // kDLFloat8_e4m3fn
  EXPECT_EQ(info(DType::kF8E5M2).dlpack_code, 12);  // kDLFloat8_e5m2
  FaultCall mixed("gemm_fp8", "M=5 N=40 K=70");
  mixed.view("b").dtype = DType::kF8E5M2;
  mixed.expect_refused(ErrorCode::kDType, "`b`");
  FaultCall bytes("gemm_fp8", "M=5 N=40 K=70");
  bytes.view("a").dtype = bytes.view("b").dtype = DType::kU8;
  bytes.expect_refused(ErrorCode::kDType, "`a`");
}

}  // namespace
}  // namespace rooftile::ops
