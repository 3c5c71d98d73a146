// SPDX-License-Identifier: Apache-2.0
// Each kind of fault, seeded into a small kernel: reported under every schedule, with the right
// code and words; and the same kernel without it, never.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <ostream>

#include "rooftile/emulate/emulate.h"
#include "rooftile/emulate/testing/build.h"

namespace rooftile::emulate {
namespace {

using namespace testing;  // NOLINT: short names for building programs
using lanes::assign;
using lanes::decl;
using lanes::decl_array;
using lanes::equal;
using lanes::for_;
using lanes::if_;
using ::testing::HasSubstr;

constexpr int64_t kElements = 1024;

// x and y are f32[1024]; m and n are the same as bf16[64, 64] with maps of 64 x 64 boxes.
struct Kernel {
  Body body;
  int threads = 64;
  int cluster = 1;
  int ctas = 1;
  std::vector<lanes::SharedAlloc> shared = {};
  bool dependent = false;
};

Result<Program> placed(Kernel k) {
  Program p;
  p.name = "small";
  p.tensors = {
      {.name = "x", .shape = {1024}, .read = true, .align_bytes = 16},
      {.name = "y", .shape = {1024}, .written = true, .read = true, .align_bytes = 16},
      {.name = "m", .dtype = DType::kBf16, .shape = {64, 64}, .read = true, .align_bytes = 16},
      {.name = "n", .dtype = DType::kBf16, .shape = {64, 64}, .written = true, .align_bytes = 16}};
  p.maps = {{.name = "map_m", .tensor = "m", .box = {64, 64}, .swizzle = lanes::Swizzle::k128},
            {.name = "map_n", .tensor = "n", .box = {64, 64}, .swizzle = lanes::Swizzle::k128}};
  p.shared = std::move(k.shared);
  p.threads = k.threads;
  p.cluster = k.cluster;
  p.grid_x = k.ctas;
  p.dependent_launch = k.dependent;
  p.body = std::move(k.body);
  RT_RETURN_IF_ERROR(lanes::plan_shared(p));
  RT_RETURN_IF_ERROR(lanes::verify(p));
  return p;
}

Status launched(const Program& program, uint64_t seed) {
  std::vector<float> x(kElements), y(kElements, -1);
  std::iota(x.begin(), x.end(), 0.f);
  std::vector<uint16_t> m(4096, 0x3f80), n(4096);
  Launch launch;
  launch.tensors["x"] = {x.data(), DType::kF32, {kElements}, {}};
  launch.tensors["y"] = {y.data(), DType::kF32, {kElements}, {}, false};
  launch.tensors["m"] = {m.data(), DType::kBf16, {64, 64}, {}};
  launch.tensors["n"] = {n.data(), DType::kBf16, {64, 64}, {}, false};
  launch.seed = seed;
  launch.max_statements = 1'000'000;
  return run(program, launch);
}

// ---- pieces

Stmt load(const std::string& reg, Val index, int width = 1) {
  return ins(Ins::kLdGlobal, {.results = {width == 1 ? RegRef{reg} : RegRef{reg, 0, width}},
                              .global = {"x", {std::move(index)}, width}});
}
Stmt store(const std::string& reg, Val index, Val guard = {}) {
  return ins(Ins::kStGlobal,
             {.regs = {{reg}}, .global = {"y", {std::move(index)}, 1}, .guard = std::move(guard)});
}
Stmt put(const std::string& reg, Val address) {
  return ins(Ins::kStShared, {.args = {std::move(address)}, .bytes = 4, .regs = {{reg}}});
}
Stmt get(const std::string& reg, Val address) {
  return ins(Ins::kLdShared, {.args = {std::move(address)}, .bytes = 4, .results = {{reg}}});
}
Stmt sync() { return ins(Ins::kSyncThreads); }
Stmt when(bool wanted, Stmt s) { return wanted ? std::move(s) : lanes::comment("missing"); }
std::vector<lanes::SharedAlloc> words(int count) {
  return {{.name = "s", .bytes = 4 * count, .align = 16}};
}
std::vector<lanes::SharedAlloc> tiles(int count, int barriers) {
  return {{.name = "t", .bytes = int64_t{8192} * count, .align = 1024},
          {.name = "bar", .bytes = int64_t{8} * barriers, .align = 8, .barriers = true}};
}
Val bar(int i = 0) { return at("bar", i * 8); }
Stmt thread0(Body body) { return if_(equal(tid(), 0), std::move(body)); }
Stmt wait(int i = 0, int parity = 0) { return ins(Ins::kBarWait, {.args = {bar(i), parity}}); }
Stmt init(int count, int i = 0) { return ins(Ins::kBarInit, {.args = {bar(i), count}}); }
Stmt init_fence() { return ins(Ins::kBarInitFence); }
Stmt load_tile(int bytes = 8192, int tile = 0) {
  return ins(Ins::kTmaLoad,
             {.args = {at("t", tile * 8192), bar(), 0, 0}, .bytes = bytes, .map = "map_m"});
}
Stmt expect(int bytes = 8192) { return ins(Ins::kBarExpect, {.args = {bar()}, .bytes = bytes}); }
Stmt store_tile() { return ins(Ins::kTmaStore, {.args = {at("t", 0), 0, 0}, .map = "map_n"}); }

// A tile is loaded and known to all.
Body tile_loaded() {
  return {thread0({init(1), init_fence(), expect(), load_tile()}), sync(), wait()};
}
Body product(const std::string& acc, bool fence, Val keep) {
  const Val desc = lanes::fn(Fn::kMatrixDesc, {at("t", 0), 16, 1024, 3});
  return {when(fence, ins(Ins::kWgmmaFence)),
          ins(Ins::kWgmma, {.args = {std::move(keep), desc, desc},
                            .n = 64,
                            .regs = {{acc, 0, 32}},
                            .dtype = DType::kBf16}),
          ins(Ins::kWgmmaCommit)};
}
const Val kNew = lanes::int_val(Ty::kU32, 0), kKeep = lanes::int_val(Ty::kU32, 1);

// ---- cases

struct Case {
  const char* name;
  ErrorCode code;
  const char* says;
  std::function<Kernel(bool fault)> make;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

std::vector<Case> cases() {
  return {
      {"UninitialisedRegister", ErrorCode::kEmuUninit, "holds nothing",
       [](bool fault) {
         return Kernel{{decl(Ty::kF32, "v"), when(!fault, load("v", tid())), store("v", tid())}};
       }},
      {"UninitialisedShared", ErrorCode::kEmuUninit, "nothing has written",
       [](bool fault) {
         return Kernel{
             {decl(Ty::kF32, "v", lanes::f32(1)), when(!fault, put("v", at("s", tid() * 4))),
              get("v", at("s", tid() * 4)), store("v", tid())},
             64,
             1,
             1,
             words(64)};
       }},
      // Whichever of the two comes first is named as the earlier one.
      {"ReadOfAnotherWarp", ErrorCode::kEmuRace, "of shared memory",
       [](bool fault) {
         return Kernel{{decl(Ty::kF32, "v", lanes::f32(1)), put("v", at("s", tid() * 4)), sync(),
                        put("v", at("s", tid() * 4)), when(!fault, sync()),
                        get("v", at("s", (Val(63) - tid()) * 4)), store("v", tid())},
                       64,
                       1,
                       1,
                       words(64)};
       }},
      {"ReadOfAnotherLane", ErrorCode::kEmuRace, "not ordered after a write",
       [](bool fault) {
         return Kernel{{decl(Ty::kF32, "v", lanes::f32(1)), put("v", at("s", tid() * 4)),
                        when(!fault, ins(Ins::kSyncWarp)),
                        get("v", at("s", (Val(31) - lane()) * 4)), store("v", tid())},
                       32,
                       1,
                       1,
                       words(32)};
       }},
      {"OverwriteOfWhatIsRead", ErrorCode::kEmuRace, "of shared memory",
       [](bool fault) {
         return Kernel{{decl(Ty::kF32, "v", lanes::f32(1)), put("v", at("s", tid() * 4)), sync(),
                        get("v", at("s", (Val(63) - tid()) * 4)), when(!fault, sync()),
                        put("v", at("s", tid() * 4)), store("v", tid())},
                       64,
                       1,
                       1,
                       words(64)};
       }},
      {"CopyNotWaitedFor", ErrorCode::kEmuRace, "a copy writes",
       [](bool fault) {
         return Kernel{{thread0({init(1), init_fence(), expect(), load_tile()}), sync(),
                        when(!fault, wait()), decl(Ty::kF32, "v"), get("v", at("t", tid() * 4)),
                        store("v", tid()), when(fault, wait())},
                       64,
                       1,
                       1,
                       tiles(1, 1)};
       }},
      {"OneLaneWaitsForAll", ErrorCode::kEmuRace, "a copy writes",
       [](bool fault) {
         return Kernel{{thread0({init(1), init_fence(), expect(), load_tile()}), thread0({wait()}),
                        when(!fault, sync()), decl(Ty::kF32, "v"), get("v", at("t", tid() * 4)),
                        store("v", tid())},
                       32,
                       1,
                       1,
                       tiles(1, 1)};
       }},
      {"ThreadCopyNotWaitedFor", ErrorCode::kEmuRace, "a copy writes",
       [](bool fault) {
         return Kernel{{ins(Ins::kCpAsync,
                            {.args = {at("s", tid() * 16), 16}, .global = {"x", {tid() * 4}, 4}}),
                        ins(Ins::kCpCommit), ins(Ins::kCpWait, {.n = fault ? 1 : 0}),
                        decl(Ty::kF32, "v"), get("v", at("s", tid() * 16)), store("v", tid())},
                       64,
                       1,
                       1,
                       words(256)};
       }},
      {"ThreadCopyOfAnother", ErrorCode::kEmuRace, "of shared memory",
       [](bool fault) {
         return Kernel{
             {decl(Ty::kF32, "w", lanes::f32(1)), put("w", at("s", tid() * 16)), sync(),
              ins(Ins::kCpAsync,
                  {.args = {at("s", tid() * 16), 16}, .global = {"x", {tid() * 4}, 4}}),
              ins(Ins::kCpCommit), ins(Ins::kCpWait), when(!fault, sync()), decl(Ty::kF32, "v"),
              get("v", at("s", (Val(63) - tid()) * 16)), store("v", tid())},
             64,
             1,
             1,
             words(256)};
       }},
      {"StoreWithoutProxyFence", ErrorCode::kEmuProxy, "without a proxy fence",
       [](bool fault) {
         Body fill = {for_("i", 0, 32, 1, {put("v", at("t", tid() * 4 + i32("i") * 256))})};
         return Kernel{
             {decl(Ty::kF32, "v", lanes::f32(1)), fill[0], when(!fault, ins(Ins::kProxyFence)),
              sync(), thread0({store_tile(), ins(Ins::kBulkCommit), ins(Ins::kBulkWaitRead)})},
             64,
             1,
             1,
             tiles(1, 1)};
       }},
      {"ProductWithoutProxyFence", ErrorCode::kEmuProxy, "without a proxy fence",
       [](bool fault) {
         Body b = {decl(Ty::kU32, "v", lanes::int_val(Ty::kU32, 0)),
                   for_("i", 0, 16, 1, {put("v", at("t", tid() * 4 + i32("i") * 512))}),
                   when(!fault, ins(Ins::kProxyFence)), sync(), decl_array(Ty::kF32, "acc", 32)};
         append(b, product("acc", true, kNew));
         b.push_back(ins(Ins::kWgmmaWait));
         return Kernel{b, 128, 1, 1, tiles(1, 1)};
       }},
      // Halves of a tile on two barriers, whose arrivals may land in either order; who multiplies
      // fences.
      {"ThreadCopyMultipliedUnfenced", ErrorCode::kEmuProxy, "without a proxy fence",
       [](bool fault) {
         const auto half = [](int h) {
           const Val piece = tid() + (i32("i") + 2 * h) * 128;  // 16 bytes each
           return for_(
               "i", 0, 2, 1,
               {ins(Ins::kCpAsync,
                    {.args = {at("t", piece * 16), 16},
                     .global = {"m",
                                {lanes::floor_div(piece, 8), lanes::floor_mod(piece, 8) * 8},
                                8},
                     .dtype = DType::kBf16})});
         };
         const auto told = [](int i) { return ins(Ins::kCpArrive, {.args = {bar(i)}}); };
         Body b = {thread0({init(128, 0), init(128, 1)}),
                   sync(),
                   half(0),
                   told(0),
                   half(1),
                   told(1),
                   decl_array(Ty::kF32, "acc", 32),
                   wait(0),
                   wait(1),
                   when(!fault, ins(Ins::kProxyFence))};
         append(b, product("acc", true, kNew));
         b.push_back(ins(Ins::kWgmmaWait));
         return Kernel{b, 128, 1, 1, tiles(1, 2)};
       }},
      {"StoreSourceOverwritten", ErrorCode::kEmuRace, "may still be read",
       [](bool fault) {
         Body b = tile_loaded();
         append(
             b,
             {thread0({store_tile(), ins(Ins::kBulkCommit), when(!fault, ins(Ins::kBulkWaitRead))}),
              sync(), decl(Ty::kF32, "v", lanes::f32(1)), put("v", at("t", tid() * 4))});
         return Kernel{b, 64, 1, 1, tiles(1, 1)};
       }},
      {"GlobalOutOfBounds", ErrorCode::kEmuBounds, "out of bounds in dimension 0",
       [](bool fault) {
         const Val index = tid() + 1000;
         return Kernel{{decl(Ty::kF32, "v", lanes::f32(1)),
                        store("v", index, index < (fault ? 1030 : 1024))}};
       }},
      {"GlobalMisaligned", ErrorCode::kEmuBounds, "misaligned",
       [](bool fault) {
         return Kernel{{decl_array(Ty::kF32, "v", 4), load("v", tid() * 4 + (fault ? 2 : 4), 4)}};
       }},
      {"SharedOutOfBounds", ErrorCode::kEmuBounds, "outside its allocation",
       [](bool fault) {
         return Kernel{
             {decl(Ty::kF32, "v", lanes::f32(1)), put("v", at("s", tid() * 4 + (fault ? 4 : 0)))},
             64,
             1,
             1,
             words(64)};
       }},
      {"TooManyBytes", ErrorCode::kEmuBarrier, "more bytes",
       [](bool fault) {
         return Kernel{{thread0({init(1), init_fence(), expect(fault ? 8176 : 8192), load_tile()}),
                        sync(), wait()},
                       64,
                       1,
                       1,
                       tiles(1, 1)};
       }},
      {"TooFewBytes", ErrorCode::kEmuDeadlock, "16 bytes missing",
       [](bool fault) {
         return Kernel{{thread0({init(1), init_fence(), expect(fault ? 8208 : 8192), load_tile()}),
                        sync(), wait()},
                       64,
                       1,
                       1,
                       tiles(1, 1)};
       }},
      {"NobodyArrives", ErrorCode::kEmuDeadlock, "1 of 65 arrivals missing",
       [](bool fault) {
         return Kernel{{thread0({init(fault ? 65 : 64)}), sync(),
                        ins(Ins::kBarArrive, {.args = {bar()}}), wait()},
                       64,
                       1,
                       1,
                       tiles(1, 1)};
       }},
      {"WrongParity", ErrorCode::kEmuDeadlock, "parity 1",
       [](bool fault) {
         return Kernel{{thread0({init(64)}), sync(), ins(Ins::kBarArrive, {.args = {bar()}}),
                        wait(), when(fault, wait(0, 1))},
                       64,
                       1,
                       1,
                       tiles(1, 1)};
       }},
      {"TooManyArrivals", ErrorCode::kEmuBarrier, "more arrivals",
       [](bool fault) {
         // The bytes never come, so the phase stays open.
         return Kernel{
             {thread0({init(1), init_fence(), expect(),
                       when(fault, ins(Ins::kBarArrive, {.args = {bar()}})), load_tile()}),
              sync(), wait()},
             64,
             1,
             1,
             tiles(1, 1)};
       }},
      {"InitialisedTwice", ErrorCode::kEmuBarrier, "initialised again",
       [](bool fault) {
         return Kernel{{thread0({init(64), when(fault, init(64))}), sync(),
                        ins(Ins::kBarArrive, {.args = {bar()}}), wait()},
                       64,
                       1,
                       1,
                       tiles(1, 1)};
       }},
      {"UsedBeforeInitialised", ErrorCode::kEmuBarrier, "initialis",
       [](bool fault) {
         return Kernel{{thread0({init(64)}), when(!fault, sync()),
                        ins(Ins::kBarArrive, {.args = {bar()}}), wait()},
                       64,
                       1,
                       1,
                       tiles(1, 1)};
       }},
      {"InitNotFenced", ErrorCode::kEmuBarrier, "may not see yet",
       [](bool fault) {
         return Kernel{{thread0({init(1), when(!fault, init_fence()), expect(), load_tile()}),
                        sync(), wait()},
                       64,
                       1,
                       1,
                       tiles(1, 1)};
       }},
      {"ProductWithoutFence", ErrorCode::kEmuProduct, "since the last wgmma.fence",
       [](bool fault) {
         Body b = tile_loaded();
         append(b,
                {decl_array(Ty::kF32, "acc", 32),
                 for_("i", 0, 32, 1, {assign("acc", i32("i"), lanes::f32(0))}, lanes::Unroll::kYes),
                 ins(Ins::kWgmmaFence), when(fault, assign("acc", 3, lanes::f32(1)))});
         append(b, product("acc", false, kKeep));
         b.push_back(ins(Ins::kWgmmaWait));
         return Kernel{b, 128, 1, 1, tiles(1, 1)};
       }},
      {"AccumulatorReadEarly", ErrorCode::kEmuProduct, "running product is read",
       [](bool fault) {
         Body b = tile_loaded();
         b.push_back(decl_array(Ty::kF32, "acc", 32));
         append(b, product("acc", true, kNew));
         append(b, {ins(Ins::kWgmmaWait, {.n = fault ? 1 : 0}),
                    decl(Ty::kF32, "v", lanes::elem(Ty::kF32, "acc", 5)), store("v", tid()),
                    ins(Ins::kWgmmaWait)});
         return Kernel{b, 128, 1, 1, tiles(1, 1)};
       }},
      {"AccumulatorKeptButEmpty", ErrorCode::kEmuUninit, "an accumulator that is kept",
       [](bool fault) {
         Body b = tile_loaded();
         b.push_back(decl_array(Ty::kF32, "acc", 32));
         append(b, product("acc", true, fault ? kKeep : kNew));
         b.push_back(ins(Ins::kWgmmaWait));
         return Kernel{b, 128, 1, 1, tiles(1, 1)};
       }},
      {"EndWithRunningProduct", ErrorCode::kEmuProduct, "ends while products are running",
       [](bool fault) {
         Body b = tile_loaded();
         b.push_back(decl_array(Ty::kF32, "acc", 32));
         append(b, product("acc", true, kNew));
         b.push_back(when(!fault, ins(Ins::kWgmmaWait)));
         return Kernel{b, 128, 1, 1, tiles(1, 1)};
       }},
      {"ThreeWarpsOfAProduct", ErrorCode::kEmuConvergence, "fewer than four warps",
       [](bool fault) {
         Body b = tile_loaded();
         b.push_back(decl_array(Ty::kF32, "acc", 32));
         append(b, product("acc", true, kNew));
         b.push_back(ins(Ins::kWgmmaWait));
         return Kernel{b, fault ? 96 : 128, 1, 1, tiles(1, 1)};
       }},
      {"ShuffleInABranch", ErrorCode::kEmuConvergence, "a part of a warp",
       [](bool fault) {
         Stmt shuffle =
             ins(Ins::kShflXor, {.args = {1}, .n = 32, .results = {{"v"}}, .regs = {{"v"}}});
         return Kernel{{decl(Ty::kF32, "v", lanes::f32(1)),
                        if_(lane() < (fault ? 16 : 32), {std::move(shuffle)}), store("v", tid())}};
       }},
      {"UniformThatIsNot", ErrorCode::kEmuConvergence, "stated to be uniform",
       [](bool fault) {
         return Kernel{{decl(Ty::kF32, "v", lanes::f32(1)),
                        if_((fault ? lane() : warp()) < 1, {store("v", tid())}, {}, true)}};
       }},
      {"NamedBarrierOfTwoSizes", ErrorCode::kEmuBarrier, "disagree",
       [](bool fault) {
         return Kernel{{if_(equal(warp(), 0), {ins(Ins::kNamedSync, {.args = {3}, .n = 64})},
                            {ins(Ins::kNamedSync, {.args = {3}, .n = fault ? 32 : 64})}, true),
                        if_(equal(warp(), 0), {ins(Ins::kNamedArrive, {.args = {3}, .n = 64})},
                            {ins(Ins::kNamedSync, {.args = {3}, .n = 64})}, true)}};
       }},
      {"TooManyRegisters", ErrorCode::kEmuDeadlock, "setmaxnreg",
       [](bool fault) {
         return Kernel{{if_(warp() < 4, {ins(Ins::kRegsDec, {.n = 40})},
                            {ins(Ins::kRegsInc, {.n = fault ? 248 : 232})}, true)},
                       384};
       }},
      {"TwoCtasWriteOneElement", ErrorCode::kEmuRace, "two threads write",
       [](bool fault) {
         const Val index = fault ? tid() : special(lanes::Special::kCtaX) * 64 + tid();
         return Kernel{{decl(Ty::kF32, "v", lanes::f32(1)), store("v", index)}, 64, 1, 3};
       }},
      {"StoreBeforeTheKernelBefore", ErrorCode::kEmuRace, "an earlier kernel may still run",
       [](bool fault) {
         // One thread waits for all, which the others know of past the barrier.
         return Kernel{{decl(Ty::kF32, "v", lanes::f32(1)), thread0({ins(Ins::kGridWait)}),
                        when(!fault, sync()), store("v", tid())},
                       64,
                       1,
                       1,
                       {},
                       true};
       }},
      {"EndBeforeAPeersArrival", ErrorCode::kEmuExit, "",
       [](bool fault) {
         return Kernel{
             {thread0({init(1), init_fence()}), ins(Ins::kClusterArrive), ins(Ins::kClusterWait),
              thread0({ins(Ins::kBarArriveRemote,
                           {.args = {bar(), Val(1) - special(lanes::Special::kClusterRank)}})}),
              when(!fault, wait())},
             64,
             2,
             4,
             tiles(1, 1)};
       }},
      {"RemoteBarrierNotYetThere", ErrorCode::kEmuBarrier, "initialis",
       [](bool fault) {
         return Kernel{
             {thread0({init(1), init_fence()}), when(!fault, ins(Ins::kClusterArrive)),
              when(!fault, ins(Ins::kClusterWait)),
              thread0({ins(Ins::kBarArriveRemote,
                           {.args = {bar(), Val(1) - special(lanes::Special::kClusterRank)}})}),
              when(fault, sync()), wait()},
             64,
             2,
             2,
             tiles(1, 1)};
       }},
      {"MulticastBeyondTheCluster", ErrorCode::kEmuBounds, "multicast mask",
       [](bool fault) {
         return Kernel{
             {thread0({init(1), init_fence()}), ins(Ins::kClusterArrive), ins(Ins::kClusterWait),
              thread0({expect(2 * 8192),
                       ins(Ins::kTmaLoadMulticast,
                           {.args = {at("t", cast(Ty::kI32, special(lanes::Special::kClusterRank)) *
                                                 8192),
                                     bar(), lanes::int_val(Ty::kU32, fault ? 5 : 3), 0, 0},
                            .bytes = 8192,
                            .map = "map_m"})}),
              wait()},
             64,
             2,
             2,
             tiles(2, 1)};
       }},
  };
}

class EmulateFault : public ::testing::TestWithParam<Case> {};

TEST_P(EmulateFault, IsReportedAndNothingElseIs) {
  const Case& c = GetParam();
  const Result<Program> right = placed(c.make(false)), wrong = placed(c.make(true));
  ASSERT_TRUE(right.ok()) << right.diag().str();
  ASSERT_TRUE(wrong.ok()) << wrong.diag().str();
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Status good = launched(*right, seed);
    EXPECT_TRUE(good.ok()) << "seed " << seed << "\n" << good.str();
    const Status bad = launched(*wrong, seed);
    ASSERT_FALSE(bad.ok()) << "seed " << seed;
    EXPECT_EQ(bad.diag().code, c.code) << "seed " << seed << "\n" << bad.str();
    EXPECT_THAT(bad.str(), HasSubstr(c.says)) << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, EmulateFault, ::testing::ValuesIn(cases()),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(EmulateReport, NamesWhatIsNeededToFindTheFault) {
  const Val index = i32("i") * 64 + tid();
  const Result<Program> program =
      placed({{decl(Ty::kF32, "v", lanes::f32(1)), for_("i", 0, 17, 1, {store("v", index)})}});
  ASSERT_TRUE(program.ok()) << program.diag().str();
  const Status status = launched(*program, 3);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.str(), HasSubstr("access of `y` out of bounds in dimension 0"));
  EXPECT_THAT(status.str(), HasSubstr("y[10"));
  EXPECT_THAT(status.str(), HasSubstr("index < 1024"));
  EXPECT_THAT(status.str(), HasSubstr("i = 16"));
  EXPECT_THAT(status.str(), HasSubstr("st.global y[i * 64 + tid"));
  EXPECT_THAT(status.str(), HasSubstr("seed 3"));
}

}  // namespace
}  // namespace rooftile::emulate
