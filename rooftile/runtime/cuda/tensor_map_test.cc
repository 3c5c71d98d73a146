// SPDX-License-Identifier: Apache-2.0
#include "rooftile/runtime/cuda/tensor_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "tests/stub_driver/stub.h"

namespace rooftile::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing_support::StubDriverTest;

// A [256, 128] bf16 tensor in boxes of [64, 64]; no other test has this address.
TensorMapSpec some_spec(uint64_t address) {
  TensorMapSpec spec;
  spec.address = address;
  spec.layout.rank = 2;
  spec.sizes = {128, 256};
  spec.strides_bytes = {256};
  spec.layout.box = {64, 64};
  spec.layout.element_strides = {1, 1};
  spec.layout.type = abi::kMapBf16;
  spec.layout.swizzle = abi::kSwizzle128;
  return spec;
}

class TensorMapTest : public StubDriverTest {
 protected:
  uint64_t encodes() const { return control_->calls(stub::kTensorMapEncodeTiled); }
  abi::TensorMap get(const TensorMapSpec& spec) const {
    abi::TensorMap map;
    const Status status = tensor_map(device(), spec, "a", &map);
    EXPECT_TRUE(status.ok()) << status.str();
    return map;
  }
};

TEST_F(TensorMapTest, SecondRequestIsAHitWithTheSameBytes) {
  const TensorMapSpec spec = some_spec(0x10000);
  const abi::TensorMap first = get(spec), second = get(spec);
  EXPECT_EQ(encodes(), 1u);
  EXPECT_EQ(std::memcmp(&first, &second, sizeof first), 0);
  EXPECT_EQ(first.opaque[0], 0x10000u);
}

// Each field makes a map of its own: an address that is reused by another tensor never gets the
// old tensor's map.
TEST_F(TensorMapTest, EveryFieldIsPartOfTheKey) {
  std::vector<TensorMapSpec> all(11, some_spec(0x20000));
  all[1].address += 16;
  all[2].sizes[0] = 64;
  all[3].sizes[1] = 255;
  all[4].strides_bytes[0] = 512;
  all[5].layout.box[0] = 32;
  all[6].layout.box[1] = 32;
  all[7].layout.swizzle = abi::kSwizzleNone;
  all[8].layout.l2 = abi::kL2Bytes128;
  all[9].layout.fill = abi::kFillNan;
  all[10].layout.type = abi::kMapF16;
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t k = 0; k < all.size(); ++k) EXPECT_EQ(all[i] == all[k], i == k);
    const uint64_t before = encodes();
    get(all[i]);
    EXPECT_EQ(encodes(), before + 1) << "field " << i;
    get(all[i]);
    EXPECT_EQ(encodes(), before + 1) << "field " << i;
  }
}

// The form for launchers and the form for specs find each other's maps, and tell tensors apart in
// the same way.
TEST_F(TensorMapTest, TensorsAreComparedAsTheyAre) {
  const TensorMapLayout layout =
      *layout_of(DType::kBf16, std::array{1u, 64u, 64u}, abi::kSwizzle128, "a");
  const TensorView base(reinterpret_cast<void*>(0x80000), DType::kBf16, {4, 256, 128});
  const auto get_tensor = [&](const TensorView& tensor) {
    abi::TensorMap map;
    const Status status = tensor_map(device(), tensor, layout, "a", &map);
    EXPECT_TRUE(status.ok()) << status.str();
    return map;
  };
  TensorMapSpec spec;
  ASSERT_TRUE(spec_of(base, layout, "a", &spec).ok());
  const abi::TensorMap first = get(spec), second = get_tensor(base);
  EXPECT_EQ(encodes(), 1u);
  EXPECT_EQ(std::memcmp(&first, &second, sizeof first), 0);

  std::vector<TensorView> others(6, base);
  others[0].data = reinterpret_cast<void*>(0x80010);
  others[1].shape[0] = 5;
  others[2].shape[1] = 255;
  others[3].shape[2] = 120;
  others[4].strides[0] += 64;
  others[5].strides[1] += 64;
  for (const TensorView& other : others) {
    const uint64_t before = encodes();
    get_tensor(other);
    get_tensor(other);
    EXPECT_EQ(encodes(), before + 1);
  }
  // One row: its stride says nothing, whatever it is.
  TensorView row(reinterpret_cast<void*>(0x90000), DType::kBf16, {1, 1, 128});
  const abi::TensorMap one = get_tensor(row);
  row.strides = {-3, 12345, 1};
  const uint64_t before = encodes();
  const abi::TensorMap same = get_tensor(row);
  EXPECT_EQ(encodes(), before);
  EXPECT_EQ(std::memcmp(&one, &same, sizeof one), 0);
  abi::TensorMap map;
  row.rank = 2;
  EXPECT_FALSE(tensor_map(device(), row, layout, "a", &map).ok());
}

