// SPDX-License-Identifier: Apache-2.0
#include "rooftile/lanes/testing/wgmma_gemm.h"

namespace rooftile::lanes::testing {
namespace {

constexpr int kBm = 64;
constexpr int kBk = 64;  // one row of 128 bytes: the span of the 128B swizzle
constexpr int kRowBytes = 128;
constexpr int kConsumerWarps = 4;
constexpr int kSwizzle128 = static_cast<int>(Swizzle::k128);

Val i32(const char* name) { return var(Ty::kI32, name); }
Val u32(const Val& v) { return cast(Ty::kU32, v); }
Val dim(const char* name) { return param(Ty::kI32, name); }

Stmt op(Ins ins, std::vector<Val> args = {}, int n = 0, int bytes = 0) {
  Instr i;
  i.ins = ins;
  i.args = std::move(args);
  i.n = n;
  i.bytes = bytes;
  return instr(std::move(i));
}

Stmt on_map(Ins ins, const char* map, std::vector<Val> args = {}, int bytes = 0) {
  Instr i;
  i.ins = ins;
  i.map = map;
  i.args = std::move(args);
  i.bytes = bytes;
  return instr(std::move(i));
}

Stmt elect(const char* name) {
  Instr i;
  i.ins = Ins::kElect;
  i.results = {{name, {}, 1}};
  return instr(std::move(i));
}

class Kernel {
 public:
  explicit Kernel(const WgmmaGemm& shape) : bn_(shape.bn), stages_(shape.stages) {}

  Program build() const {
    Program p;
    p.name = "wgmma_gemm";
    const Expr m = Expr::sym("M"), n = Expr::sym("N"), k = Expr::sym("K");
    p.tensors = {
        {.name = "a",
         .dtype = DType::kBf16,
         .shape = {m, k},
         .read = true,
         .unaliased = true,
         .align_bytes = 16},
        {.name = "b",
         .dtype = DType::kBf16,
         .shape = {n, k},
         .read = true,
         .unaliased = true,
         .align_bytes = 16},
        {.name = "d", .dtype = DType::kBf16, .shape = {m, n}, .written = true, .align_bytes = 4}};
    p.maps = {{.name = "map_a",
               .tensor = "a",
               .box = {kBk, kBm},
               .swizzle = Swizzle::k128,
               .l2_promotion = 256},
              {.name = "map_b",
               .tensor = "b",
               .box = {kBk, bn_},
               .swizzle = Swizzle::k128,
               .l2_promotion = 256}};
    p.scalars = {{"M", Ty::kI32}, {"N", Ty::kI32}, {"K", Ty::kI32}, {"d.s0", Ty::kI64}};
    p.shared = {{.name = "ring_a", .bytes = int64_t{stages_} * a_bytes(), .align = 1024},
                {.name = "ring_b", .bytes = int64_t{stages_} * b_bytes(), .align = 1024},
                {.name = "full", .bytes = int64_t{8} * stages_, .align = 8, .barriers = true},
                {.name = "empty", .bytes = int64_t{8} * stages_, .align = 8, .barriers = true}};
    p.threads = 32 * (kConsumerWarps + 1);
    p.grid_x = ceil_div(n, bn_);
    p.grid_y = ceil_div(m, kBm);
    p.body = {decl(Ty::kI32, "warp", special(Special::kWarp)),
              decl(Ty::kI32, "lane", special(Special::kLane)),
              decl(Ty::kI32, "m0", special(Special::kCtaY) * kBm),
              decl(Ty::kI32, "n0", special(Special::kCtaX) * bn_),
              decl(Ty::kI32, "kblocks", floor_div(dim("K") + (kBk - 1), kBk)),
              if_(equal(i32("warp"), kConsumerWarps), set_up(), {}, true),
              op(Ins::kSyncThreads),
              if_(equal(i32("warp"), kConsumerWarps), producer(), consumer(), true)};
    return p;
  }

 private:
  static int a_bytes() { return kBm * kRowBytes; }
  int b_bytes() const { return bn_ * kRowBytes; }

  static Val barrier(const char* ring, const Val& stage) { return shared(ring) + u32(stage) * 8; }

  // The next slot of the ring; the phase flips when it starts over.
  Body advance() const {
    const Val last = equal(i32("stage"), stages_ - 1);
    return {assign("phase", fn(Fn::kXor, {i32("phase"), select(last, 1, 0)})),
            assign("stage", select(last, 0, i32("stage") + 1))};
  }

  Body set_up() const {
    const Val s = i32("s");
    return {decl(Ty::kPred, "first"), elect("first"),
            if_(var(Ty::kPred, "first"),
                {on_map(Ins::kPrefetchMap, "map_a"), on_map(Ins::kPrefetchMap, "map_b"),
                 for_("s", 0, stages_, 1,
                      {op(Ins::kBarInit, {barrier("full", s), 1}),
                       op(Ins::kBarInit, {barrier("empty", s), kConsumerWarps})},
                      Unroll::kYes),
                 op(Ins::kBarInitFence)})};
  }

