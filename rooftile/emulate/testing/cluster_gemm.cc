// SPDX-License-Identifier: Apache-2.0
#include "rooftile/emulate/testing/cluster_gemm.h"

#include "rooftile/emulate/testing/build.h"

namespace rooftile::emulate::testing {
namespace {

using lanes::assign;
using lanes::decl;
using lanes::equal;
using lanes::for_;
using lanes::if_;
using lanes::select;
using lanes::Unroll;

constexpr int kBn = 64, kBk = 64, kRowBytes = 128;
constexpr int kGroups = 2, kRows = 64 * kGroups;  // of a CTA
constexpr int kCtas = 2;
constexpr int kABytes = kRows * kRowBytes, kBBytes = kBn * kRowBytes;
constexpr int kStagingBytes = 64 * kRowBytes;
constexpr int kSwizzle128 = static_cast<int>(lanes::Swizzle::k128);
constexpr int kProducerWarp = 4 * kGroups;

class Kernel {
 public:
  explicit Kernel(int stages) : stages_(stages) {}

  Program build() const {
    Program p;
    p.name = "cluster_gemm";
    const Expr m = Expr::sym("M"), n = Expr::sym("N"), k = Expr::sym("K");
    p.tensors = {
        {.name = "a", .dtype = DType::kBf16, .shape = {m, k}, .read = true, .align_bytes = 16},
        {.name = "b", .dtype = DType::kBf16, .shape = {n, k}, .read = true, .align_bytes = 16},
        {.name = "d", .dtype = DType::kBf16, .shape = {m, n}, .written = true, .align_bytes = 16}};
    const auto swizzle = lanes::Swizzle::k128;
    p.maps = {{.name = "map_a", .tensor = "a", .box = {kBk, kRows}, .swizzle = swizzle},
              {.name = "map_b", .tensor = "b", .box = {kBk, kBn / kCtas}, .swizzle = swizzle},
              {.name = "map_d", .tensor = "d", .box = {kBn, 64}, .swizzle = swizzle}};
    p.scalars = {{"M", Ty::kI32}, {"N", Ty::kI32}, {"K", Ty::kI32}};
    p.shared = {{.name = "ring_a", .bytes = int64_t{stages_} * kABytes, .align = 1024},
                {.name = "ring_b", .bytes = int64_t{stages_} * kBBytes, .align = 1024},
                {.name = "staging", .bytes = int64_t{kGroups} * kStagingBytes, .align = 1024},
                {.name = "full", .bytes = int64_t{8} * stages_, .align = 8, .barriers = true},
                {.name = "empty", .bytes = int64_t{8} * stages_, .align = 8, .barriers = true}};
    p.threads = 128 * (kGroups + 1);
    p.cluster = kCtas;
    const Expr tiles = ceil_div(m, kRows * kCtas) * ceil_div(n, kBn);
    p.grid_x = min(Expr::sym("SMS"), tiles) * kCtas;
    p.body = {decl(Ty::kI32, "warp", warp()),
              decl(Ty::kI32, "lane", lane()),
              decl(Ty::kI32, "rank", special(lanes::Special::kClusterRank)),
              decl(Ty::kI32, "kblocks", floor_div(dim("K") + (kBk - 1), kBk)),
              decl(Ty::kI32, "cols", floor_div(dim("N") + (kBn - 1), kBn)),
              decl(Ty::kI32, "tiles",
                   floor_div(dim("M") + (kRows * kCtas - 1), kRows * kCtas) * i32("cols")),
              decl(Ty::kI32, "first", floor_div(special(lanes::Special::kCtaX), kCtas)),
              decl(Ty::kI32, "step", floor_div(special(lanes::Special::kGridX), kCtas)),
              if_(equal(i32("warp"), kProducerWarp), set_up(), {}, true),
              ins(Ins::kClusterArrive),
              ins(Ins::kClusterWait),
              if_(kProducerWarp - 1 < i32("warp"), producer_group(), consumer(), true)};
    return p;
  }