TEST_F(TensorMapTest, MoreMapsThanSlotsStayRight) {
  for (int round = 0; round < 2; ++round)
    for (uint64_t i = 1; i <= 500; ++i)
      ASSERT_EQ(get(some_spec(0x1000000 + i * 256)).opaque[0], 0x1000000 + i * 256);
}

// Many operands whose addresses are far apart, as in a real launch, all stay in the cache.
TEST_F(TensorMapTest, OperandsOfSomeLaunchesAllHit) {
  const auto touch = [&] {
    for (uint64_t i = 0; i < 12; ++i) get(some_spec(0x7f0000000000 + i * (5 << 20)));
  };
  touch();
  const uint64_t before = encodes();
  for (int i = 0; i < 10; ++i) touch();
  EXPECT_LE(encodes() - before, 20u) << "of 120";
}

TEST_F(TensorMapTest, ThreadsHaveCachesOfTheirOwn) {
  const TensorMapSpec spec = some_spec(0x30000);
  get(spec);
  std::thread([&] { get(spec); }).join();
  EXPECT_EQ(encodes(), 2u);
}

TEST_F(TensorMapTest, AnotherDriversMapIsNotUsed) {
  testing_support::FreshStub other("");
  Result<const Driver*> opened = Driver::open(other.path());
  ASSERT_TRUE(opened.ok());
  const TensorMapSpec spec = some_spec(0x40000);
  get(spec);
  abi::TensorMap map;
  ASSERT_TRUE(tensor_map(**(*opened)->device(0), spec, "a", &map).ok());
  EXPECT_EQ(other.control().calls(stub::kTensorMapEncodeTiled), 1u);
}

TEST_F(TensorMapTest, FailureOfTheDriverIsReportedAndNotKept) {
  control_->script("fail=TensorMapEncodeTiled:1:1");
  abi::TensorMap map;
  const Status status = tensor_map(device(), some_spec(0x50000), "weights", &map);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.diag().code, ErrorCode::kDriver);
  EXPECT_THAT(status.diag().message, HasSubstr("`weights`"));
  get(some_spec(0x50000));
}

// One error, naming the precondition that failed, its value and the argument.
TEST_F(TensorMapTest, EachPreconditionIsToldByName) {
  const auto refusal = [&](auto&& spoil) {
    TensorMapSpec spec = some_spec(0x60000);
    spoil(spec);
    abi::TensorMap map;
    const Status status = tensor_map(device(), spec, "b", &map);
    EXPECT_FALSE(status.ok());
    if (status.ok()) return std::string();
    EXPECT_EQ(status.diag().code, ErrorCode::kTensorMap);
    EXPECT_EQ(status.diag().argument, "b");
    return status.diag().str();
  };
  using S = TensorMapSpec;
  EXPECT_THAT(refusal([](S& s) { s.layout.rank = 0; }), HasSubstr("rank"));
  EXPECT_THAT(refusal([](S& s) { s.layout.rank = 6; }), HasSubstr("1 to 5"));
  EXPECT_THAT(refusal([](S& s) { s.address += 8; }), HasSubstr("address % 16 = 8"));
  EXPECT_THAT(refusal([](S& s) { s.sizes[1] = 0; }), HasSubstr("a size is outside"));
  EXPECT_THAT(refusal([](S& s) { s.sizes[0] = (1ull << 32) + 1; }), HasSubstr("2^32"));
  EXPECT_THAT(refusal([](S& s) { s.layout.box[1] = 257; }), HasSubstr("1 to 256"));
  EXPECT_THAT(refusal([](S& s) { s.layout.box[0] = 0; }), HasSubstr("side of the box"));
  EXPECT_THAT(refusal([](S& s) { s.strides_bytes[0] = 258; }), HasSubstr("258 bytes"));
  EXPECT_THAT(refusal([](S& s) { s.strides_bytes[0] = 0; }), HasSubstr("a stride"));
  EXPECT_THAT(refusal([](S& s) { s.strides_bytes[0] = 1ull << 40; }), HasSubstr("2^40"));
  EXPECT_THAT(refusal([](S& s) { s.layout.element_strides[1] = 9; }), HasSubstr("1 to 8"));
  EXPECT_THAT(refusal([](S& s) { s.layout.box[0] = 36; }), HasSubstr("72 bytes"));
  EXPECT_THAT(refusal([](S& s) { s.layout.box[0] = 128; }), HasSubstr("wider than the swizzle"));
  EXPECT_THAT(refusal([](S& s) {
                s.layout.type = abi::kMapI32, s.layout.box[0] = 4, s.layout.fill = abi::kFillNan;
              }),
              HasSubstr("NaN"));
  EXPECT_EQ(encodes(), 0u);
}

