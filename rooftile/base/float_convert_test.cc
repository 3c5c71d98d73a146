// SPDX-License-Identifier: Apache-2.0
#include "rooftile/base/float_convert.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

namespace rooftile {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(FloatConvert, KnownCodes) {
  EXPECT_EQ(f32_to_bf16(1.0f), 0x3f80);
  EXPECT_EQ(f32_to_f16(1.0f), 0x3c00);
  EXPECT_EQ(f32_to_f16(65504.0f), 0x7bff);
  EXPECT_EQ(f32_to_e4m3(1.0f), 0x38);
  EXPECT_EQ(f32_to_e4m3(448.0f), 0x7e);
  EXPECT_EQ(f32_to_e5m2(1.0f), 0x3c);
  EXPECT_EQ(f32_to_e5m2(57344.0f), 0x7b);
  EXPECT_EQ(f32_to_f16(-0.0f), 0x8000);
  EXPECT_EQ(f32_to_e4m3(-0.0f), 0x80);
}

TEST(FloatConvert, TiesGoToEven) {
  EXPECT_EQ(bf16_to_f32(f32_to_bf16(1.0f + 0x1p-8f)), 1.0f);
  EXPECT_EQ(bf16_to_f32(f32_to_bf16(1.0f + 0x3p-8f)), 1.0f + 0x1p-6f);
  EXPECT_EQ(f16_to_f32(f32_to_f16(1.0f + 0x1p-11f)), 1.0f);
  EXPECT_EQ(f16_to_f32(f32_to_f16(1.0f + 0x3p-11f)), 1.0f + 0x1p-9f);
  EXPECT_EQ(e4m3_to_f32(f32_to_e4m3(1.0625f)), 1.0f);
  EXPECT_EQ(e4m3_to_f32(f32_to_e4m3(1.1875f)), 1.25f);
}

TEST(FloatConvert, Denormals) {
  EXPECT_EQ(f32_to_f16(0x1p-24f), 0x0001);
  EXPECT_EQ(f32_to_f16(0x1p-25f), 0x0000);  // a tie, to even
  EXPECT_EQ(f32_to_f16(0x1.8p-25f), 0x0001);
  EXPECT_EQ(f32_to_f16(0x1.ffcp-15f), 0x0400);  // rounds up to the smallest normal
  EXPECT_EQ(f32_to_e4m3(0x1p-9f), 0x01);
  EXPECT_EQ(f32_to_e4m3(0x1p-10f), 0x00);
  EXPECT_EQ(f32_to_e5m2(0x1p-16f), 0x01);
  EXPECT_EQ(f32_to_e5m2(1e-40f), 0x00);
}

TEST(FloatConvert, OverflowGoesToInfinityOrSaturates) {
  EXPECT_EQ(f16_to_f32(f32_to_f16(65519.0f)), 65504.0f);
  EXPECT_EQ(f16_to_f32(f32_to_f16(65520.0f)), kInf);
  EXPECT_EQ(bf16_to_f32(f32_to_bf16(std::numeric_limits<float>::max())), kInf);
  EXPECT_EQ(f16_to_f32(f32_to_f16(-kInf)), -kInf);
  EXPECT_EQ(bf16_to_f32(f32_to_bf16(-kInf)), -kInf);
  EXPECT_EQ(e4m3_to_f32(f32_to_e4m3(1e9f)), 448.0f);
  EXPECT_EQ(e4m3_to_f32(f32_to_e4m3(-kInf)), -448.0f);
  EXPECT_EQ(e5m2_to_f32(f32_to_e5m2(kInf)), 57344.0f);
}

TEST(FloatConvert, NanStaysNan) {
  for (DType dtype : {DType::kBf16, DType::kF16, DType::kF8E4M3, DType::kF8E5M2}) {
    EXPECT_TRUE(std::isnan(round_to(kNan, dtype))) << name(dtype);
    EXPECT_TRUE(std::isnan(round_to(-kNan, dtype))) << name(dtype);
  }
  // A payload in the bits that are cut off only: truncation would make it an infinity.
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(std::bit_cast<float>(0x7f800001u)))));
}

