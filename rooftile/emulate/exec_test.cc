// SPDX-License-Identifier: Apache-2.0
// What instructions compute: small kernels against plain C++.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "rooftile/base/float_convert.h"
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
using lanes::select;
using lanes::while_;

// y[i32] from x[i32], both of 1024 elements; also h: bf16[64, 96] read by copies.
class EmulateExec : public ::testing::Test {
 protected:
  EmulateExec() : x(1024), y(1024, -1), h(64 * 96) {
    std::iota(x.begin(), x.end(), 0);
    for (size_t i = 0; i < h.size(); ++i) h[i] = f32_to_bf16(static_cast<float>(i % 251));
  }

  void run_body(Body body, int threads = 32, std::vector<lanes::SharedAlloc> shared = {},
                int ctas = 1, int cluster = 1) {
    Program p;
    p.name = "small";
    p.tensors = {
        {.name = "x", .dtype = DType::kI32, .shape = {1024}, .read = true, .align_bytes = 16},
        {.name = "y",
         .dtype = DType::kI32,
         .shape = {1024},
         .written = true,
         .read = true,
         .align_bytes = 16},
        {.name = "h", .dtype = DType::kBf16, .shape = {64, 96}, .read = true, .align_bytes = 16}};
    p.maps = {{.name = "map_h", .tensor = "h", .box = {64, 16}, .swizzle = lanes::Swizzle::k128},
              {.name = "plain_h", .tensor = "h", .box = {16, 8}, .swizzle = lanes::Swizzle::kNone}};
    p.shared = std::move(shared);
    p.threads = threads;
    p.cluster = cluster;
    p.grid_x = ctas;
    p.body = std::move(body);
    ASSERT_TRUE(lanes::plan_shared(p).ok());
    for (uint64_t seed = 0; seed < 6; ++seed) {
      std::fill(y.begin(), y.end(), -1);
      Launch launch;
      launch.tensors["x"] = {x.data(), DType::kI32, {1024}, {}};
      launch.tensors["y"] = {y.data(), DType::kI32, {1024}, {}};
      launch.tensors["h"] = {h.data(), DType::kBf16, {64, 96}, {}};
      launch.seed = seed;
      const Status status = run(p, launch);
      ASSERT_TRUE(status.ok()) << "seed " << seed << "\n" << status.str();
    }
  }

  static Stmt load(const std::string& reg, Val index, int width = 1, Val guard = {}) {
    return ins(Ins::kLdGlobal, {.results = {width == 1 ? RegRef{reg} : RegRef{reg, 0, width}},
                                .global = {"x", {std::move(index)}, width},
                                .dtype = DType::kI32,
                                .guard = std::move(guard)});
  }
  static Stmt store(const std::string& reg, Val index, int width = 1) {
    return ins(Ins::kStGlobal, {.regs = {width == 1 ? RegRef{reg} : RegRef{reg, 0, width}},
                                .global = {"y", {std::move(index)}, width},
                                .dtype = DType::kI32});
  }
  static Stmt store_value(const Val& value) {
    return if_(lanes::pred(true), {decl(Ty::kI32, "out", value), store("out", tid())});
  }

  std::vector<int32_t> x, y;
  std::vector<uint16_t> h;
};

TEST_F(EmulateExec, VectorsGuardsAndLoops) {
  // Each thread moves four neighbours, the last block by a guard; then a divergent while counts.
  run_body({decl_array(Ty::kI32, "v", 4), load("v", tid() * 4, 4), store("v", tid() * 4, 4),
            decl(Ty::kI32, "n", 0), while_(i32("n") < lane(), {assign("n", i32("n") + 1)}),
            decl(Ty::kI32, "far", i32("n") + 500), store("n", i32("far"))});
  for (int i = 0; i < 128; ++i) EXPECT_EQ(y[static_cast<size_t>(i)], i);
  for (int i = 0; i < 32; ++i) EXPECT_EQ(y[static_cast<size_t>(500 + i)], i);
}

TEST_F(EmulateExec, ValuesOfUntakenLanesMayHoldNothing) {
  run_body({decl(Ty::kI32, "v"), load("v", tid(), 1, lane() < 7),
            store_value(select(lane() < 7, i32("v") + 100, -5))});
  for (int i = 0; i < 32; ++i) EXPECT_EQ(y[static_cast<size_t>(i)], i < 7 ? i + 100 : -5);
}

