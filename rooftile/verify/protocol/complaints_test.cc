// SPDX-License-Identifier: Apache-2.0
// What users of tile compilers complained of, rebuilt as small kernels: each is refuted, and proves
// once it is mended. The numbers are issues of TileLang.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rooftile/emulate/emulate.h"
#include "rooftile/emulate/testing/build.h"
#include "rooftile/verify/protocol/prove_protocol.h"

namespace rooftile::verify {
namespace {

using emulate::testing::append;
using emulate::testing::at;
using emulate::testing::dim;
using emulate::testing::elected;
using emulate::testing::i32;
using emulate::testing::ins;
using emulate::testing::lane;
using emulate::testing::tid;
using emulate::testing::warp;
using lanes::assign;
using lanes::Body;
using lanes::decl;
using lanes::equal;
using lanes::Fn;
using lanes::for_;
using lanes::if_;
using lanes::Ins;
using lanes::Program;
using lanes::Ty;
using lanes::Val;

constexpr int kSlotBytes = 512;

// Finished: placed, verified. `N` and `T` are trip counts.
Program kernel(Body body, int threads, int cluster = 1) {
  Program p;
  p.name = "complaint";
  p.tensors = {{.name = "x",
                .dtype = DType::kF32,
                .shape = {Expr::sym("X")},
                .read = true,
                .align_bytes = 16}};
  p.maps = {{.name = "map_x", .tensor = "x", .box = {kSlotBytes / 4}}};
  p.scalars = {{"N", Ty::kI32}, {"T", Ty::kI32}, {"X", Ty::kI32}};
  p.shared = {{.name = "ring", .bytes = 2 * kSlotBytes, .align = 1024},
              {.name = "full", .bytes = 16, .align = 8, .barriers = true},
              {.name = "empty", .bytes = 16, .align = 8, .barriers = true}};
  p.threads = threads;
  p.cluster = cluster;
  p.grid_x = cluster;
  p.body = std::move(body);
  EXPECT_TRUE(lanes::plan_shared(p).ok());
  const Status status = lanes::verify(p);
  EXPECT_TRUE(status.ok()) << status.str();
  return p;
}

// The kinds that are refuted; "proved", if everything is.
std::vector<std::string> told(const Program& p) {
  std::vector<std::string> out;
  bool proved = true;
  for (const Finding& f : prove_protocol(p, {})) {
    proved = proved && f.verdict == Verdict::kProved;
    if (f.verdict == Verdict::kRefuted) {
      out.emplace_back(kind_info(f.kind).id);
      std::vector<float> x(4096);
      bool replayed = false;
      for (uint64_t seed = 0; seed < 16 && !replayed; ++seed) {
        emulate::Launch launch;
        launch.tensors["x"] = {x.data(), DType::kF32, {4096}, {}};
        for (const char* name : {"N", "T"}) launch.ints[name] = f.example.call.at(name);
        launch.seed = seed;
        replayed = !emulate::run(p, launch).ok();
      }
      EXPECT_TRUE(replayed) << f.reason;
    } else if (f.verdict == Verdict::kUnknown && !f.example.story.empty()) {
      out.push_back("unknown: " + f.reason);
    }
  }
  if (proved) out.emplace_back("proved");
  return out;
}

lanes::Stmt store(const Val& byte) {
  return ins(Ins::kStShared, {.args = {at("ring", byte)}, .bytes = 4, .regs = {{"v"}}});
}
lanes::Stmt load(const Val& byte) {
  return ins(Ins::kLdShared, {.args = {at("ring", byte)}, .bytes = 4, .results = {{"v"}}});
}
lanes::Stmt meet() { return ins(Ins::kSyncThreads); }

// Threads hand their values to the thread `tid ^ 32` of the other warp, N times.
Body exchange(bool meet_before_read, bool meet_before_write) {
  Body round = {store(tid() * 4)};
  if (meet_before_read) round.push_back(meet());
  round.push_back(load(lanes::fn(Fn::kXor, {tid(), 32}) * 4));
  if (meet_before_write) round.push_back(meet());
  return {decl(Ty::kF32, "v", lanes::f32(0)), for_("i", 0, dim("N"), 1, round)};
}

// #2668: a pipelined loop reads, then overwrites.
TEST(Complaints, OverwrittenBeforeItIsRead) {
  EXPECT_THAT(told(kernel(exchange(true, false), 64)), ::testing::ElementsAre("lanes.shared-race"));
  EXPECT_THAT(told(kernel(exchange(true, true), 64)), ::testing::ElementsAre("proved"));
}

// #2698, #2612, #2556, #3042: a barrier that was needed is elided.
TEST(Complaints, ElidedBarrier) {
  EXPECT_THAT(told(kernel(exchange(false, true), 64)),
              ::testing::ElementsAre(::testing::AnyOf("lanes.shared-race", "lanes.initialised")));
}

// #2699, #2703: a lowering writes scratch memory that the placing of barriers knows nothing of.
TEST(Complaints, UndeclaredWrite) {
  for (const bool mended : {false, true}) {
    Body body = exchange(true, true);
    Body& round = body[1].body;
    // Behind the barrier the first warp uses its words again, which the other is to read.
    const auto scratch = if_(equal(warp(), 0), {store(tid() * 4)}, {}, true);
    if (mended) round.insert(round.begin() + 3, meet());
    round.insert(round.begin() + (mended ? 4 : 2), scratch);
    EXPECT_THAT(told(kernel(body, 64)),
                ::testing::ElementsAre(mended ? "proved" : "lanes.shared-race"));
  }
}

struct Ring {
  bool waits = true;         // #2443: the consumer waits for what is copied
  bool always_tells = true;  // #2566: the arrival comes whatever the trip count
  bool keeps_phase = true;   // PR #2674: phases go on from tile to tile
};

Val slot_of(const char* alloc) {
  return lanes::shared(alloc) + lanes::cast(Ty::kU32, i32("slot") * 8);
}
Body next_slot() {
  const Val wraps = equal(i32("slot"), 1);
  return {assign("phase", lanes::fn(Fn::kXor, {i32("phase"), lanes::select(wraps, 1, 0)})),
          assign("slot", lanes::select(wraps, 0, i32("slot") + 1))};
}
// T tiles of N steps over a ring of two slots.
Body tiles(Body step, bool keeps_phase) {
  append(step, next_slot());
  const Body start = {decl(Ty::kI32, "slot", 0), decl(Ty::kI32, "phase", 0)};
  const lanes::Stmt steps = for_("i", 0, dim("N"), 1, std::move(step));
  if (keeps_phase) {
    Body out = start;
    out.push_back(for_("t", 0, dim("T"), 1, {steps}));
    return out;
  }
  Body tile = start;
  tile.push_back(steps);
  return {for_("t", 0, dim("T"), 1, tile)};
}

// Warp 0 copies, warp 1 reads.
Program ring(const Ring& r) {
  Body set_up;
  for (int s = 0; s < 2; ++s)
    for (const char* alloc : {"full", "empty"})
      set_up.push_back(ins(Ins::kBarInit, {.args = {at(alloc, 8 * s), 1}}));
  set_up.push_back(ins(Ins::kBarInitFence));
  const Val to = lanes::shared("ring") + lanes::cast(Ty::kU32, i32("slot") * kSlotBytes);
  const lanes::Stmt expect = ins(Ins::kBarExpect, {.args = {slot_of("full")}, .bytes = kSlotBytes});
  Body copy = {
      ins(Ins::kBarWait, {.args = {slot_of("empty"), lanes::fn(Fn::kXor, {i32("phase"), 1})}}),
      r.always_tells ? expect : if_(Val(1) < dim("N"), {expect}, {}, true),
      ins(Ins::kBulkLoad,
          {.args = {to, slot_of("full")}, .bytes = kSlotBytes, .global = {"x", {0}, 1}})};
  Body read;
  if (r.waits) read.push_back(ins(Ins::kBarWait, {.args = {slot_of("full"), i32("phase")}}));
  append(read,
         {decl(Ty::kF32, "v"), load(i32("slot") * kSlotBytes + lane() * 4), ins(Ins::kSyncWarp),
          if_(equal(lane(), 0), {ins(Ins::kBarArrive, {.args = {slot_of("empty")}})})});
  Body body = {if_(equal(warp(), 0), elected("first", set_up), {}, true), meet(),
               if_(equal(warp(), 0), elected("one", tiles(copy, r.keeps_phase)),
                   tiles(read, r.keeps_phase), true)};
  return kernel(std::move(body), 64);
}

TEST(Complaints, RingAsItShouldBe) {
  EXPECT_THAT(told(ring({})), ::testing::ElementsAre("proved"));
}
TEST(Complaints, CopyNobodyWaitsFor) {
  EXPECT_THAT(told(ring({.waits = false})), ::testing::ElementsAre("lanes.initialised"));
}
TEST(Complaints, TripCountOne) {
  EXPECT_THAT(told(ring({.always_tells = false})),
              ::testing::ElementsAre(::testing::AnyOf("lanes.live", "lanes.barriers")));
}
TEST(Complaints, PhasesThatRestart) {
  EXPECT_THAT(told(ring({.keeps_phase = false})),
              ::testing::ElementsAre(::testing::AnyOf("lanes.live", "lanes.barriers")));
}

// CTA 0 copies one slot into both CTAs; `parity`: of the wait for it.
Program multicast(const Val& parity) {
  const Val rank = special(lanes::Special::kClusterRank);
  const Body set_up = {ins(Ins::kBarInit, {.args = {lanes::shared("full"), 1}}),
                       ins(Ins::kBarInit, {.args = {lanes::shared("empty"), Val(2) - i32("rank")}}),
                       ins(Ins::kBarInitFence)};
  const lanes::Stmt flip = assign("phase", lanes::fn(Fn::kXor, {i32("phase"), 1}));
  const auto walk = [&](Body step) -> Body {
    step.push_back(flip);
    return {decl(Ty::kI32, "phase", 0),
            for_("t", 0, dim("T"), 1, {for_("i", 0, dim("N"), 1, std::move(step))})};
  };
  const Body copy = {ins(Ins::kBarWait, {.args = {lanes::shared("empty"),
                                                  lanes::fn(Fn::kXor, {i32("phase"), 1})}}),
                     ins(Ins::kBarExpect, {.args = {lanes::shared("full")}, .bytes = kSlotBytes}),
                     if_(equal(i32("rank"), 0),
                         {ins(Ins::kTmaLoadMulticast,
                              {.args = {lanes::shared("ring"), lanes::shared("full"), 3, 0},
                               .bytes = kSlotBytes,
                               .map = "map_x"})},
                         {}, true)};
  const Body read = {
      ins(Ins::kBarWait, {.args = {lanes::shared("full"), parity}}), decl(Ty::kF32, "v"),
      load(lane() * 4), ins(Ins::kSyncWarp),
      if_(equal(lane(), 0),
          {ins(Ins::kBarArrive, {.args = {lanes::shared("empty")}}),
           if_(equal(i32("rank"), 1),
               {ins(Ins::kBarArriveRemoteRelease, {.args = {lanes::shared("empty"), 0}})})})};
  Body body = {decl(Ty::kI32, "rank", rank),
               if_(equal(warp(), 0), elected("first", set_up), {}, true),
               ins(Ins::kClusterArriveRelease),
               ins(Ins::kClusterWait),
               if_(equal(warp(), 0), elected("one", walk(copy)), walk(read), true),
               ins(Ins::kClusterArriveRelease),
               ins(Ins::kClusterWait)};
  return kernel(std::move(body), 64, 2);
}

// #2927: the parity of a wait is taken from the loop, not from the barrier's history.
TEST(Complaints, ParityOfTheLoop) {
  EXPECT_THAT(told(multicast(i32("phase"))), ::testing::ElementsAre("proved"));
  EXPECT_THAT(told(multicast(lanes::fn(Fn::kAnd, {i32("i"), 1}))),
              ::testing::ElementsAre(::testing::AnyOf("lanes.live", "lanes.barriers")));
}

}  // namespace
}  // namespace rooftile::verify
