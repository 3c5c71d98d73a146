// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/protocol/terms.h"

#include <gtest/gtest.h>

namespace rooftile::verify::protocol {
namespace {

using lanes::Fn;
using lanes::Ty;

class TermsTest : public ::testing::Test {
 protected:
  ValueId dim(const char* name) { return terms.symbol(name, Ty::kI32, {0, kOpen}); }
  ValueId number(int64_t n) { return terms.constant(n); }
  ValueId fn(Fn f, ValueId a, ValueId b) { return terms.fn(f, Ty::kI32, Ty::kI32, {a, b}); }
  Terms terms;
};

// A condition is one atom, however it is written, and its negation is the same one.
TEST_F(TermsTest, ConditionsWrittenOtherwise) {
  const ValueId k = dim("K");
  const ValueId some = fn(Fn::kLt, number(0), k), none = fn(Fn::kLe, k, number(0));
  EXPECT_EQ(terms.fn(Fn::kLogicalNot, Ty::kPred, Ty::kPred, {some}), none);
  EXPECT_EQ(fn(Fn::kLt, number(0), terms.scaled(k, 64)), some);
  EXPECT_EQ(fn(Fn::kLe, number(64), fn(Fn::kMul, k, number(64))), some);
  EXPECT_TRUE(terms.is(fn(Fn::kLe, number(0), k), 1));
}

TEST_F(TermsTest, QuotientsOfWhatDivides) {
  const ValueId cluster = dim("cluster.x"), x = terms.add(terms.scaled(cluster, 2), number(1));
  EXPECT_EQ(fn(Fn::kShr, x, number(1)), cluster);
  EXPECT_EQ(fn(Fn::kAnd, x, number(1)), number(1));
}

// A loop that begins a step later walks the same numbers under the same names.
TEST_F(TermsTest, StepsOfPeeledLoops) {
  Loop l;
  l.base = dim("begin");
  l.unit = number(64);
  l.end = dim("end");
  const LoopId loop = terms.loop(l);
  const ValueId later = terms.step(loop, 2), sooner = terms.step(loop, 1);
  EXPECT_TRUE(terms.is(fn(Fn::kLt, sooner, later), 1));
  EXPECT_EQ(terms.bounds(sooner).lo, 64);
  EXPECT_EQ(terms.step(loop, 0), number(0));
  // Renamed, it is any step that is not the first.
  terms.begin_renaming({{loop, 1}});
  const ValueId renamed = terms.renamed(later);
  EXPECT_NE(renamed, sooner);
  EXPECT_EQ(terms.bounds(renamed).lo, 64);
  EXPECT_EQ(terms.bounds(renamed).hi, kOpen);
}

TEST_F(TermsTest, LanesThatDifferAreDecidedOneByOne) {
  std::array<int64_t, kLanes> lane{};
  for (size_t i = 0; i < kLanes; ++i) lane[i] = static_cast<int64_t>(i);
  const ValueId n = fn(Fn::kMin, dim("K"), number(16));
  const Value v = terms.value(fn(Fn::kLt, terms.of_lanes(lane), n));
  EXPECT_EQ(v.unknown, 0xffffu);  // below 16 only K can tell
  EXPECT_EQ(v.lane[16], 0);
}

}  // namespace
}  // namespace rooftile::verify::protocol
