// SPDX-License-Identifier: Apache-2.0
// Publicly reported faults of attention over whole sequences, packed or not.
#include <algorithm>

#include "tests/known_faults/fault_call.h"

namespace rooftile::known_faults {
namespace {

// Rows that see no key are 0 with LSE -inf.
TEST(KnownFaults, kf_attn_fwd_01_RowsWithoutKeys) {
  for (const char* lengths : {"Tq=7 Tk=3", "Tq=130 Tk=2", "Tq=256 Tk=129", "Tq=1 Tk=0"})
    FaultCall("attention_prefill", std::string(lengths) + " Hq=2 Hkv=1 D=64 causal=1 lse=1")
        .expect_right();
  FaultCall call("attention_prefill", "Tq=7 Tk=3 Hq=2 Hkv=2 D=64 causal=1 lse=1");
  ASSERT_TRUE(call.run().ok());
  const NdArray o = call.output("o"), lse = call.output("lse");
  for (int64_t row = 0; row < 7; ++row) {
    EXPECT_EQ(lse({0, row}) == -kInf, row < 4);
    for (int64_t d = 0; d < 64; ++d) EXPECT_TRUE(row >= 4 || o({row, 0, d}) == 0.0);
  }
}

// Scores far below any finite stand-in for minus infinity.
TEST(KnownFaults, kf_attn_fwd_02_VeryNegativeScores) {
  for (double level : {-2e4, -5e4, -6e4, -1e5, -5e5}) {
    FaultCall call("attention_prefill", "Tq=1 Tk=64 Hq=16 Hkv=1 D=128 scale=1 lse=1");
    call.fill("q", 1.0);
    call.fill("k", level / 128);
    std::fill_n(call.input("k").data.begin(), 128, (level + 5000) / 128);
    ASSERT_TRUE(call.run().ok());
    const NdArray o = call.output("o"), lse = call.output("lse");
    NdArray v = call.input("v");
    check::quantize(v, DType::kBf16);
    for (int64_t h = 0; h < 16; ++h) {
      EXPECT_NEAR(lse({h, 0}), level + 5000, 0.01 * std::abs(level));
      // Key 0 has all the weight; its probability and the output are rounded to bf16.
      for (int64_t d = 0; d < 128; ++d)
        EXPECT_NEAR(o({0, h, d}), v({0, 0, d}), 0x1p-7 * std::abs(v({0, 0, d})));
    }
  }
}

// A whole first block of keys without a visible one must not poison the running maximum.
TEST(KnownFaults, kf_attn_fwd_03_MaskedFirstBlock) {
  FaultCall("attention_prefill",
            "Tq=2 Tk=441 Hq=2 Hkv=2 D=64 causal=1 window_left=40 dtype=f32 lse=1")
      .expect_right();
  FaultCall("attention_prefill", "Tq=200 Tk=441 Hq=1 Hkv=1 D=32 causal=1 window_left=5 lse=1")
      .expect_right();
  // Keys whose scores are -inf: as if they were masked.
  FaultCall call("attention_prefill", "Tq=4 Tk=300 Hq=1 Hkv=1 D=8 dtype=f32 scale=1 lse=1");
  call.fill("q", 1.0);
  std::fill_n(call.input("k").data.begin(), 128 * 8, -kInf);
  call.expect_right();
}

// Positions beyond 2^15 and 2^16.
TEST(KnownFaults, kf_attn_fwd_04_LongSequences) {
  FaultCall zeros("attention_prefill", "Tq=1 Tk=33728 Hq=1 Hkv=1 D=64 dtype=f32 causal=1 lse=1");
  for (const char* tensor : {"q", "k", "v"}) zeros.fill(tensor, 0.0);
  ASSERT_TRUE(zeros.run().ok());
  for (double value : zeros.output("o").data) ASSERT_EQ(value, 0.0);
  for (const char* length : {"32767", "32768", "32769", "65537"})
    FaultCall("attention_prefill", "Tq=3 Tk=" + std::string(length) +
                                       " Hq=1 Hkv=1 D=64 causal=1 window_left=40000 lse=1")
        .expect_right();
}

// A view with heads outside rows, padded rows, and heads that share one memory (stride 0).
TEST(KnownFaults, kf_attn_fwd_05_AnyStrides) {
  FaultCall("attention_prefill", "Tq=77 Tk=77 Hq=4 Hkv=4 D=64 causal=1 lse=1 dtype=f16", true)
      .expect_right();
  FaultCall call("attention_prefill", "Tq=20 Tk=30 Hq=4 Hkv=4 D=16 dtype=f32 lse=1");
  NdArray& k = call.input("k");
  for (int64_t t = 0; t < 30; ++t)
    for (int64_t h = 1; h < 4; ++h)
      for (int64_t d = 0; d < 16; ++d) k({t, h, d}) = k({t, 0, d});
  call.view("k").strides[1] = 0;  // one head, seen four times
  call.expect_right();
  // [H, T, D] memory as a [T, H, D] view.
  FaultCall swapped("attention_prefill", "Tq=20 Tk=30 Hq=2 Hkv=2 D=16 dtype=f32 lse=1");
  NdArray head_major = {{2, 30, 16}, std::vector<double>(2 * 30 * 16)};
  for (int64_t t = 0; t < 30; ++t)
    for (int64_t h = 0; h < 2; ++h)
      for (int64_t d = 0; d < 16; ++d) head_major({h, t, d}) = swapped.input("v")({t, h, d});
  check::HostTensor memory(DType::kF32, head_major.shape);
  memory.store(head_major);
  TensorView& v = swapped.view("v");
  v.data = memory.data();
  v.strides[0] = 16;
  v.strides[1] = 30 * 16;
  swapped.expect_right();
}

// The stride of a dimension of extent 1 means nothing.
TEST(KnownFaults, kf_attn_fwd_06_StrideOfExtentOne) {
  FaultCall call("attention_prefill", "Tq=2 Tk=1 Hq=1 Hkv=1 D=1 scale=1 dtype=f32 lse=1");
  for (const char* tensor : {"q", "k", "v", "o"}) call.view(tensor).strides[2] = 2;
  call.view("k").strides[0] = 7;
  call.view("v").strides[1] = -3;
  call.expect_right();
}

// A window over all of the history is plain causal.
TEST(KnownFaults, kf_attn_fwd_08_WindowOverEverything) {
  for (const char* length : {"127", "128", "129", "300"}) {
    const std::string sizes = "Tq=" + std::string(length) + " Tk=" + length +
                              " Hq=2 Hkv=1 D=32 dtype=f16 causal=1 lse=1 window_left=";
    std::vector<NdArray> results;
    for (int64_t window : {int64_t{-1}, std::stol(length), std::stol(length) - 1}) {
      FaultCall call("attention_prefill", sizes + std::to_string(window));
      call.expect_right();
      results.push_back(call.output("o"));
    }
    const auto one_less = std::stol(length) - 2;  // hides key 0 from the last query only
    FaultCall call("attention_prefill", sizes + std::to_string(one_less));
    call.expect_right();
    EXPECT_NE(call.output("o").data, results[0].data);
  }
}

// An accepted option acts: code without the cap does not drop it in silence.
TEST(KnownFaults, kf_attn_fwd_09_SoftcapNeverDropped) {
  const std::string sizes = "Tq=64 Tk=64 Hq=8 Hkv=2 D=128 softcap=30 lse=1 ";
  FaultCall capped("attention_prefill", sizes + "softcap_on=1");
  for (double& q : capped.input("q").data) q *= 12;
  capped.expect_right();
  FaultCall missing("attention_prefill", sizes + "softcap_on=0");
  ASSERT_TRUE(missing.run().ok());
  for (double value : missing.output("o").data) ASSERT_TRUE(std::isnan(value));
  FaultCall window("attention_prefill", "Tq=64 Tk=64 Hq=8 Hkv=2 D=128 lse=1 window_left=3");
  FaultCall open("attention_prefill", "Tq=64 Tk=64 Hq=8 Hkv=2 D=128 lse=1");
  window.expect_right();
  open.expect_right();
  EXPECT_NE(window.output("o").data, open.output("o").data);
}

// Offsets that do not fit the tensors are refused, not followed.
TEST(KnownFaults, kf_attn_fwd_10_OffsetsMustFit) {
  FaultCall call("attention_prefill",
                 "Tq=4 Tk=4 B1=3 cu_q=1 cu_k=1 Hq=2 Hkv=2 D=16 causal=1 lse=1");
  call.input("cu_q").data = {0, 2, 4};
  call.input("cu_k").data = {0, 2, 256};
  call.expect_refused(ErrorCode::kIndexOrder, "cu_k");
}

TEST(KnownFaults, kf_attn_fwd_11_GroupRatios) {
  for (int ratio : {12, 3, 5, 6, 7})
    for (int kv_heads : {2, 4}) {
      const std::string heads =
          " Hq=" + std::to_string(ratio * kv_heads) + " Hkv=" + std::to_string(kv_heads);
      FaultCall("attention_prefill", "Tq=2 Tk=113 D=64 lse=1" + heads).expect_right();
      FaultCall("attention_decode", "B=2 P=2 S=113 D=64 lse=1" + heads).expect_right();
    }
  FaultCall("attention_prefill", "Tq=17 Tk=113 Hq=24 Hkv=2 D=128 causal=1 lse=1").expect_right();
}

// New queries after a cache: query i sees the cache and i + 1 new keys.
TEST(KnownFaults, kf_decode_11_SeveralNewQueries) {
  for (const char* lengths : {"Tq=4 Tk=21", "Tq=130 Tk=131", "Tq=128 Tk=256", "Tq=5 Tk=5"})
    FaultCall("attention_prefill", std::string(lengths) + " Hq=8 Hkv=2 D=64 causal=1 lse=1")
        .expect_right();
  // The last four rows of attention over all 21 tokens.
  FaultCall whole("attention_prefill", "Tq=21 Tk=21 Hq=8 Hkv=2 D=64 causal=1 lse=1");
  FaultCall tail("attention_prefill", "Tq=4 Tk=21 Hq=8 Hkv=2 D=64 causal=1 lse=1");
  const auto row = 8 * 64;
  std::copy_n(whole.input("q").data.begin() + 17 * row, 4 * row, tail.input("q").data.begin());
  tail.input("k") = whole.input("k");
  tail.input("v") = whole.input("v");
  ASSERT_TRUE(whole.run().ok() && tail.run().ok());
  const NdArray all = whole.output("o"), last = tail.output("o");
  for (int64_t i = 0; i < 4 * row; ++i)
    ASSERT_NEAR(last.data[static_cast<size_t>(i)], all.data[static_cast<size_t>(17 * row + i)],
                0.02);
}

TEST(KnownFaults, kf_decode_03_MoreQueriesThanKeys) {
  for (const char* lengths : {"Tq=8 Tk=3", "Tq=8 Tk=0"})
    FaultCall("attention_prefill", std::string(lengths) + " Hq=2 Hkv=1 D=32 causal=1 lse=1")
        .expect_right();
}

TEST(KnownFaults, kf_decode_09_LongQueriesAgainstFewKeys) {
  FaultCall("attention_prefill", "Tq=1024 Tk=256 Hq=2 Hkv=1 D=64 causal=1 lse=1").expect_right();
}

TEST(KnownFaults, kf_varlen_01_EmptySegmentAmongSingleQueries) {
  FaultCall call("attention_prefill",
                 "Tq=2 Tk=8 B1=4 cu_q=1 cu_k=1 Hq=9 Hkv=3 D=64 causal=1 lse=1");
  call.input("cu_q").data = {0, 1, 1, 2};
  call.input("cu_k").data = {0, 3, 3, 8};
  call.expect_right();
}

TEST(KnownFaults, kf_varlen_02_EightyThousandSegments) {
  for (int64_t count : {int64_t{80000}, int64_t{65536}}) {
    const int64_t length = count == 80000 ? 16 : 1;
    const std::string tokens = std::to_string(count * length);
    FaultCall call("attention_prefill", "Tq=" + tokens + " Tk=" + tokens +
                                            " B1=" + std::to_string(count + 1) +
                                            " cu_q=1 cu_k=1 Hq=2 Hkv=2 D=8 causal=1 lse=1");
    for (const char* offsets : {"cu_q", "cu_k"})
      for (int64_t b = 0; b <= count; ++b)
        call.input(offsets)({b}) = static_cast<double>(b * length);
    call.expect_right();
  }
}

TEST(KnownFaults, kf_varlen_03_NothingToDo) {
  for (const char* sizes : {"Tq=0 Tk=16 Hq=2 Hkv=2", "Tq=5 Tk=0 Hq=2 Hkv=2", "Tq=5 Tk=5 Hq=0 Hkv=0",
                            "Tq=0 Tk=0 B1=1 cu_q=1 cu_k=1 Hq=2 Hkv=2"})
    FaultCall("attention_prefill", std::string(sizes) + " D=64 lse=1").expect_right();
  FaultCall("attention_decode", "B=0 P=0 S=16 Hq=2 Hkv=2 D=64 lse=1").expect_right();
}

TEST(KnownFaults, kf_varlen_04_EmptyTensorsLeaveNoErrorBehind) {
  FaultCall("attention_prefill", "Tq=0 Tk=0 Hq=1 Hkv=1 D=64 dtype=f32 lse=1").expect_right();
  FaultCall("attention_prefill", "Tq=10 Tk=0 Hq=8 Hkv=8 D=64 dtype=f32 lse=1").expect_right();
  FaultCall("attention_prefill", "Tq=10 Tk=10 Hq=8 Hkv=8 D=64 dtype=f32 lse=1").expect_right();
}

}  // namespace
}  // namespace rooftile::known_faults
