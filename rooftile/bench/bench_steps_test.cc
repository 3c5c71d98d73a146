// SPDX-License-Identifier: Apache-2.0
// Who is wrong where a kernel of ours and a library differ at full size.
#include "rooftile/bench/bench_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rooftile/check/case_inputs.h"
#include "rooftile/check/host_tensor.h"

namespace rooftile::bench {
namespace {

using ::testing::HasSubstr;

class AgainstPeer : public testing::Test {
 protected:
  void call(const std::string& op, const std::string& text) {
    op_ = find_op(op);
    auto test_case = check::parse_case(text);
    ASSERT_TRUE(test_case.ok());
    auto call = check::resolve_case(*op_, *test_case);
    ASSERT_TRUE(call.ok()) << call.diag().str();
    call_ = std::move(*call);
    line_.seed = 7;
    ASSERT_TRUE(check::make_inputs(*op_, call_, line_.seed).ok());
    RefCall expected = call_;
    op_->reference_fn(expected);
    exact_ = expected[output()];
    rounded_ = exact_;
    check::quantize(rounded_, call_.config.dtype(output()));
  }
  const std::string& output() const { return op_->args.front().name; }

  void judge(const NdArray& theirs, const NdArray& ours) {
    check_against_peer(*op_, call_, "the library", {{output(), theirs}}, {{output(), ours}},
                       options_, line_);
  }

  // As a library does that splits K in two and adds the parts in the result's own dtype.
  NdArray split_in_two() {
    RefCall first = call_, second = call_;
    const int64_t K = call_.dim("K");
    for (const char* operand : {"a", "b"})
      for (size_t i = 0; i < first[operand].data.size(); ++i)
        (static_cast<int64_t>(i) % K < K / 2 ? second : first)[operand].data[i] = 0;
    op_->reference_fn(first);
    op_->reference_fn(second);
    const DType dtype = call_.config.dtype("d");
    check::quantize(first["d"], dtype);
    check::quantize(second["d"], dtype);
    NdArray sum = first["d"];
    for (size_t i = 0; i < sum.data.size(); ++i) sum.data[i] += second["d"].data[i];
    check::quantize(sum, dtype);
    return sum;
  }

  const OpDef* op_ = nullptr;
  RefCall call_;
  NdArray exact_, rounded_;
  BenchOptions options_;
  BenchLine line_;
};

TEST_F(AgainstPeer, EqualResultsPass) {
  call("gemm", "M=16 N=300 K=511");
  judge(rounded_, rounded_);
  EXPECT_TRUE(line_.pass);
  EXPECT_EQ(line_.peer_wrong, "");
  EXPECT_EQ(line_.peer_norm_err, 0);
}

// Sums of parts in bf16 are one rounding more than the tolerance has: the library's fault, not
// ours.
TEST_F(AgainstPeer, APeerThatRoundsPartialSumsIsNamed) {
  call("gemm", "M=16 N=4095 K=1023");
  judge(split_in_two(), rounded_);
  EXPECT_TRUE(line_.pass) << line_.errors.reason;
  EXPECT_THAT(line_.peer_wrong, HasSubstr("outside the tolerance"));
}

TEST_F(AgainstPeer, ThatRoundingIsOursIfWeDoIt) {
  call("gemm", "M=16 N=4095 K=1023");
  judge(rounded_, split_in_two());
  EXPECT_FALSE(line_.pass);
  EXPECT_THAT(line_.errors.reason, HasSubstr("float64"));
  EXPECT_EQ(line_.peer_wrong, "");
}

// One element of many: a sample that was blind for where they differ would miss it.
TEST_F(AgainstPeer, OneWrongElementOfOursFails) {
  call("gemm", "M=16 N=4095 K=256");
  options_.max_reference_flops = 2e6;  // a small part of the whole
  NdArray ours = rounded_;
  ours.data[7 * 4095 + 1234] += 3;
  judge(rounded_, ours);
  EXPECT_FALSE(line_.pass);
  EXPECT_EQ(line_.errors.want, exact_.data[7 * 4095 + 1234]);
}

// Two that are wrong alike: each is judged by float64.
TEST_F(AgainstPeer, AgreementIsNoProof) {
  call("gemm", "M=4 N=8 K=64");
  NdArray wrong = rounded_;
  wrong.data[5] += 3;
  judge(wrong, wrong);
  EXPECT_FALSE(line_.pass);
  EXPECT_NE(line_.peer_wrong, "");
}

TEST_F(AgainstPeer, RowsAreSampledToo) {
  call("softmax", "T=1000 V=33 dtype=f32");
  NdArray ours = exact_;
  ours.data[33 * 501 + 2] *= 1.5;
  options_.max_reference_flops = 2e4;
  judge(exact_, ours);
  EXPECT_FALSE(line_.pass);
  EXPECT_EQ(line_.errors.want, exact_.data[33 * 501 + 2]);
}

// Nothing of such a call can be taken apart: the two are compared with each other.
TEST_F(AgainstPeer, WithoutAPartADifferenceIsOurs) {
  call("gemm", "M=1 N=1 K=64");
  NdArray theirs = rounded_;
  theirs.data[0] += 3;
  judge(theirs, rounded_);
  EXPECT_FALSE(line_.pass);
  EXPECT_THAT(line_.errors.reason, HasSubstr("the library"));
}

}  // namespace
}  // namespace rooftile::bench