Status spec_with_box(const TensorView& tensor, std::initializer_list<uint32_t> box,
                     TensorMapSpec* spec) {
  Result<TensorMapLayout> layout = layout_of(
      tensor.dtype, std::span<const uint32_t>(box.begin(), box.size()), abi::kSwizzle64, "x");
  if (!layout.ok()) return layout.diag();
  return spec_of(tensor, *layout, "x", spec);
}

TEST(TensorMapSpecOf, TakesATensorsOrder) {
  TensorView tensor(reinterpret_cast<void*>(0x1000), DType::kBf16, {7, 33, 96});
  tensor.strides = {33 * 128, 128, 1};
  TensorMapSpec spec;
  spec.sizes = {9, 9, 9, 9, 9};  // what an earlier use has left does not matter
  spec.strides_bytes = {9, 9, 9, 9};
  ASSERT_TRUE(spec_with_box(tensor, {1, 64, 32}, &spec).ok());
  EXPECT_EQ(spec.layout.rank, 3u);
  EXPECT_THAT(spec.sizes, ElementsAre(96, 33, 7, 0, 0));
  EXPECT_THAT(spec.strides_bytes, ElementsAre(256, 33 * 256, 0, 0));
  EXPECT_THAT(spec.layout.box, ElementsAre(32, 64, 1, 0, 0));
  EXPECT_THAT(spec.layout.element_strides, ElementsAre(1, 1, 1, 0, 0));
  EXPECT_EQ(spec.layout.type, abi::kMapBf16);
  EXPECT_TRUE(check_tensor_map(spec, "x").ok());
}

// A dimension of one element may carry any stride (DLPack leaves it open).
TEST(TensorMapSpecOf, StrideOfASingleElementDoesNotCount) {
  TensorView tensor(reinterpret_cast<void*>(0x1000), DType::kF32, {1, 1, 9});
  tensor.strides = {3, -77, 1};
  TensorMapSpec spec;
  ASSERT_TRUE(spec_with_box(tensor, {1, 1, 4}, &spec).ok());
  EXPECT_THAT(spec.strides_bytes, ElementsAre(48, 48, 0, 0));
  EXPECT_TRUE(check_tensor_map(spec, "x").ok());
}

TEST(TensorMapSpecOf, RefusesWhatTheEngineCannotRead) {
  TensorView tensor(nullptr, DType::kBf16, {8, 8});
  TensorMapSpec spec;
  EXPECT_TRUE(spec_with_box(tensor, {8, 8}, &spec).ok());
  tensor.strides = {1, 8};
  EXPECT_THAT(spec_with_box(tensor, {8, 8}, &spec).diag().message, HasSubstr("not contiguous"));
  EXPECT_THAT(spec_with_box(tensor, {8}, &spec).diag().message, HasSubstr("rank"));
  EXPECT_FALSE(spec_with_box(tensor, {1, 1, 1, 1, 1, 1}, &spec).ok());
  EXPECT_FALSE(spec_with_box(tensor, {}, &spec).ok());
  const TensorView flags(nullptr, DType::kBool, {8, 8}), floats(nullptr, DType::kF32, {8, 8});
  EXPECT_THAT(spec_with_box(flags, {8, 8}, &spec).diag().found, HasSubstr("bool"));
  const TensorMapLayout bf16 = *layout_of(DType::kBf16, std::array{8u, 8u}, abi::kSwizzleNone, "x");
  EXPECT_THAT(spec_of(floats, bf16, "x", &spec).diag().message, HasSubstr("dtype"));
}

}  // namespace
}  // namespace rooftile::cuda
