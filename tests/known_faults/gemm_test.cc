// SPDX-License-Identifier: Apache-2.0
// Publicly reported faults of matrix products: strides, alignment, epilogues, integer sums, tails.
#include <omp.h>

#include "tests/known_faults/fault_call.h"

namespace rooftile::known_faults {
namespace {

std::string sizes(int64_t m, int64_t n, int64_t k, const std::string& rest = "") {
  return "M=" + std::to_string(m) + " N=" + std::to_string(n) + " K=" + std::to_string(k) + " " +
         rest;
}

// Row-padded views must not be read as packed ones; bytes outside D stay untouched.
TEST(KnownFaults, kf_gemm_01_PaddedViews) {
  FaultCall("gemm", sizes(96, 80, 112), /*padded=*/true).expect_right();
  FaultCall("gemm", sizes(96, 80, 112, "dtype=f32 layout=nn"), true).expect_right();
  FaultCall("gemm", sizes(96, 80, 112, "a=i8 d=i32"), true).expect_right();
}

// An odd width with a long pitch, and bases that are aligned to one element only.
TEST(KnownFaults, kf_gemm_02_OddWidthLongPitch) {
  FaultCall("gemm", sizes(33, 977, 65, "layout=nn dtype=f16"), true).expect_right();
  FaultCall("gemm", sizes(33, 977, 65, "layout=nn dtype=f32"), true).expect_right();
}

// A bias that starts inside a larger buffer.
TEST(KnownFaults, kf_gemm_03_UnalignedBias) {
  for (int offset : {0, 1, 3, 5, 7}) {
    FaultCall call("gemm", sizes(64, 72, 128, "dtype=f16 bias=f16"));
    check::HostTensor buffer(DType::kF16, {72 + 8});
    NdArray values = {{80}, std::vector<double>(80, 77.0)};
    for (size_t i = 0; i < 72; ++i)
      values.data[i + static_cast<size_t>(offset)] = call.input("bias").data[i];
    buffer.store(values);
    call.view("bias").data = static_cast<uint16_t*>(buffer.data()) + offset;
    call.expect_right();
  }
}

// Bias runs along columns and the residual along both, whatever the ratio of M and N.
TEST(KnownFaults, kf_gemm_04_BroadcastAxis) {
  for (auto [m, n] : {std::pair{128, 256}, {256, 128}, {1, 384}}) {
    FaultCall call("gemm", sizes(m, n, 64, "dtype=f32 bias=f32 c=1"));
    for (const char* tensor : {"a", "b", "bias", "c"}) call.fill(tensor, 1.0);
    call.set_attr("beta", 2.0);
    ASSERT_TRUE(call.run().ok());
    for (double value : call.output("d").data) ASSERT_EQ(value, 67.0);
  }
}

TEST(KnownFaults, kf_gemm_05_BetaZeroIgnoresC) {
  for (double junk : {kNan, kInf, -kInf}) {
    FaultCall call("gemm", sizes(3, 20, 5, "dtype=f32 c=1 beta=0"));
    call.fill("c", junk);
    call.expect_right();
    for (double value : call.output("d").data) ASSERT_TRUE(std::isfinite(value));
  }
  FaultCall alpha_zero("gemm", sizes(3, 20, 5, "dtype=f32 c=1 beta=0.5 alpha=0"));
  alpha_zero.input("a").data[3] = kNan;
  ASSERT_TRUE(alpha_zero.run().ok());
  const NdArray d = alpha_zero.output("d");
  for (size_t i = 0; i < d.data.size(); ++i)
    ASSERT_EQ(d.data[i], 0.5 * static_cast<float>(alpha_zero.input("c").data[i]));
}

TEST(KnownFaults, kf_gemm_06_NarrowN) {
  for (int n : {8, 16, 24, 48})
    for (int m : {1, 40}) FaultCall("gemm", sizes(m, n, 1024)).expect_right();
}

TEST(KnownFaults, kf_gemm_07_TallAndThinWithBias) {
  FaultCall("gemm", sizes(65536, 10, 10, "bias=1 dtype=f32")).expect_right();
  FaultCall("gemm", sizes(1000, 10, 10, "bias=f16 dtype=f16")).expect_right();
}

// No pairwise 16-bit saturation: the extreme products of signed bytes are exact.
TEST(KnownFaults, kf_int8_01_ExactProducts) {
  FaultCall reported("gemm", sizes(4, 4, 4, "layout=nn a=i8 d=i32 c=1 beta=1"));
  reported.input("a").data = {-47, -123, -10, 92,   -96, -38, 82,  40,
                              70,  -60,  -66, -127, -46, -91, 109, 101};
  reported.input("b").data = {124, 8,   -74, 32,  -40, 4,   -50, -84,
                              103, -84, 88,  -66, 24,  115, 123, 54};
  reported.fill("c", 0);
  reported.expect_right();
  FaultCall lowest("gemm", sizes(20, 40, 4096, "a=i8 d=i32"));
  lowest.fill("a", -128);
  lowest.fill("b", -128);
  ASSERT_TRUE(lowest.run().ok());
  for (double value : lowest.output("d").data) ASSERT_EQ(value, 4096.0 * 128 * 128);
}

// Signed bytes stored with an offset of 128 internally are the u8 operand of the dot product: the
// largest of them meets both ends of the signed range, for every depth around the group of four.
TEST(KnownFaults, kf_int8_02_LargeUnsignedTimesSigned) {
  for (int k = 1; k <= 65; k += k < 10 ? 1 : 11)
    for (double b : {127.0, -128.0}) {
      FaultCall call("gemm", sizes(5, 33, k, "a=i8 d=i32"));
      call.fill("a", 127);
      call.fill("b", b);
      ASSERT_TRUE(call.run().ok());
      for (double value : call.output("d").data) ASSERT_EQ(value, 127.0 * b * k) << "K=" << k;
    }
}

// Narrow ragged N; the zero points of the report are a linear correction outside this operator.
TEST(KnownFaults, kf_int8_03_RaggedNarrowN) {
  for (int n : {3, 8, 15}) FaultCall("gemm", sizes(32, n, 64, "a=i8 d=i32")).expect_right();
}

// Sums above 2^24 and depths that no K block divides: never through f32.
TEST(KnownFaults, kf_int8_04_SumsBeyondFloat) {
  for (int k : {2050, 2051, 2052, 4608}) {
    FaultCall call("gemm", sizes(17, 40, k, "a=i8 d=i32"));
    call.fill("a", 127);
    call.fill("b", 127);
    ASSERT_TRUE(call.run().ok());
    for (double value : call.output("d").data) ASSERT_EQ(value, 127.0 * 127.0 * k);
  }
}

// NaN beyond a row's end stays out (the guards between padded rows are NaN), and NaN in one row
// reaches that row of D alone.
TEST(KnownFaults, kf_cpu_01_PaddingDoesNotLeak) {
  for (int k : {1, 2, 31, 32, 33, 63, 65})
    FaultCall("gemm", sizes(7, 17, k, "layout=nn"), /*padded=*/true).expect_right();
  FaultCall call("gemm", sizes(7, 17, 33));
  call.input("a").data[2 * 33 + 5] = kNan;
  ASSERT_TRUE(call.run().ok());
  const NdArray d = call.output("d");
  for (int64_t m = 0; m < 7; ++m)
    for (int64_t n = 0; n < 17; ++n) ASSERT_EQ(std::isnan(d({m, n})), m == 2);
}

// Every share of rows and columns, odd ones too, is written by exactly one thread.
TEST(KnownFaults, kf_cpu_02_AnyNumberOfThreads) {
  const int before = omp_get_max_threads();
  for (int threads : {1, 2, 3, 4, 5, 16})
    for (int m : {6, 10, 62}) {
      omp_set_num_threads(threads);
      FaultCall("gemm", sizes(m, 70, 40, "a=i8 d=i32"), true).expect_right();
      FaultCall("gemm_batched", "B=6 " + sizes(m, 9, 33), true).expect_right();
    }
  omp_set_num_threads(before);
}

// A narrow vector per column over a ragged tail: nothing behind its end is read (guards are NaN).
TEST(KnownFaults, kf_cpu_03_ColumnVectorTail) {
  for (int n : {1, 2, 7, 9, 17, 33})
    for (const char* dtypes : {"dtype=f32 bias=bf16", "dtype=f32 bias=f16", "bias=bf16"})
      FaultCall("gemm", sizes(5, n, 16, dtypes), true).expect_right();
}

}  // namespace
}  // namespace rooftile::known_faults