TEST_F(EmulateExec, BothSidesOfABranchGoOn) {
  // The lower lanes wait for what the upper lanes of the same warp do.
  const std::vector<lanes::SharedAlloc> bars = {
      {.name = "bar", .bytes = 8, .align = 8, .barriers = true}};
  run_body({if_(equal(tid(), 0), {ins(Ins::kBarInit, {.args = {lanes::shared("bar"), 16}})}),
            ins(Ins::kSyncWarp),
            if_(lane() < 16, {ins(Ins::kBarWait, {.args = {lanes::shared("bar"), 0}})},
                {ins(Ins::kBarArrive, {.args = {lanes::shared("bar")}})}),
            store_value(tid())},
           32, bars);
  EXPECT_EQ(y[31], 31);
}

TEST_F(EmulateExec, ShufflesVotesAndReductions) {
  const auto shuffle = [](Ins kind, Val by) {
    return ins(kind, {.args = {std::move(by)}, .n = 32, .results = {{"s"}}, .regs = {{"v"}}});
  };
  run_body(
      {decl(Ty::kI32, "v", lane() * 3), decl(Ty::kI32, "s"), decl(Ty::kI32, "sum", 0),
       shuffle(Ins::kShflXor, 5), assign("sum", i32("s")), shuffle(Ins::kShflIdx, 9),
       assign("sum", i32("sum") + i32("s") * 100), shuffle(Ins::kShflUp, 2),
       assign("sum", i32("sum") + i32("s") * 10000), decl(Ty::kPred, "any"),
       ins(Ins::kVoteAny, {.args = {equal(lane(), 30)}, .results = {{"any"}}}),
       decl(Ty::kI32, "most"),
       ins(Ins::kRedux, {.results = {{"most"}}, .regs = {{"v"}}, .op = Fn::kMax}),
       store_value(i32("sum") + select(flag("any"), 1, 0) * 10000000 + i32("most") * 100000000)});
  for (int i = 0; i < 32; ++i) {
    const int up = i < 2 ? i : i - 2;
    EXPECT_EQ(static_cast<uint32_t>(y[static_cast<size_t>(i)]),
              static_cast<uint32_t>((i ^ 5) * 3 + 2700 + up * 30000 + 10000000) + 93u * 100000000u);
  }
}

TEST_F(EmulateExec, MatrixLoadsUndoMatrixStores) {
  // Four 8x8 matrices of 16-bit elements; stored as they are, loaded transposed.
  const std::vector<lanes::SharedAlloc> tile = {{.name = "t", .bytes = 512, .align = 128}};
  const Val row = at("t", lane() * 16);
  Body body = {decl_array(Ty::kU32, "v", 4), decl_array(Ty::kU32, "w", 4)};
  for (int i = 0; i < 4; ++i)
    body.push_back(
        assign("v", i,
               unsigned_of(lane() * 2 + i * 64) +
                   lanes::fn(Fn::kShl, {unsigned_of(lane() * 2 + i * 64 + 1), Val(16)})));
  append(body,
         {ins(Ins::kStMatrix, {.args = {row}, .n = 4, .regs = {{"v", 0, 4}}}), ins(Ins::kSyncWarp),
          ins(Ins::kLdMatrix, {.args = {row}, .n = 4, .results = {{"w", 0, 4}}, .trans = true})});
  for (int i = 0; i < 4; ++i)
    append(body, {if_(lanes::pred(true),
                      {decl(Ty::kI32, "out", lanes::cast(Ty::kI32, lanes::elem(Ty::kU32, "w", i))),
                       store("out", tid() + i * 32)})});
  run_body(body, 32, tile);
  // Element (r, c) of matrix m is 64 m + 8 r + c; transposed, lane l holds (2(l%4), l/4),
  // (2(l%4)+1, l/4).
  for (int m = 0; m < 4; ++m)
    for (int l = 0; l < 32; ++l) {
      const int low = 64 * m + 8 * (2 * (l % 4)) + l / 4;
      EXPECT_EQ(y[static_cast<size_t>(32 * m + l)], low | ((low + 8) << 16));
    }
}

