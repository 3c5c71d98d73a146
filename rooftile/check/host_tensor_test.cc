// SPDX-License-Identifier: Apache-2.0
#include "rooftile/check/host_tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace rooftile::check {
namespace {

using testing::HasSubstr;
using testing::Optional;

NdArray counting(std::vector<int64_t> shape) {
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  NdArray out{std::move(shape), std::vector<double>(static_cast<size_t>(count))};
  for (size_t i = 0; i < out.data.size(); ++i) out.data[i] = static_cast<double>(i % 100) - 30;
  return out;
}

TEST(HostTensor, StoresAndLoadsEveryDtypeInBothLayouts) {
  const NdArray values = counting({3, 5, 7});
  for (const DTypeInfo& dtype : kDTypes) {
    NdArray rounded = values;
    if (dtype.dtype == DType::kU8 || dtype.dtype == DType::kU32 || dtype.dtype == DType::kBool)
      for (double& v : rounded.data) v = std::abs(v);
    quantize(rounded, dtype.dtype);
    for (const bool padded : {false, true}) {
      HostTensor tensor(dtype.dtype, values.shape, {.padded = padded});
      tensor.store(rounded);
      EXPECT_EQ(tensor.load().data, rounded.data) << dtype.name;
      EXPECT_EQ(tensor.guard_damage(), std::nullopt) << dtype.name;
    }
  }
}

TEST(HostTensor, CompactIsAlignedAndPaddedIsNot) {
  const HostTensor compact(DType::kBf16, {4, 8});
  EXPECT_EQ(reinterpret_cast<uintptr_t>(compact.data()) % 64, 0u);
  EXPECT_EQ(compact.view().strides[0], 8);
  const HostTensor padded(DType::kBf16, {4, 8}, {.padded = true, .align_bytes = 16});
  EXPECT_EQ(reinterpret_cast<uintptr_t>(padded.data()) % 64, 16u);
  EXPECT_GT(padded.view().strides[0], 8);
  EXPECT_EQ(padded.view().strides[0] * 2 % 16, 0);
  EXPECT_EQ(padded.view().strides[1], 1);
  const HostTensor spread(DType::kBf16, {4, 8}, {.padded = true, .unit_inner_stride = false});
  EXPECT_EQ(spread.view().strides[1], 2);
}

TEST(HostTensor, FindsDamageOnEitherSideAndBetweenRows) {
  auto damage = [](bool padded, int64_t byte) {
    HostTensor tensor(DType::kF32, {2, 3}, {.padded = padded});
    static_cast<std::byte*>(tensor.data())[byte] = std::byte{0};
    return tensor.guard_damage();
  };
  EXPECT_EQ(damage(false, 0), std::nullopt);
  EXPECT_EQ(damage(false, 23), std::nullopt);
  EXPECT_THAT(damage(false, 24), Optional(HasSubstr("after the last")));
  EXPECT_THAT(damage(false, -1), Optional(HasSubstr("before the first")));
  EXPECT_THAT(damage(true, 12), Optional(HasSubstr("padding between rows")));
}

TEST(HostTensor, PoisonIsNaNInEveryFloatTypeAndDiffersBetweenRuns) {
  for (const DTypeInfo& dtype : kDTypes) {
    HostTensor first(dtype.dtype, {3}), second(dtype.dtype, {3});
    first.poison(Poison::kFirst);
    second.poison(Poison::kSecond);
    if (dtype.is_float) {
      EXPECT_TRUE(std::isnan(first.load().data[1])) << dtype.name;
      EXPECT_TRUE(std::isnan(second.load().data[1])) << dtype.name;
    }
    EXPECT_NE(first.elements(), second.elements()) << dtype.name;
    EXPECT_EQ(first_unwritten(dtype.dtype, first.elements(), second.elements()), 0) << dtype.name;
  }
}

TEST(HostTensor, TellsAnUnwrittenElementFromOneThatHoldsThePattern) {
  // -1 is the first pattern of i8: written in both runs, it is no poison.
  HostTensor first(DType::kI8, {3}), second(DType::kI8, {3});
  first.poison(Poison::kFirst);
  second.poison(Poison::kSecond);
  for (HostTensor* tensor : {&first, &second}) {
    static_cast<int8_t*>(tensor->data())[0] = -1;
    static_cast<int8_t*>(tensor->data())[1] = 127;
  }
  EXPECT_EQ(first_unwritten(DType::kI8, first.elements(), second.elements()), 2);
}

TEST(HostTensor, ClonesLayoutAndBytes) {
  HostTensor tensor(DType::kF32, {2, 3}, {.padded = true});
  tensor.store(counting({2, 3}));
  const HostTensor copy = tensor.clone();
  EXPECT_NE(copy.data(), tensor.data());
  EXPECT_EQ(copy.load().data, tensor.load().data);
  EXPECT_EQ(copy.view().strides, tensor.view().strides);
  EXPECT_EQ(copy.guard_damage(), std::nullopt);
}

TEST(HostTensor, EmptyAndScalar) {
  HostTensor empty(DType::kF32, {0, 4});
  EXPECT_EQ(empty.numel(), 0);
  empty.poison(Poison::kFirst);
  EXPECT_TRUE(empty.load().data.empty());
  EXPECT_EQ(empty.guard_damage(), std::nullopt);
  HostTensor scalar(DType::kF32, {});
  scalar.store({{}, {2.5}});
  EXPECT_EQ(scalar.load().data, std::vector<double>{2.5});
}

}  // namespace
}  // namespace rooftile::check
