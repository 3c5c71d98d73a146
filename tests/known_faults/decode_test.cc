// SPDX-License-Identifier: Apache-2.0
// Publicly reported faults of attention over caches, paged ones above all.
#include <cstring>

#include "rooftile/api.h"
#include "tests/known_faults/fault_call.h"
#include "tests/known_faults/sparse_memory.h"

namespace rooftile::known_faults {
namespace {

std::string paged(int64_t batch, int64_t pages, int64_t page, int64_t per_row,
                  const std::string& rest) {
  return "kv_layout=paged block_table=1 B=" + std::to_string(batch) +
         " P=" + std::to_string(pages) + " S=" + std::to_string(page) +
         " MP=" + std::to_string(per_row) + " " + rest;
}

CallOptions with_kernel(const char* kernel) {
  CallOptions options;
  options.kernel = kernel;
  return options;
}

// Page number times page stride exceeds 32 bits.
TEST(KnownFaults, kf_decode_01_HighPageNumbers) {
  constexpr int64_t kPages = 300001, kPage = 32, kDepth = 512, kPageBytes = kPage * kDepth * 2;
  SparseMemory k_pool(kPages * kPageBytes), v_pool(kPages * kPageBytes);
  if (!k_pool.ok() || !v_pool.ok()) GTEST_SKIP() << "no 20 GB of address space";
  FaultCall call("attention_decode", paged(1, 2, kPage, 2, "Hq=2 Hkv=1 D=512 scale=0.05"));
  call.input("lengths").data = {64};
  call.input("block_table").data = {0, 1};
  for (const char* cache : {"k", "v"})  // nothing is unused: all of both pages is real data
    for (size_t i = 0; i < call.input(cache).data.size(); ++i)
      call.input(cache).data[i] = std::sin(static_cast<double>(i) * 0.37);
  call.expect_right();
  const NdArray low = call.output("o");
  for (auto [cache, pool] : {std::pair{"k", &k_pool}, {"v", &v_pool}}) {
    TensorView& view = call.view(cache);
    const auto* pages = static_cast<const std::byte*>(view.data);
    std::memcpy(pool->data() + 2 * kPageBytes, pages, kPageBytes);
    std::memcpy(pool->data() + 300000 * kPageBytes, pages + kPageBytes, kPageBytes);
    view.data = pool->data();
    view.shape[0] = kPages;
  }
  auto* table = static_cast<int32_t*>(call.view("block_table").data);
  table[0] = 2;
  table[1] = 300000;
  const Status status = call.run();
  ASSERT_TRUE(status.ok()) << status.str();
  EXPECT_EQ(call.output("o").data, low.data);
}

// Token number times row stride exceeds 32 bits.
TEST(KnownFaults, kf_decode_02_LongRowStride) {
  constexpr int64_t kTokens = 20, kStride = int64_t{1} << 27;
  FaultCall call("attention_prefill", "Tq=20 Tk=20 Hq=1 Hkv=1 D=16 causal=1 lse=1 dtype=f32");
  call.expect_right();
  const NdArray packed = call.output("o");
  SparseMemory q(kTokens * kStride * 4), k(kTokens * kStride * 4), v(kTokens * kStride * 4);
  if (!q.ok() || !k.ok() || !v.ok()) GTEST_SKIP() << "no 30 GB of address space";
  for (auto [tensor, memory] : {std::pair{"q", &q}, {"k", &k}, {"v", &v}}) {
    TensorView& view = call.view(tensor);
    for (int64_t t = 0; t < kTokens; ++t)
      std::memcpy(memory->data() + t * kStride * 4,
                  static_cast<const std::byte*>(view.data) + t * view.strides[0] * 4, 16 * 4);
    view.data = memory->data();
    view.strides[0] = kStride;
  }
  const Status status = call.run();
  ASSERT_TRUE(status.ok()) << status.str();
  EXPECT_EQ(call.output("o").data, packed.data);
}

// Splits without keys are neutral: one key, or none, in many splits equals the unsplit kernel.
TEST(KnownFaults, kf_decode_04_EmptySplitsAreNeutral) {
  for (double length : {0.0, 1.0, 40.0}) {
    FaultCall call("attention_decode", "B=2 P=2 S=40 Hq=4 Hkv=2 D=64 lse=1");
    call.fill("lengths", length);
    for (const char* cache : {"k", "v"})
      for (double& value : call.input(cache).data)
        if (std::isnan(value)) value = 0.25;
    call.expect_right(with_kernel("single"));
    const auto o = call.bytes("o"), lse = call.bytes("lse");
    call.expect_right(with_kernel("split"));
    EXPECT_EQ(call.bytes("o"), o) << "length " << length;
    EXPECT_EQ(call.bytes("lse"), lse) << "length " << length;
  }
}

// The unused rest of the last page and unrelated pages may hold anything.
TEST(KnownFaults, kf_decode_05_UnusedSlotsHoldAnything) {
  for (auto [page, length] : {std::pair{4, 13}, {16, 1}, {4, 12}, {16, 33}})
    for (double junk : {kNan, kInf, 0.0})
      for (const char* kernel : {"single", "split"}) {
        FaultCall call("attention_decode", paged(1, 20, page, 6, "Hq=4 Hkv=2 D=64 lse=1"));
        call.input("lengths").data = {static_cast<double>(length)};
        call.input("block_table").data = {7, 3, 11, 5, -1, 1 << 30};
        for (const char* cache : {"k", "v"}) {
          NdArray& values = call.input(cache);
          const int64_t row = 2 * 64;
          for (size_t i = 0; i < values.data.size(); ++i)
            values.data[i] = std::cos(static_cast<double>(i) * 0.11);
          for (int64_t token = 0; token < 20 * page; ++token) {
            bool used = false;
            for (int64_t at = 0; at < length; ++at)
              used |= token == static_cast<int64_t>(
                                   call.input("block_table").data[static_cast<size_t>(at / page)]) *
                                       page +
                                   at % page;
            for (int64_t i = 0; i < row && !used; ++i)
              values.data[static_cast<size_t>(token * row + i)] = junk;
          }
        }
        call.expect_right(with_kernel(kernel));
      }
}

// The same result for every number of splits; queries of several lengths over pages, which this
// library does not have, are refused by name.
TEST(KnownFaults, kf_decode_06_AnyNumberOfSplits) {
  for (int page : {256, 64})
    for (int splits : {1, 3, 8}) {
      FaultCall call("attention_decode",
                     paged(3, 60, page, 1024 / page, "Hq=8 Hkv=2 D=128 dtype=f16 lse=1"));
      call.input("lengths").data = {700, 33, 1024};
      for (size_t i = 0; i < call.input("block_table").data.size(); ++i)
        call.input("block_table").data[i] = static_cast<double>(i);
      for (const char* cache : {"k", "v"})
        for (size_t i = 0; i < call.input(cache).data.size(); ++i)
          call.input(cache).data[i] = std::sin(static_cast<double>(i % 10007));
      Schedule schedule;
      schedule.name = "splits_" + std::to_string(splits);
      schedule.tile = {{"BN", 64}, {"SPLITS", splits}};
      CallOptions options = with_kernel("split");
      options.schedule = &schedule;
      call.expect_right(options);
    }
  TensorView nothing;
  const Status status = rooftile::call("attention_prefill", {{"block_table", nothing}});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.diag().code, ErrorCode::kUnsupported);
  EXPECT_NE(status.str().find("block_table"), std::string::npos);
}

// Pages and lengths that do not fit are refused, and the message names the request and the values.
TEST(KnownFaults, kf_decode_07_PagesAndLengthsAreChecked) {
  const std::string sizes = paged(2, 4, 16, 3, "Hq=2 Hkv=1 D=32");
  const auto fresh = [&] {
    FaultCall call("attention_decode", sizes);
    call.input("lengths").data = {17, 32};
    call.input("block_table").data = {0, 1, -1, 2, 3, 99};
    return call;
  };
  ASSERT_TRUE(fresh().run().ok());  // entries behind the last page in use are not looked at
  FaultCall high = fresh(), negative = fresh(), long_one = fresh(), below_zero = fresh();
  high.input("block_table").data[4] = 4;
  high.expect_refused(ErrorCode::kIndexRange, "block_table[1, 1] = 4");
  negative.input("block_table").data[1] = -1;
  negative.expect_refused(ErrorCode::kIndexRange, "block_table[0, 1] = -1");
  long_one.input("lengths").data[1] = 49;
  long_one.expect_refused(ErrorCode::kIndexRange, "lengths[1] = 49");
  below_zero.input("lengths").data[0] = -1;
  below_zero.expect_refused(ErrorCode::kIndexRange, "lengths[0] = -1");
}

TEST(KnownFaults, kf_decode_08_LargeGroups) {
  for (const char* heads : {"Hq=32 Hkv=2", "Hq=32 Hkv=1"})
    for (double length : {1.0, 16.0, 50.0}) {
      FaultCall call("attention_decode", paged(1, 8, 16, 4, std::string(heads) + " D=128"));
      call.input("lengths").data = {length};
      call.input("block_table").data = {3, 1, 6, 0};
      for (const char* cache : {"k", "v"})
        for (double& value : call.input(cache).data)
          if (std::isnan(value)) value = 0.5;
      call.expect_right();
    }
}

// Twenty identical calls, twenty identical results, whatever the number of splits.
TEST(KnownFaults, kf_decode_10_RepeatedCallsAreBitEqual) {
  for (int splits : {1, 16}) {
    FaultCall call("attention_decode", "B=1 P=1 S=4096 Hq=16 Hkv=1 D=64 lse=1");
    Schedule schedule;
    schedule.name = "splits_" + std::to_string(splits);
    schedule.tile = {{"BN", 64}, {"SPLITS", splits}};
    schedule.dynamic = true;
    CallOptions options = with_kernel("split");
    options.schedule = &schedule;
    call.expect_right(options);
    const auto first = call.bytes("o");
    for (int round = 0; round < 20; ++round) {
      ASSERT_TRUE(call.run(options).ok());
      ASSERT_EQ(call.bytes("o"), first) << splits << " splits, round " << round;
    }
  }
}

// Appending: skipped tokens, slots out of range, and other tokens left alone.
TEST(KnownFaults, kf_decode_07_AppendChecksSlots) {
  FaultCall call("append_paged_kv", "T=3 P=2 S=4 Hkv=2 D=16", /*padded=*/true);
  call.input("slot_mapping").data = {7, -1, 0};
  call.expect_right();
  for (double slot : {8.0, -2.0, 4294967296.0}) {
    FaultCall bad("append_paged_kv", "T=3 P=2 S=4 Hkv=2 D=16");
    bad.input("slot_mapping").data = {0, slot, 1};
    bad.expect_refused(ErrorCode::kIndexRange, "slot_mapping[1] = ");
  }
}

}  // namespace
}  // namespace rooftile::known_faults