TEST(FloatConvert, Fp8SpecialCodesDecode) {
  EXPECT_TRUE(std::isnan(e4m3_to_f32(0x7f)));
  EXPECT_EQ(e4m3_to_f32(0x78), 256.0f);  // exponent 15 holds numbers in e4m3fn
  EXPECT_EQ(e5m2_to_f32(0x7c), kInf);
  EXPECT_EQ(e5m2_to_f32(0xfc), -kInf);
  EXPECT_TRUE(std::isnan(e5m2_to_f32(0x7d)));
}

// Every finite code decodes to the value its bits spell and comes back as itself.
void expect_round_trip(int exp_bits, int man_bits, int num_finite, int num_codes,
                       const std::function<float(uint32_t)>& decode,
                       const std::function<uint32_t(float)>& encode) {
  const int bias = (1 << (exp_bits - 1)) - 1;
  for (int code = 0; code < num_finite; ++code) {
    const int exponent = code >> man_bits;
    const int mantissa = code & ((1 << man_bits) - 1);
    const double expected =
        exponent == 0 ? std::ldexp(mantissa, 1 - bias - man_bits)
                      : std::ldexp((1 << man_bits) + mantissa, exponent - bias - man_bits);
    const auto negative = static_cast<uint32_t>(code + num_codes / 2);
    ASSERT_EQ(decode(static_cast<uint32_t>(code)), expected) << code;
    ASSERT_EQ(decode(negative), -expected) << code;
    ASSERT_EQ(encode(static_cast<float>(expected)), static_cast<uint32_t>(code));
    ASSERT_EQ(encode(static_cast<float>(-expected)), negative);
  }
}

TEST(FloatConvert, EveryFiniteCodeRoundTrips) {
  expect_round_trip(
      5, 10, 0x7c00, 0x10000, [](uint32_t c) { return f16_to_f32(static_cast<uint16_t>(c)); },
      f32_to_f16);
  expect_round_trip(
      8, 7, 0x7f80, 0x10000, [](uint32_t c) { return bf16_to_f32(static_cast<uint16_t>(c)); },
      f32_to_bf16);
  expect_round_trip(
      4, 3, 0x7f, 0x100, [](uint32_t c) { return e4m3_to_f32(static_cast<uint8_t>(c)); },
      f32_to_e4m3);
  expect_round_trip(
      5, 2, 0x7c, 0x100, [](uint32_t c) { return e5m2_to_f32(static_cast<uint8_t>(c)); },
      f32_to_e5m2);
}

TEST(FloatConvert, RoundingIsNearest) {
  // Between neighbouring e4m3 values: just below the middle goes down, just above goes up.
  for (uint8_t code = 0; code < 0x7e; ++code) {
    const float lo = e4m3_to_f32(code), hi = e4m3_to_f32(static_cast<uint8_t>(code + 1));
    const float middle = (lo + hi) / 2;
    EXPECT_EQ(e4m3_to_f32(f32_to_e4m3(std::nextafter(middle, 0.0f))), lo);
    EXPECT_EQ(e4m3_to_f32(f32_to_e4m3(std::nextafter(middle, kInf))), hi);
  }
}

TEST(FloatConvert, ElementsOfEveryDtype) {
  alignas(8) char memory[32] = {};
  for (const DTypeInfo& entry : kDTypes) {
    const double value = entry.dtype == DType::kBool ? 1 : 3;
    store_element(memory, entry.dtype, 2, value);
    EXPECT_EQ(load_element(memory, entry.dtype, 2), value) << entry.name;
  }
  store_element(memory, DType::kI8, 0, -128);
  EXPECT_EQ(load_element(memory, DType::kI8, 0), -128);
  EXPECT_EQ(load_element(memory, DType::kU8, 0), 128);
}

}  // namespace
}  // namespace rooftile
