// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "rooftile/ops/attention/attention_contract.h"
#include "rooftile/ops/reference_case.h"

namespace rooftile::ops {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// Zero queries weigh all visible keys alike: outputs are means of values, the LSE is ln(count).
RefCall uniform(const std::string& sizes) {
  RefCall call = reference_case("attention_prefill", sizes + " Hq=1 Hkv=1 D=1 dtype=f32 lse=1");
  call["q"].data.assign(call["q"].data.size(), 0.0);
  for (size_t i = 0; i < call["v"].data.size(); ++i) call["v"].data[i] = static_cast<double>(i + 1);
  return call;
}

TEST(PrefillReference, CausalIsBottomRight) {
  RefCall call = uniform("Tq=2 Tk=4 causal=1");
  run_reference("attention_prefill", call);
  EXPECT_NEAR(call["o"].data[0], 2.0, 1e-12);  // keys 0 to 2
  EXPECT_NEAR(call["o"].data[1], 2.5, 1e-12);  // keys 0 to 3
  EXPECT_NEAR(call["lse"].data[1], std::log(4.0), 1e-12);
}

TEST(PrefillReference, RowsWithoutKeys) {
  RefCall call = uniform("Tq=3 Tk=1 causal=1");
  run_reference("attention_prefill", call);
  EXPECT_EQ(call["o"].data, (std::vector<double>{0, 0, 1}));
  EXPECT_EQ(call["lse"].data[0], -kInf);
  EXPECT_EQ(call["lse"].data[2], 0.0);
}

TEST(PrefillReference, WindowIsInclusive) {
  RefCall call = uniform("Tq=5 Tk=5 window_left=1 window_right=0");
  run_reference("attention_prefill", call);
  EXPECT_EQ(call["o"].data, (std::vector<double>{1, 1.5, 2.5, 3.5, 4.5}));
}

TEST(PrefillReference, SequencesDoNotMix) {
  RefCall call = uniform("Tq=3 Tk=5 B1=4 cu_q=1 cu_k=1");
  call["cu_q"].data = {0, 1, 1, 3};
  call["cu_k"].data = {0, 2, 5, 5};
  run_reference("attention_prefill", call);
  EXPECT_EQ(call["o"].data, (std::vector<double>{1.5, 0, 0}));
}

TEST(PrefillReference, SoftcapAndSink) {
  RefCall call = reference_case(
      "attention_prefill",
      "Tq=1 Tk=1 Hq=1 Hkv=1 D=1 dtype=f32 lse=1 sink=1 scale=2 softcap=3 softcap_on=1");
  call["q"].data = {4};
  call["k"].data = {1};
  call["v"].data = {10};
  call["sink"].data = {1};
  run_reference("attention_prefill", call);
  const double logit = 3 * std::tanh(8.0 / 3);
  EXPECT_NEAR(call["lse"].data[0], logit, 1e-12);  // without the sink
  EXPECT_NEAR(call["o"].data[0], 10 / (1 + std::exp(1 - logit)), 1e-12);
}

TEST(PrefillCost, CountsVisiblePairsOnly) {
  RefCall call = uniform("Tq=3 Tk=4 causal=1");
  EXPECT_EQ(visible_pairs(call, 3, 4), 2 + 3 + 4);
  EXPECT_EQ(visible_pairs(call, 4, 3), 0 + 1 + 2 + 3);
  call.attrs["window_left"] = 1;
  EXPECT_EQ(visible_pairs(call, 3, 4), 6);
}

// A decode step is the last row of a causal prefill.
TEST(DecodeReference, IsTheLastRowOfPrefill) {
  RefCall whole = reference_case("attention_prefill",
                                 "Tq=6 Tk=6 Hq=4 Hkv=2 D=8 dtype=f32 causal=1 window_left=3");
  run_reference("attention_prefill", whole);
  for (const char* layout : {"B=1 P=1 S=6", "B=1 P=5 S=4 MP=2 kv_layout=paged block_table=1"}) {
    RefCall step = reference_case("attention_decode",
                                  std::string(layout) + " Hq=4 Hkv=2 D=8 dtype=f32 window_left=3");
    step["lengths"].data = {6};
    std::vector<size_t> rows = {0, 1, 2, 3, 4, 5};
    if (step.has("block_table")) {
      step["block_table"].data = {3, 1};
      rows = {12, 13, 14, 15, 4, 5};
    }
    for (const char* cache : {"k", "v"})
      for (size_t token = 0; token < 6; ++token)
        for (size_t i = 0; i < 16; ++i)
          step[cache].data[rows[token] * 16 + i] = whole[cache].data[token * 16 + i];
    for (size_t i = 0; i < 32; ++i) step["q"].data[i] = whole["q"].data[5 * 32 + i];
    run_reference("attention_decode", step);
    for (size_t i = 0; i < 32; ++i)
      EXPECT_NEAR(step["o"].data[i], whole["o"].data[5 * 32 + i], 1e-12);
  }
}

TEST(AppendReference, WritesSlotsAndSkips) {
  RefCall call = reference_case("append_paged_kv", "T=3 P=2 S=2 Hkv=1 D=1 dtype=f32");
  call["slot_mapping"].data = {3, -1, 0};
  call["k_new"].data = {1, 2, 3};
  call["k_cache"].data = {9, 9, 9, 9};
  run_reference("append_paged_kv", call);
  EXPECT_EQ(call["k_cache"].data, (std::vector<double>{3, 9, 9, 1}));
}

}  // namespace
}  // namespace rooftile::ops