 private:
  static Val barrier(const char* ring, const Val& stage) { return at(ring, stage * 8); }

  Body advance() const {
    const Val last = equal(i32("stage"), stages_ - 1);
    return {assign("phase", lanes::fn(Fn::kXor, {i32("phase"), select(last, 1, 0)})),
            assign("stage", select(last, 0, i32("stage") + 1))};
  }

  Body set_up() const {
    const Val s = i32("s");
    Body out = elected("first_lane",
                       {for_("s", 0, stages_, 1,
                             {ins(Ins::kBarInit, {.args = {barrier("full", s), 1}}),
                              ins(Ins::kBarInit, {.args = {barrier("empty", s), kGroups * kCtas}})},
                             Unroll::kYes),
                        ins(Ins::kBarInitFence)});
    out.push_back(ins(Ins::kSyncWarp));
    return out;
  }

  Body tile() const {
    return {decl(Ty::kI32, "row", floor_div(i32("t"), i32("cols"))),
            decl(Ty::kI32, "m0", (i32("row") * kCtas + i32("rank")) * kRows),
            decl(Ty::kI32, "n0", floor_mod(i32("t"), i32("cols")) * kBn)};
  }

  Body producer_group() const {
    Body out = {ins(Ins::kRegsDec, {.n = 40})};
    out.push_back(
        if_(equal(i32("warp"), kProducerWarp), elected("producer", producer()), {}, true));
    return out;
  }

  Body producer() const {
    const Val stage = i32("stage"), k0 = i32("kb") * kBk;
    const Val half = i32("rank") * (kBBytes / kCtas);
    Body step = {
        ins(Ins::kBarWait,
            {.args = {barrier("empty", stage), lanes::fn(Fn::kXor, {i32("phase"), 1})}}),
        ins(Ins::kBarExpect, {.args = {barrier("full", stage)}, .bytes = kABytes + kBBytes}),
        ins(Ins::kTmaLoad,
            {.args = {at("ring_a", stage * kABytes), barrier("full", stage), k0, i32("m0")},
             .bytes = kABytes,
             .map = "map_a"}),
        ins(Ins::kTmaLoadMulticast,
            {.args = {at("ring_b", stage * kBBytes + half), barrier("full", stage),
                      lanes::int_val(Ty::kU32, 3), k0, i32("n0") + i32("rank") * (kBn / kCtas)},
             .bytes = kBBytes / kCtas,
             .map = "map_b"})};
    append(step, advance());
    Body each = tile();
    each.push_back(for_("kb", 0, i32("kblocks"), 1, std::move(step)));
    // Every arrival that a peer owes lands before this CTA's shared memory goes away.
    Body drain = {ins(Ins::kBarWait,
                      {.args = {barrier("empty", stage), lanes::fn(Fn::kXor, {i32("phase"), 1})}})};
    append(drain, advance());
    return {decl(Ty::kI32, "stage", 0), decl(Ty::kI32, "phase", 0),
            for_("t", i32("first"), i32("tiles"), i32("step"), std::move(each)),
            for_("s", 0, stages_, 1, std::move(drain))};
  }

  Stmt product() const {
    const auto descriptor = [&](const char* ring, const Val& byte) {
      return lanes::fn(Fn::kMatrixDesc, {at(ring, byte), 16, 8 * kRowBytes, kSwizzle128});
    };
    const Val step = i32("kk") * 32;
    return for_("kk", 0, kBk / 16, 1,
                {ins(Ins::kWgmma,
                     {.args = {select(0 < i32("kb") + i32("kk"), lanes::int_val(Ty::kU32, 1),
                                      lanes::int_val(Ty::kU32, 0)),
                               descriptor("ring_a", i32("stage") * kABytes +
                                                        i32("group") * (64 * kRowBytes) + step),
                               descriptor("ring_b", i32("stage") * kBBytes + step)},
                      .n = kBn,
                      .regs = {{"acc", 0, kBn / 2}},
                      .dtype = DType::kBf16})},
                Unroll::kYes);
  }