  Body producer() const {
    const Val stage = i32("stage");
    const int bytes = a_bytes() + b_bytes();
    Body step = {// A fresh barrier counts as one phase behind: the first round waits for nothing.
                 op(Ins::kBarWait, {barrier("empty", stage), fn(Fn::kXor, {i32("phase"), 1})}),
                 op(Ins::kBarExpect, {barrier("full", stage)}, 0, bytes),
                 on_map(Ins::kTmaLoad, "map_a",
                        {shared("ring_a") + u32(stage) * a_bytes(), barrier("full", stage),
                         i32("kb") * kBk, i32("m0")},
                        a_bytes()),
                 on_map(Ins::kTmaLoad, "map_b",
                        {shared("ring_b") + u32(stage) * b_bytes(), barrier("full", stage),
                         i32("kb") * kBk, i32("n0")},
                        b_bytes())};
    for (Stmt& s : advance()) step.push_back(std::move(s));
    return {comment("producer: one thread keeps the ring full"), decl(Ty::kPred, "elected"),
            elect("elected"),
            if_(var(Ty::kPred, "elected"), {decl(Ty::kI32, "stage", 0), decl(Ty::kI32, "phase", 0),
                                            for_("kb", 0, i32("kblocks"), 1, std::move(step))})};
  }

  Stmt product() const {
    const auto descriptor = [&](const char* ring, int tile_bytes) {
      const Val at = shared(ring) + u32(i32("stage")) * tile_bytes + u32(i32("kk")) * 32;
      return fn(Fn::kMatrixDesc, {at, 16, 8 * kRowBytes, kSwizzle128});
    };
    Instr i;
    i.ins = Ins::kWgmma;
    i.dtype = DType::kBf16;
    i.n = bn_;
    i.regs = {{"acc", 0, bn_ / 2}};
    // The very first product overwrites the accumulators, so nothing has to clear them.
    i.args = {select(0 < i32("kb") + i32("kk"), int_val(Ty::kU32, 1), int_val(Ty::kU32, 0)),
              descriptor("ring_a", a_bytes()), descriptor("ring_b", b_bytes())};
    return for_("kk", 0, kBk / 16, 1, {instr(std::move(i))}, Unroll::kYes);
  }

  Stmt pin() const {
    Instr i;
    i.ins = Ins::kPin;
    i.regs = {{"acc", 0, bn_ / 2}};
    return instr(std::move(i));
  }

  // One arrival a warp: what the slot held has been read.
  Stmt release(const Val& stage) const {
    return if_(equal(i32("lane"), 0), {op(Ins::kBarArrive, {barrier("empty", stage)})});
  }

  Body consumer() const {
    Body step = {op(Ins::kBarWait, {barrier("full", i32("stage")), i32("phase")}),
                 op(Ins::kWgmmaFence),
                 product(),
                 op(Ins::kWgmmaCommit),
                 op(Ins::kWgmmaWait, {}, 1),
                 if_(0 < i32("kb"), {release(i32("previous"))}, {}, true),
                 assign("previous", i32("stage"))};
    for (Stmt& s : advance()) step.push_back(std::move(s));
    Body body = {comment("consumer: one product in flight while the next tile is awaited"),
                 decl_array(Ty::kF32, "acc", bn_ / 2),
                 decl(Ty::kI32, "stage", 0),
                 decl(Ty::kI32, "phase", 0),
                 decl(Ty::kI32, "previous", 0),
                 pin(),
                 for_("kb", 0, i32("kblocks"), 1, std::move(step)),
                 op(Ins::kWgmmaWait, {}, 0),
                 pin()};
    for (Stmt& s : epilogue()) body.push_back(std::move(s));
    return body;
  }

  // Accumulator i of lane l in warp w: row 16w + l / 4 + 8 (i / 2 % 2), column 8 (i / 4) + 2 (l %
  // 4)
  // + i % 2.
  Body epilogue() const {
    const Val j = i32("j"), h = i32("h"), at = j * 4 + h * 2;
    Instr store;
    store.ins = Ins::kStGlobal;
    store.dtype = DType::kBf16;
    store.global = {"d", {i32("row") + h * 8, i32("col") + j * 8}, 2};
    store.regs = {{"pair", {}, 1}};
    store.guard = i32("row") + h * 8 < dim("M") && i32("col") + j * 8 < dim("N");
    Stmt pair = decl(Ty::kU32, "pair",
                     fn(Fn::kPackBf16, {elem(Ty::kF32, "acc", at), elem(Ty::kF32, "acc", at + 1)}));
    return {decl(Ty::kI32, "row", i32("m0") + i32("warp") * 16 + floor_div(i32("lane"), 4)),
            decl(Ty::kI32, "col", i32("n0") + floor_mod(i32("lane"), 4) * 2),
            for_("j", 0, bn_ / 8, 1,
                 {for_("h", 0, 2, 1, {std::move(pair), instr(std::move(store))}, Unroll::kYes)},
                 Unroll::kYes)};
  }

  const int bn_, stages_;
};

}  // namespace

Result<Program> wgmma_gemm(const WgmmaGemm& shape) {
  Program program = Kernel(shape).build();
  RT_RETURN_IF_ERROR(plan_shared(program));
  RT_RETURN_IF_ERROR(verify(program));
  return program;
}

}  // namespace rooftile::lanes::testing
