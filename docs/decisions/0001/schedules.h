// SPDX-License-Identifier: Apache-2.0
// Hopper schedules of the programs in programs.h. What is not said here is derived; the page says
// by which rule.
#pragma once

#include "docs/decisions/0001/programs.h"
#include "docs/decisions/0001/schedule_gpu.h"

namespace rooftile::gpu_design::design {

// [gemm_cooperative]

// 4096^3 and most large shapes: two consumer groups share a 128 x 256 tile by rows, two CTAs share
// B.
inline Schedule gemm_cooperative() {
  return {
      .name = "sm90_128x256_s4_c2",
      .tile = {{"BM", 128}, {"BN", 256}, {"BK", 64}},
      .roles = {{.name = "feed", .warps = 1, .regs = 40, .runs = {"a", "b"}},
                {.name = "mma", .groups = 2, .regs = 232, .runs = {"acc", "d"}}},
      .share = Share::kRows,
      .cluster = {{"i", 2}},  // two tiles along i: what does not depend on i, b, is shared
      .grid = {.kind = Grid::kPersistent},
      .order = {.axes = {"j", "i"}, .band_axis = "i", .band = 16},  // bands of 2048 rows
      .copy = {{"a", {.via = Via::kTma}},
               {"b", {.via = Via::kTma, .multicast = Multicast::kSlices}},
               {"d",
                {.via = Via::kTma,
                 .l2 = L2::kEvictFirst,
                 .staging_columns = 64,
                 .staging_buffers = 2}}},
      .rings = {{.copies = {"a", "b"}, .depth = 4}},
      .product = {{"acc", {.unit = Unit::kWgmma, .in_flight = 1}}},
      .launch = {.dependent = true, .wait_before = {"a"}, .let_next_after = "a"},
  };
}
// [/gemm_cooperative]

// [gemm_pingpong]

// Each group takes whole tiles in turn, so that the epilogue of one hides under the products of the
// other.
inline Schedule gemm_pingpong() {
  Schedule s = gemm_cooperative();
  s.name = "sm90_128x176_s5_c2_pp";
  s.tile["BN"] = 176;  // 17 waves where 256 takes 12 wider ones: 8192 x 6144
  s.share = Share::kTurns;
  s.rings[0].depth = 5;
  s.turns = {{.role = "mma", .from = "acc", .to = "acc"}};
  return s;
}
// [/gemm_pingpong]

// [gemm_swap]

// Up to 64 rows: weights take the 64-row side, tokens the narrow one; a cluster of two splits K.
// Weights do not depend on the kernel before, so their first loads go ahead of every wait.
inline Schedule gemm_swap(int tokens) {
  return {
      .name = "sm90_swap_64x" + std::to_string(tokens) + "_k2",
      .tile = {{"BM", tokens}, {"BN", 64}, {"BK", 64}},
      .roles = {{.name = "feed", .warps = 1, .runs = {"a", "b"}},
                {.name = "mma", .runs = {"acc", "d"}}},
      .split = {{.loop = "kb",
                 .across = LoopSplit::kCluster,
                 .ways = 2}},  // half of K to each CTA of a pair
      .copy = {{"b", {.via = Via::kTma, .l2 = L2::kEvictFirst, .ahead_of = Ahead::kDependency}},
               {"a", {.via = Via::kTma, .ahead_of = Ahead::kClusterBarrier}},
               {"d", {.via = Via::kVector}}},
      .rings = {{.copies = {"a", "b"}, .depth = 12, .steps = 2}},  // 128 of K in a slot
      .product = {{"acc", {.swap = true}}},
      .reduction = {{"kb",
                     {.cluster = Exchange::kStAsync}}},  // register images, added in rank order
      .launch = {.dependent = true, .wait_before = {"a"}, .let_next_after = "b"},
  };
}
// [/gemm_swap]

// [attention]

// d 128, full or causal: FlashAttention-3's shape plus the speculative reference.
inline Schedule attention_d128(bool causal) {
  LoopPlan kv = {
      .shift = {{"qk", 1}},  // QK of the next block before the softmax of this one
      .sequence = {acquire("k"), issue("qk"), issue("pv"), wait("qk"), release("k"), compute("p"),
                   acquire("v"),  // of the next step; its branch is the anchor that keeps the
                                  // exponentials above it
                   wait("pv"), release("v")},
      .unroll = 2,  // the two P tiles swap roles
      .carry = true,
  };
  // Behind the cut every row of the tile sees every key of every block, and an even number of steps
  // is left. The block with the last key that the first row sees is before the cut.
  Expr Sk = Expr::sym("Sk"), BN = Expr::sym("BN"), steps = Expr::sym("steps");
  Expr first_row_sees = min(Sk, Expr::sym("i") * Expr::sym("BM") + Sk - Expr::sym("Sq") + 1);
  Expr full = causal ? max(0, first_row_sees - 1) / BN : min(Sk / BN, steps - 1);
  kv.cut = steps - full / 2 * 2;
  if (causal) kv.gone_after_cut = {"mask"};
  Schedule s = {
      .name = causal ? "sm90_d128_causal" : "sm90_d128_full",
      .tile = {{"BM", 128}, {"BN", 128}},
      .rewrites = {{.name = "speculate_reference",
                    .labels = {"kv"},
                    .numbers = {{"bound_log2", 60}}}},
      .roles = {{.name = "feed", .warps = 1, .regs = 24, .runs = {"q", "k", "v"}},
                {.name = "mma", .groups = 2, .regs = 240, .runs = {"qk", "pv", "out", "lse"}}},
      .share = Share::kRows,
      .grid = {.kind = Grid::kPersistent},
      .order = {.axes = {"b", "h", "i"},
                .heaviest_first = causal ? "i" : "",
                .section_axis = causal ? "h" : "",
                .section_bytes = causal ? 30 << 20 : 0,
                .next = causal ? Order::kCounter : Order::kStride,
                .publish = 2,
                .bind_at_most = 3},
      .copy = {{"q", {.via = Via::kTma, .l2 = L2::kEvictFirst}},
               {"k", {.via = Via::kTma, .l2 = L2::kEvictLast}},
               {"v", {.via = Via::kTma, .l2 = L2::kEvictLast}},
               {"out", {.via = Via::kVector, .quad_transpose = true}}},
      .rings = {{.copies = {"q"}, .depth = 2},
                {.copies = {"k"}, .depth = 2},
                {.copies = {"v"}, .depth = 2}},
      .home = {{"p", Home::kPacked}, {"qk", Home::kRegisters}},
      .product = {{"qk", {.in_flight = 1}}, {"pv", {.a = From::kRegisters, .in_flight = 0}}},
      .lazy = {{"bad", "warp"}},  // the repair runs only in warps where some row asks for it
      .loop = {{"kv", kv}},
  };
  if (causal)
    s.roles.push_back({.name = "dead", .warps = 3, .beside = "feed", .takes_empty = "kv"});
  return s;
}

// Up to 2048 keys: the groups take turns in issuing.
inline Schedule attention_d128_short(bool causal) {
  Schedule s = attention_d128(causal);
  s.name += "_ordered";
  s.turns = {{.role = "mma", .from = "qk", .to = "pv"}};
  return s;
}
// [/attention]

// [decode]

// K and V go from memory straight to operand registers; one CTA a piece; the last arriver combines.
inline Schedule paged_decode() {
  dsl::design::Pieces cut{Expr::sym("B"), Expr::sym("Hkv"), Expr::sym("PIECES")};
  return {
      .name = "sm90_pieces_w8",
      .tile = {{"UNIT", 16}, {"PIECES", 132}},
      .roles = {{.name = "all", .groups = 2, .runs = {"q", "k", "v", "qk", "pv"}}},
      .split = {{.loop = "u", .across = LoopSplit::kWarps, .ways = 8, .round_robin = true}},
      .grid = {.kind = Grid::kPieces,
               .owner = cut.piece(Expr::sym("b"), Expr::sym("h"), Expr::sym("s"))},
      .order = {.axes = {"b", "h", "s"}, .ragged = {"s"}},
      .copy = {{"k", {.distance = 1}},
               {"v", {.distance = 1}},
               {"q", {.distance = 1}},  // of the next segment
               {"table",
                {.distance = 2,
                 .prefetch_only = true}}},  // page numbers two units ahead, and L2 asked at once
      .product =
          {{"qk",
            {.unit = Unit::kMmaSync,
             .a = From::kGlobal,
             .b = From::kGlobal,
             .swap = true,
             .permute_k = true}},
           {"pv",
            {.unit = Unit::kMmaSync, .a = From::kRegisters, .b = From::kGlobal, .swap = true}}},
      .reduction = {{"u", {.cta = Exchange::kShared}}},  // the warps' states meet once a segment
      .join = {{"plan", Join::kEverywhere}, {"cb", Join::kTicket}},
  };
}
// [/decode]

// [moe]

inline Schedule moe_gemm() {
  Schedule s = gemm_cooperative();
  s.name = "sm90_moe_128x256_gather";
  // Hopper's copy engine cannot gather: four warps do, and one thread of them starts b's copies.
  s.roles = {{.name = "load", .warps = 4, .regs = 56, .runs = {"from", "a", "b"}},
             {.name = "mma", .groups = 2, .regs = 224, .runs = {"acc", "y"}}};
  s.cluster = {};  // neighbours may belong to two experts
  s.order = {.axes = {"e", "j", "i"}, .band_axis = "i", .band = 8, .ragged = {"e", "i"}};
  s.copy = {{"a", {.via = Via::kCpAsync}},
            {"b", {.via = Via::kTma}},
            {"from", {.distance = 1}},
            {"y", {.via = Via::kVector}}};  // groups end inside a tile: rows are predicated
  return s;
}
// [/moe]

// [int4]

// Y^T = W^T X^T: the converted weights are the register operand; convert(k + 1) runs beside the
// product of k.
inline Schedule int4_gemm(int tokens) {
  return {
      .name = "sm90_w4_128x" + std::to_string(tokens),
      .tile = {{"BM", tokens}, {"BN", 128}, {"BK", 64}},
      .roles = {{.name = "feed", .warps = 1, .regs = 40, .runs = {"a", "w", "scale", "zero"}},
                {.name = "mma", .groups = 2, .regs = 232, .runs = {"dequant", "acc", "y"}}},
      .split = {{.loop = "kb", .across = LoopSplit::kCluster, .ways = 2}},
      .copy = {{"w", {.via = Via::kBulk, .l2 = L2::kEvictFirst, .ahead_of = Ahead::kDependency}},
               {"scale", {.via = Via::kBulk}},
               {"zero", {.via = Via::kBulk}},
               {"a", {.via = Via::kTma}},
               {"y", {.via = Via::kVector}}},
      .rings = {{.copies = {"w", "scale", "zero"}, .depth = 8}, {.copies = {"a"}, .depth = 8}},
      .home = {{"dequant", Home::kRegisters}},
      .product = {{"acc",
                   {.b = From::kRegisters, .swap = true, .in_flight = 2, .permute_k = true}}},
      .reduction = {{"kb", {.cluster = Exchange::kStAsync}}},
      .loop = {{"kb", {.shift = {{"dequant", 1}}}}},
      .launch = {.dependent = true, .wait_before = {"a"}},
  };
}
// [/int4]

// [softmax]

// 65536 columns: a cluster of eight holds the row in registers, once read, once written.
inline Schedule softmax_long() {
  return {
      .name = "sm90_row_c8_t256_v4",
      .rewrites = {{.name = "pair_max_and_sum", .labels = {"m", "l"}}},
      .roles = {{.name = "all", .groups = 2}},
      .cluster = {{"x", 8}},  // a label: the tile itself is spread
      .grid = {.kind = Grid::kCover, .ctas_per_sm = 6},
      .home = {{"x", Home::kPacked}},  // bf16 pairs until the store; unpacked twice, exp recomputed
      .spread = {{"x", {.threads = 256, .vectors = 4, .tail = Spread::kExact}}},
      .reduction = {{"m",
                     {.warp = Exchange::kRedux,
                      .cluster = Exchange::kStAsync,
                      .with = "l",
                      .integer_keys = true}},
                    {"l", {.warp = Exchange::kShuffle, .cluster = Exchange::kStAsync}}},
      .launch = {.ptxas = {"--register-usage-level=0"}},
  };
}
// [/softmax]

// [topk]

inline Schedule top_k() {
  return {
      .name = "sm90_topk_t1024",
      .tile = {{"V", 64}, {"CAP", 256}},
      .roles = {{.name = "all", .groups = 8}},
      .grid = {.kind = Grid::kCover},
      .order = {},
      .home = {{"x", Home::kReread},
               {"group_list", Home::kShared},
               {"groups", Home::kShared},
               {"best", Home::kShared}},
      .spread = {{"x", {.threads = 1024, .vectors = 16}},
                 {"again", {.threads = 1024, .vectors = 1}}},
      .reduction = {{"top", {.integer_keys = true}},
                    {"bound", {.warp = Exchange::kRedux, .threads = 32}}},
  };
}

inline Schedule sample() {
  return {
      .name = "sm90_sample_c2",
      .roles = {{.name = "all", .groups = 8}},
      .cluster = {{"x", 2}, {"bins", 2}},  // half of the row, and half of the places, to each CTA
      .home = {{"x", Home::kReread}, {"hist", Home::kCluster}},
      .spread = {{"x", {.threads = 1024, .vectors = 8}}, {"bins", {.threads = 1024, .vectors = 4}}},
      .storage_bits = {{"hist", 16}},  // a CTA counts at most half of N < 2^17
  };
}
// [/topk]

}  // namespace rooftile::gpu_design::design