TEST_F(EmulateExec, ThreadCopiesByGroupsAndByBarrier) {
  const std::vector<lanes::SharedAlloc> shared = {
      {.name = "s", .bytes = 1024, .align = 16},
      {.name = "bar", .bytes = 8, .align = 8, .barriers = true}};
  const auto copy = [](const Val& byte, const Val& element, Val source) {
    return ins(Ins::kCpAsync, {.args = {at("s", byte), std::move(source)},
                               .global = {"x", {element}, 4},
                               .dtype = DType::kI32});
  };
  run_body(
      {if_(equal(tid(), 0), {ins(Ins::kBarInit, {.args = {lanes::shared("bar"), 32}})}),
       ins(Ins::kSyncWarp), copy(tid() * 16, tid() * 4, 16), ins(Ins::kCpCommit),
       copy(tid() * 16 + 512, tid() * 4 + 128, select(lane() < 20, 16, 4)), ins(Ins::kCpCommit),
       ins(Ins::kCpWait, {.n = 1}), decl(Ty::kI32, "v"),
       ins(Ins::kLdShared, {.args = {at("s", tid() * 16 + 4)}, .bytes = 4, .results = {{"v"}}}),
       store("v", tid()), ins(Ins::kCpArrive, {.args = {lanes::shared("bar")}}),
       ins(Ins::kBarWait, {.args = {lanes::shared("bar"), 0}}),
       ins(Ins::kLdShared,
           {.args = {at("s", (Val(31) - tid()) * 16 + 512 + 8)}, .bytes = 4, .results = {{"v"}}}),
       store("v", tid() + 32)},
      32, shared);
  for (int i = 0; i < 32; ++i) {
    EXPECT_EQ(y[static_cast<size_t>(i)], 4 * i + 1);
    EXPECT_EQ(y[static_cast<size_t>(32 + i)], 31 - i < 20 ? 4 * (31 - i) + 130 : 0);
  }
}

TEST_F(EmulateExec, BoxesAreSwizzledAndClipped) {
  // Rows 56.. of columns 64..: half of the box is outside on both sides and reads as zero.
  const std::vector<lanes::SharedAlloc> shared = {
      {.name = "t", .bytes = 2048, .align = 1024},
      {.name = "bar", .bytes = 8, .align = 8, .barriers = true}};
  const Val word = at("t", tid() * 4 + i32("r") * 128);
  run_body({if_(equal(tid(), 0),
                {ins(Ins::kBarInit, {.args = {lanes::shared("bar"), 1}}), ins(Ins::kBarInitFence),
                 ins(Ins::kBarExpect, {.args = {lanes::shared("bar")}, .bytes = 2048}),
                 ins(Ins::kTmaLoad, {.args = {lanes::shared("t"), lanes::shared("bar"), 64, 56},
                                     .bytes = 2048,
                                     .map = "map_h"})}),
            ins(Ins::kSyncWarp), ins(Ins::kBarWait, {.args = {lanes::shared("bar"), 0}}),
            decl(Ty::kU32, "v"),
            for_("r", 0, 16, 1,
                 {ins(Ins::kLdShared, {.args = {word}, .bytes = 4, .results = {{"v"}}}),
                  decl(Ty::kI32, "out", lanes::cast(Ty::kI32, u32("v"))),
                  store("out", tid() + i32("r") * 32)})},
           32, shared);
  for (int r = 0; r < 16; ++r)
    for (int c = 0; c < 64; ++c) {
      const int chunk = (c / 8) ^ (r % 8);  // the 128B swizzle
      const int word_at = r * 32 + chunk * 4 + c % 8 / 2;
      const uint32_t got =
          static_cast<uint32_t>(y[static_cast<size_t>(word_at)]) >> (16 * (c % 2)) & 0xffff;
      const bool inside = 56 + r < 64 && 64 + c < 96;
      EXPECT_EQ(got, inside ? h[static_cast<size_t>((56 + r) * 96 + 64 + c)] : 0) << r << ", " << c;
    }
}

TEST_F(EmulateExec, MessagesToAPeer) {
  // Every thread sends four words to the other CTA, which waits for all of them.
  const std::vector<lanes::SharedAlloc> shared = {
      {.name = "s", .bytes = 512, .align = 16},
      {.name = "bar", .bytes = 8, .align = 8, .barriers = true}};
  const Val rank = lanes::cast(Ty::kI32, special(lanes::Special::kClusterRank));
  Body body = {
      if_(equal(tid(), 0),
          {ins(Ins::kBarInit, {.args = {lanes::shared("bar"), 1}}), ins(Ins::kBarInitFence),
           ins(Ins::kBarExpect, {.args = {lanes::shared("bar")}, .bytes = 512})}),
      ins(Ins::kClusterArriveRelease), ins(Ins::kClusterWait), decl_array(Ty::kI32, "v", 4)};
  for (int i = 0; i < 4; ++i) body.push_back(assign("v", i, tid() * 4 + i + rank * 1000));
  append(
      body,
      {decl(Ty::kU32, "there"), decl(Ty::kU32, "bar_there"),
       ins(Ins::kMapa, {.args = {at("s", tid() * 16), Val(1) - rank}, .results = {{"there"}}}),
       ins(Ins::kMapa, {.args = {lanes::shared("bar"), Val(1) - rank}, .results = {{"bar_there"}}}),
       ins(Ins::kStAsync, {.args = {u32("there"), u32("bar_there")}, .regs = {{"v", 0, 4}}}),
       ins(Ins::kBarWaitCluster, {.args = {lanes::shared("bar"), 0}}), decl(Ty::kI32, "got"),
       ins(Ins::kLdShared,
           {.args = {at("s", (Val(31) - tid()) * 16 + 12)}, .bytes = 4, .results = {{"got"}}}),
       store("got", tid() + rank * 32)});
  run_body(body, 32, shared, 2, 2);
  for (int i = 0; i < 64; ++i)
    EXPECT_EQ(y[static_cast<size_t>(i)], (31 - i % 32) * 4 + 3 + (i < 32 ? 1000 : 0));
}

