// SPDX-License-Identifier: Apache-2.0
// Waits for tickets: they end when other CTAs have added, as long as no CTA holds up its own
// additions to earlier rounds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rooftile/emulate/testing/build.h"
#include "rooftile/verify/protocol/prove_protocol.h"

namespace rooftile::verify {
namespace {

using emulate::testing::dim;
using emulate::testing::i32;
using emulate::testing::ins;
using emulate::testing::lane;
using emulate::testing::warp;
using lanes::Body;
using lanes::equal;
using lanes::if_;
using lanes::Ins;
using lanes::Program;
using lanes::Ty;
using ::testing::Contains;
using ::testing::Each;
using ::testing::Pair;

Program kernel(Body body) {
  Program p;
  p.name = "tickets";
  p.tensors = {{.name = "tickets",
                .dtype = DType::kI32,
                .shape = {2},
                .written = true,
                .read = true,
                .workspace = true,
                .zeroed = true,
                .align_bytes = 4}};
  p.scalars = {{"N", Ty::kI32}};
  p.threads = 64;
  p.body = std::move(body);
  EXPECT_TRUE(lanes::plan_shared(p).ok());
  const Status status = lanes::verify(p);
  EXPECT_TRUE(status.ok()) << status.str();
  return p;
}

lanes::Stmt wait() {
  return if_(
      equal(lane(), 0),
      {ins(Ins::kWaitGlobal, {.args = {1}, .global = {"tickets", {0}, 1}, .dtype = DType::kI32})});
}
lanes::Stmt add() {
  return if_(equal(lane(), 0),
             {lanes::decl(Ty::kI32, "one", 1),
              ins(Ins::kRedGlobalRelease,
                  {.regs = {{"one"}}, .global = {"tickets", {1}, 1}, .dtype = DType::kI32})});
}
lanes::Stmt meet() { return ins(Ins::kSyncThreads); }

std::vector<std::pair<Kind, Verdict>> verdicts(const Program& p) {
  std::vector<std::pair<Kind, Verdict>> out;
  for (const Finding& f : prove_protocol(p, {})) out.emplace_back(f.kind, f.verdict);
  return out;
}

// The first warp waits for a ticket in each round, the second adds to one; they meet in between.
Body rounds(Body before_adding) {
  Body adds = std::move(before_adding);
  adds.push_back(meet());
  adds.push_back(add());
  return {lanes::for_("item", 0, dim("N"), 1,
                      {if_(equal(warp(), 0), {wait(), meet()}, std::move(adds), true)})};
}

TEST(Tickets, WhoWaitsHoldsUpOwnAdditionsOfTheSameRoundAlone) {
  EXPECT_THAT(verdicts(kernel(rounds({}))), Each(Pair(::testing::_, Verdict::kProved)));
}

// The second warp comes to add in a round only when the first is through with the ticket of the
// next one, for which a CTA may wait that waits for this very addition.
TEST(Tickets, WhoWaitsHoldsUpAdditionsOfAnEarlierRound) {
  Body body = rounds({if_(equal(i32("item"), 0), {meet()}, {}, true)});
  body.push_back(
      if_(equal(warp(), 0), {if_(lanes::Val(0) < dim("N"), {meet()}, {}, true)}, {}, true));
  EXPECT_THAT(verdicts(kernel(body)), Contains(Pair(Kind::kNoDeadlock, Verdict::kRefuted)));
}

// Outside of rounds nothing says which additions come first.
TEST(Tickets, AdditionsOutsideOfRoundsAreNotDecided) {
  const Body body = {if_(equal(warp(), 0), {wait(), meet()}, {meet(), add()}, true)};
  EXPECT_THAT(verdicts(kernel(body)), Contains(Pair(Kind::kNoDeadlock, Verdict::kUnknown)));
}

}  // namespace
}  // namespace rooftile::verify