  // The slot goes back to both CTAs of the cluster.
  static Stmt release(const Val& stage) {
    return if_(equal(i32("warp_in"), 0) && i32("lane") < kCtas,
               {ins(Ins::kBarArriveRemote, {.args = {barrier("empty", stage), i32("lane")}})});
  }

  Body consumer() const {
    Body step = {ins(Ins::kBarWait, {.args = {barrier("full", i32("stage")), i32("phase")}}),
                 ins(Ins::kWgmmaFence),
                 product(),
                 ins(Ins::kWgmmaCommit),
                 ins(Ins::kWgmmaWait, {.n = 1}),
                 if_(0 < i32("kb"), {release(i32("previous"))}, {}, true),
                 assign("previous", i32("stage"))};
    append(step, advance());
    Body each = tile();
    each.push_back(for_("kb", 0, i32("kblocks"), 1, std::move(step)));
    append(each, {ins(Ins::kWgmmaWait, {.n = 0}), release(i32("previous"))});
    append(each, epilogue());
    return {ins(Ins::kRegsInc, {.n = 232}),
            decl(Ty::kI32, "group", floor_div(i32("warp"), 4)),
            decl(Ty::kI32, "warp_in", floor_mod(i32("warp"), 4)),
            decl(Ty::kPred, "storer", equal(i32("warp_in"), 0) && equal(i32("lane"), 0)),
            lanes::decl_array(Ty::kF32, "acc", kBn / 2),
            decl(Ty::kI32, "stage", 0),
            decl(Ty::kI32, "phase", 0),
            decl(Ty::kI32, "previous", 0),
            for_("t", i32("first"), i32("tiles"), i32("step"), std::move(each)),
            if_(flag("storer"), {ins(Ins::kBulkWaitRead)})};
  }

  // Registers, swizzled staging, one TMA store for each warpgroup.
  Body epilogue() const {
    const Val j = i32("j");
    const Val meeting = i32("group") + 1;
    const auto acc = [&](int i) { return lanes::elem(Ty::kF32, "acc", j * 8 + i); };
    Body pack = {lanes::decl_array(Ty::kU32, "pack", 4)};
    for (int i = 0; i < 4; ++i)
      pack.push_back(assign("pack", i, lanes::fn(Fn::kPackBf16, {acc(2 * i), acc(2 * i + 1)})));
    const Val column =
        lanes::fn(Fn::kXor, {floor_div(i32("lane"), 16) + j * 2, floor_mod(i32("lane"), 8)});
    pack.push_back(
        ins(Ins::kStMatrix, {.args = {at("staging", i32("buffer") + i32("place") + column * 16)},
                             .n = 4,
                             .regs = {{"pack", 0, 4}}}));
    return {
        decl(Ty::kI32, "buffer", i32("group") * kStagingBytes),
        decl(Ty::kI32, "place", (i32("warp_in") * 16 + floor_mod(i32("lane"), 16)) * kRowBytes),
        if_(flag("storer"), {ins(Ins::kBulkWaitRead)}),
        ins(Ins::kNamedSync, {.args = {meeting}, .n = 128}),
        for_("j", 0, kBn / 16, 1, std::move(pack), Unroll::kYes),
        ins(Ins::kProxyFence),
        ins(Ins::kNamedSync, {.args = {meeting}, .n = 128}),
        if_(flag("storer"), {ins(Ins::kTmaStore, {.args = {at("staging", i32("buffer")), i32("n0"),
                                                           i32("m0") + i32("group") * 64},
                                                  .map = "map_d"}),
                             ins(Ins::kBulkCommit)})};
  }

  const int stages_;
};

}  // namespace

Result<Program> cluster_gemm(int stages) {
  Program program = Kernel(stages).build();
  RT_RETURN_IF_ERROR(lanes::plan_shared(program));
  RT_RETURN_IF_ERROR(lanes::verify(program));
  return program;
}

}  // namespace rooftile::emulate::testing