TEST_F(EmulateExec, AtomicsAndBulkLoads) {
  const std::vector<lanes::SharedAlloc> shared = {
      {.name = "s", .bytes = 256, .align = 16},
      {.name = "count", .bytes = 4, .align = 4},
      {.name = "bar", .bytes = 8, .align = 8, .barriers = true}};
  run_body(
      {decl(Ty::kI32, "zero", 0), decl(Ty::kI32, "old"), decl(Ty::kI32, "v"),
       if_(equal(tid(), 0),
           {ins(Ins::kStShared, {.args = {lanes::shared("count")}, .bytes = 4, .regs = {{"zero"}}}),
            ins(Ins::kBarInit, {.args = {lanes::shared("bar"), 1}}), ins(Ins::kBarInitFence),
            ins(Ins::kBarExpect, {.args = {lanes::shared("bar")}, .bytes = 256}),
            ins(Ins::kBulkLoad, {.args = {lanes::shared("s"), lanes::shared("bar")},
                                 .bytes = 256,
                                 .global = {"x", {Val(512)}, 1},
                                 .dtype = DType::kI32})}),
       ins(Ins::kSyncThreads), ins(Ins::kBarWait, {.args = {lanes::shared("bar"), 0}}),
       ins(Ins::kLdShared, {.args = {at("s", tid() * 4)}, .bytes = 4, .results = {{"v"}}}),
       ins(Ins::kAtomShared, {.args = {lanes::shared("count")},
                              .results = {{"old"}},
                              .regs = {{"v"}},
                              .dtype = DType::kI32,
                              .op = Fn::kAdd}),
       ins(Ins::kSyncThreads),
       ins(Ins::kLdShared, {.args = {lanes::shared("count")}, .bytes = 4, .results = {{"v"}}}),
       store("v", tid())},
      64, shared);
  EXPECT_EQ(y[5], 64 * 512 + 63 * 32);
}

TEST_F(EmulateExec, MmaOfFragments) {
  // a[m][k] = m + k, b[k][n] = k == n ? 1 : 0 (for the first 8 k), c = 0: d[m][n] = m + n.
  const auto pair = [](const Val& a, const Val& b) {
    return lanes::fn(Fn::kPackBf16, {lanes::cast(Ty::kF32, a), lanes::cast(Ty::kF32, b)});
  };
  const Val group = floor_div(lane(), 4), quad = floor_mod(lane(), 4) * 2;
  Body body = {decl_array(Ty::kU32, "a", 4), decl_array(Ty::kU32, "b", 2),
               decl_array(Ty::kF32, "c", 4)};
  for (int i = 0; i < 4; ++i) {
    const Val m = group + 8 * (i % 2), k = quad + 8 * (i / 2);
    body.push_back(assign("a", i, pair(m + k, m + k + 1)));
    body.push_back(assign("c", i, lanes::f32(0)));
  }
  for (int i = 0; i < 2; ++i) {
    const Val k = quad + 8 * i;
    body.push_back(
        assign("b", i, pair(select(equal(k, group), 1, 0), select(equal(k + 1, group), 1, 0))));
  }
  body.push_back(ins(Ins::kMmaSync, {.results = {{"c", 0, 4}},
                                     .regs = {{"a", 0, 4}, {"b", 0, 2}, {"c", 0, 4}},
                                     .dtype = DType::kBf16}));
  for (int i = 0; i < 4; ++i)
    append(body, {if_(lanes::pred(true),
                      {decl(Ty::kI32, "out", lanes::cast(Ty::kI32, lanes::elem(Ty::kF32, "c", i))),
                       store("out", (group + 8 * (i / 2)) * 8 + quad + i % 2)})});
  run_body(body);
  for (int m = 0; m < 16; ++m)
    for (int n = 0; n < 8; ++n) EXPECT_EQ(y[static_cast<size_t>(8 * m + n)], m + n);
}

}  // namespace
}  // namespace rooftile::emulate
