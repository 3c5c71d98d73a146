// SPDX-License-Identifier: Apache-2.0
// The tile programs of 0001-language.md: the algorithms, apart from their schedules (schedules.h).
#pragma once

#include <limits>

#include "docs/decisions/0001/grown.h"
#include "rooftile/dsl/dsl.h"

namespace rooftile::dsl::design {

using Tiles = std::vector<Tile>;
inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kLog2e = 1.4426950408889634;

// (a) GEMM: D = silu(A B^T + bias)

// [gemm]

inline void gemm(Kernel& k) {
  Index M = k.dim("M"), N = k.dim("N"), K = k.dim("K");
  Index BM = k.tile_param("BM"), BN = k.tile_param("BN"), BK = k.tile_param("BK");
  Tensor A = k["a"], B = k["b"], D = k["d"], bias = k["bias"];  // [M, K], [N, K], [M, N], [N]
  k.tiles({{"i", ceil_div(M, BM)}, {"j", ceil_div(N, BN)}}, [&](Index i, Index j) {
    Range rows = block(i, BM, M), cols = block(j, BN, N);
    auto step = [&](Index kb, Tiles s) {
      Range ks = block(kb, BK, K);
      Tile a = k.load(A(rows, ks), "a");  // (rows, ks)
      Tile b = k.load(B(cols, ks), "b");  // (cols, ks)
      return Tiles{mma(a, b.t(), s[0], "acc")};
    };
    Tiles sum = k.loop("kb", 0, ceil_div(K, BK), 1, {k.zeros({rows.extent, cols.extent})}, step);
    Tile y = sum[0] + k.load(bias(new_axis, cols), "bias");  // (rows, cols) + (1, cols)
    k.store(D(rows, cols), y * recip(1.0 + exp(-y)));        // silu; rounds to D's dtype, once
  });
}
// [/gemm]

// (b) attention, prefill

// [attention]

inline void attention(Kernel& k, bool causal) {
  Index B = k.dim("B"), Hq = k.dim("Hq"), Hkv = k.dim("Hkv"), D = k.dim("D");
  Index Sq = k.dim("Sq"), Sk = k.dim("Sk"), BM = k.tile_param("BM"), BN = k.tile_param("BN");
  Tensor Q = k["q"], K = k["k"], V = k["v"], O = k["out"];  // [B, S, heads, D]
  Tensor LSE = k["lse"];                                    // [B, Hq, Sq]
  Tile scale = k.scalar("softmax_scale") * kLog2e;          // scores in units of log2
  Tile never = k.full({}, -kInf), nought = k.full({}, 0);
  k.tiles({{"b", B}, {"h", Hq}, {"i", ceil_div(Sq, BM)}}, [&](Index b, Index h, Index i) {
    Range rows = block(i, BM, Sq);
    Index hk = h / (Hq / Hkv);            // grouped queries
    Index first_sees = i * BM + Sk - Sq;  // the last key that the tile's first row sees
    Index seen = causal ? max(0, min(Sk, first_sees + rows.extent)) : Sk;  // keys any row sees
    Index steps = ceil_div(seen, BN);
    Tile q = k.load(Q(b, rows, h, all), "q");              // (rows, D) bf16
    Tile limit = k.iota({rows.extent, 1}, 0, first_sees);  // (rows, 1) the last key of each row
    auto attend = [&](Index step, Tiles s) {
      Tile o = s[0], m = s[1], l = s[2];
      Range keys = block(steps - 1 - step, BN, seen);  // right edge first: there are the masks
      Tile kt = k.load(K(b, keys, hk, all), "k");      // (keys, D) bf16
      Tile vt = k.load(V(b, keys, hk, all), "v");      // (keys, D) bf16
      Tile x = mma(q, kt.t(), "qk") * scale;           // (rows, keys)
      Tile column = k.iota({1, keys.extent}, 1, keys.begin);
      if (causal) x = where_(le(column, limit), x, never).named("mask");
      Tile m2 = max(m, reduce_max(x));               // (rows, 1)
      Tile ref = where_(eq(m2, never), nought, m2);  // a row that has seen nothing subtracts 0
      Tile p = exp2(x - ref), r = exp2(m - ref);
      Tile weights = p.to(DType::kBf16).named("p");
      return Tiles{mma(weights, vt, o * r, "pv"), m2, l * r + sum(p)};
    };
    Tiles start = {k.zeros({rows.extent, D}), k.full({rows.extent, 1}, -kInf),
                   k.zeros({rows.extent, 1})};
    Tiles end = k.loop("kv", 0, steps, 1, start, attend);
    Tile o = end[0], m = end[1], l = end[2], live = lt(nought, l);
    k.store(O(b, rows, h, all), where_(live, o / l, nought));
    k.store(LSE(b, h, rows, new_axis), where_(live, (m + log2(l)) * (1 / kLog2e), never));
  });
}
// [/attention]

// [speculate]

// The body of the loop after the rewrite, for the steps behind the cut: no mask, no short block.
inline Tiles speculative_step(Kernel& k, Tile x, Tile vt, Tile o, Tile m, Tile l,
                              double bound = 0x1p60) {
  Tile p0 = exp2(x - m), a0 = sum(p0);                 // against the reference as it is
  Tile bad = logical_not(lt(a0, bound)).named("bad");  // (rows, 1); also true for NaN
  Tile m2 = where_(bad, max(m, reduce_max(x)), m);
  Tile r = where_(bad, exp2(m - m2), k.full({}, 1));
  Tile p = where_(bad, exp2(x - m2), p0);
  Tile a = where_(bad, sum(p), a0);
  return {mma(p.to(DType::kBf16).named("p"), vt, where_(bad, o * r, o), "pv"), m2, l * r + a};
}
// [/speculate]

// (c) split-KV paged decode, combined in the same launch

// [decode]

// The list of all units of work, ordered (request, head, unit), cut into at most `most` equal
// pieces.
struct Pieces {
  Index B, Hkv, most;
  // Units before request b, of one head; units of request b; all of them.
  Index first(Index b) const { return Expr::index_load("first", {b}); }
  Index length(Index b) const { return first(b + 1) - first(b); }
  Index total() const { return first(B) * Hkv; }
  Index cuts() const { return min(most, max(1, total())); }
  // Segment (b, h): its first unit in the list, and the piece that holds a unit.
  Index begin(Index b, Index h) const { return first(b) * Hkv + h * length(b); }
  Index holder(Index unit) const { return ((unit + 1) * cuts() - 1) / max(1, total()); }
  // The pieces that share segment (b, h): the s-th, and how many.
  Index piece(Index b, Index h, Index s) const { return holder(begin(b, h)) + s; }
  Index count(Index b, Index h) const {
    Index last = begin(b, h) + length(b) - 1;
    return select(length(b) > 0, holder(last) - holder(begin(b, h)) + 1, 0);
  }
  // What the s-th of them has of the segment, counted from the request's first key.
  Range units(Index b, Index h, Index s) const {
    Index p = piece(b, h, s), at = begin(b, h);
    Index lo = max(at, total() * p / cuts()) - at;
    Index hi = min(length(b), total() * (p + 1) / cuts() - at);
    return range(lo, hi - lo);
  }
};

// One query token a request; a unit of work is UNIT keys of one page of one KV head. Units of all
// requests and heads form one list, cut into PIECES equal parts: which requests are split, and how
// often, follows from the lengths.
inline void paged_decode(Kernel& k) {
  Index B = k.dim("B"), Hkv = k.dim("Hkv"), G = k.dim("G"), D = k.dim("D"), PAGE = k.dim("PAGE");
  Index UNIT = k.tile_param("UNIT"), PIECES = k.tile_param("PIECES");  // contract: PAGE % UNIT == 0
  Tensor Q = k["q"], O = k["out"];                                     // [B, Hkv, G, D]
  Tensor K = k["k"], V = k["v"];                                       // [P, PAGE, Hkv, D]
  Tensor table = k["table"], lens = k["lens"];                         // [B, pages] i32, [B] i32
  Tensor first = k.workspace("first", DType::kI32, {B + 1});  // units before request b, of one head
  Tensor part_o = k.workspace("part_o", DType::kF32, {B, Hkv, PIECES, G, D});
  Tensor part_ml = k.workspace("part_ml", DType::kF32, {B, Hkv, PIECES, 2, G});
  Tile scale = k.scalar("softmax_scale") * kLog2e, nought = k.full({}, 0);

  k.tiles({"plan", 1}, [&](Index) {
    Tile units = floor_div(k.load(lens(all)) + k.index(UNIT - 1), k.index(UNIT));  // (B) i32
    k.store(first(range(0, 1)), k.full({1}, 0, DType::kI32));
    k.store(first(range(1, B)), scan(ir::ReduceKind::kSum, units, 0));
  });

  Pieces cut{B, Hkv, PIECES};
  k.tiles({{"b", B}, {"h", Hkv}, {"s", PIECES}}, [&](Index b, Index h, Index s) {
    k.when(s < cut.count(b, h), [&] {
      Range mine = cut.units(b, h, s);
      Tile q = k.load(Q(b, h, all, all), "q");  // (G, D)
      Tiles start = {k.zeros({G, D}), k.full({G, 1}, -kInf), k.zeros({G, 1})};
      auto attend = [&](Index u, Tiles c) {
        Index page = table.at(b, u * UNIT / PAGE);
        Range keys = range(u * UNIT % PAGE, min(UNIT, lens.at(b) - u * UNIT));
        Tile kt = k.load(K(page, keys, h, all), "k");  // (keys, D)
        Tile vt = k.load(V(page, keys, h, all), "v");  // (keys, D)
        Tile x = mma(q, kt.t(), "qk") * scale;         // (G, keys)
        Tile m = max(c[1], reduce_max(x)), p = exp2(x - m), r = exp2(c[1] - m);
        return Tiles{mma(p.to(DType::kBf16), vt, c[0] * r, "pv"), m, c[2] * r + sum(p)};
      };
      Tiles r = k.loop("u", mine.begin, mine.begin + mine.extent, 1, start, attend);
      k.store(part_o(b, h, s, all, all), r[0]);
      k.store(part_ml(b, h, s, 0, all, new_axis), r[1]);
      k.store(part_ml(b, h, s, 1, all, new_axis), r[2]);
    });
  });

  k.tiles({{"cb", B}, {"ch", Hkv}}, [&](Index b, Index h) {
    Tiles start = {k.zeros({G, D}), k.full({G, 1}, -kInf), k.zeros({G, 1})};
    auto join = [&](Index s, Tiles c) {
      Tile o = k.load(part_o(b, h, s, all, all));           // (G, D)
      Tile m = k.load(part_ml(b, h, s, 0, all, new_axis));  // (G, 1)
      Tile l = k.load(part_ml(b, h, s, 1, all, new_axis));  // (G, 1)
      Tile m2 = max(c[1], m), f = exp2(c[1] - m2), g = exp2(m - m2);
      return Tiles{c[0] * f + o * g, m2, c[2] * f + l * g};
    };
    Tiles r = k.loop("cs", 0, cut.count(b, h), 1, start, join);
    k.store(O(b, h, all, all), where_(lt(nought, r[2]), r[0] / r[2], nought));
  });
}
// [/decode]

// (d) MoE grouped GEMM with gathered rows

// [moe]

// Rows of one expert are offsets[e] .. offsets[e + 1] of the sorted list; row r of it is row
// source[r] of x.
inline void moe_gemm(Kernel& k) {
  Index E = k.dim("E"), R = k.dim("R"), N = k.dim("N"), K = k.dim("K");
  Index BM = k.tile_param("BM"), BN = k.tile_param("BN"), BK = k.tile_param("BK");
  Tensor X = k["x"], W = k["w"], Y = k["y"];            // [T, K], [E, N, K], [R, N]
  Tensor source = k["source"], offsets = k["offsets"];  // [R], [E + 1] i32: 0 ... R, non-decreasing
  k.tiles({{"e", E}, {"i", ceil_div(R, BM)}, {"j", ceil_div(N, BN)}},
          [&](Index e, Index i, Index j) {
            Index begin = offsets.at(e), count = offsets.at(e + 1) - offsets.at(e);
            k.when(i * BM < count, [&] {
              Range rows = block(i, BM, count), cols = block(j, BN, N);
              Range list = range(begin + rows.begin, rows.extent);
              Tile from = k.load(source(list), "from");  // (rows) i32
              auto step = [&](Index kb, Tiles s) {
                Range ks = block(kb, BK, K);
                Tile a = k.load(X(from, ks), "a");     // (rows, ks): gathered
                Tile b = k.load(W(e, cols, ks), "b");  // (cols, ks)
                return Tiles{mma(a, b.t(), s[0], "acc")};
              };
              Tile none = k.zeros({rows.extent, cols.extent});
              k.store(Y(list, cols), k.loop("kb", 0, ceil_div(K, BK), 1, {none}, step)[0]);
            });
          });
}
// [/moe]

// (e) int4 weights, dequantised on the way to the tensor core

// [int4]

// W[k, n] = (nibble k % 8 of word[k / 8, n] - zero[k / G, n]) * scale[k / G, n], groups of G rows.
inline void int4_gemm(Kernel& k) {
  Index M = k.dim("M"), N = k.dim("N"), K = k.dim("K");
  Index G = K / k.dim("NG");  // contract: NG divides K, G % 8 == 0
  Index BM = k.tile_param("BM"), BN = k.tile_param("BN"), BK = k.tile_param("BK");  // BK divides G
  Tensor X = k["x"], word = k["word"], scale = k["scale"], zero = k["zero"], Y = k["y"];
  k.tiles({{"i", ceil_div(M, BM)}, {"j", ceil_div(N, BN)}}, [&](Index i, Index j) {
    Range rows = block(i, BM, M), cols = block(j, BN, N);
    auto step = [&](Index kb, Tiles s) {
      Range ks = block(kb, BK, K), group = range(ks.begin / G, 1);
      Tile a = k.load(X(rows, ks), "a");                              // (rows, ks) bf16
      Tile row_of = floor_div(k.iota(ks.extent, ks.begin), 8.0);      // (ks): each row 8 times
      Tile w = k.load(word(row_of, cols), "w");                       // (ks, cols) i32
      Tile at = mod(k.iota({ks.extent, 1}, 0, ks.begin), 8.0) * 4.0;  // (ks, 1): 0, 4, ... 28
      Tile nibble = bit_and(shr(w, at), 15.0).to(DType::kF32);
      Tile z = k.load(zero(group, cols), "zero").to(DType::kF32);     // (1, cols)
      Tile f = k.load(scale(group, cols), "scale").to(DType::kF32);   // (1, cols)
      Tile b = ((nibble - z) * f).to(DType::kBf16).named("dequant");  // (ks, cols)
      return Tiles{mma(a, b, s[0], "acc")};
    };
    Tile none = k.zeros({rows.extent, cols.extent});
    k.store(Y(rows, cols), k.loop("kb", 0, ceil_div(K, BK), 1, {none}, step)[0]);
  });
}
// [/int4]

// (f) softmax of long rows

// [softmax]

inline void softmax(Kernel& k) {
  Index R = k.dim("R");
  k.tiles({"r", R}, [&](Index r) {
    Tile x = k.load(k["x"](r, all), "x").to(DType::kF32) * kLog2e;  // (V) in units of log2
    Tile m = reduce_max(x).named("m");                              // (1)
    Tile l = sum(exp2(x - m)).named("l");                           // (1)
    k.store(k["y"](r, all), exp2(x - (m + log2(l))));               // the division, in the exponent
  });
}
// [/softmax]

// (g) top-k and sampling

// [topk]

// bf16 values as 16-bit keys in ascending order: NaN on top whatever its sign, -0 equal to +0.
inline Tile order_key(Kernel& k, const Tile& x) {
  Tile b = shr(bits(x.to(DType::kF32)), 16.0), b16 = bit_and(b, 65535.0), mag = bit_and(b, 32767.0);
  Tile negative = lt(32767.0, b16);
  Tile key = where_(negative, bit_xor(b16, 65535.0), bit_or(b16, 32768.0));
  key = where_(eq(mag, 0.0), k.full({}, 32768, DType::kI32), key);
  return where_(lt(32640.0, mag), k.full({}, 65535, DType::kI32), key);  // above 0x7f80: NaN
}

inline Tile count(Kernel& k, const Tile& flag) {
  return sum(where_(flag, k.full({}, 1, DType::kI32), k.full({}, 0, DType::kI32)),
             0);  // (n) -> (1)
}

// The `want`-th largest of 16-bit keys (n), by descent on the bits: exact, 16 counts.
inline Tile kth_largest(Kernel& k, const Tile& key, const Tile& want) {
  return k.loop("bit", 0, 16, 1, {k.full({1}, 0, DType::kI32)}, [&](Index step, Tiles s) {
    Tile c = bit_or(s[0], shl(k.full({1}, 1, DType::kI32), k.index(15 - step)));
    return Tiles{where_(le(want, count(k, le(c, key))), c, s[0])};
  })[0];
}

// Exact top-k of each row, value descending, then index ascending.
inline void top_k(Kernel& k) {
  Index R = k.dim("R"), N = k.dim("N"), KK = k.dim("K");  // contract: N % V == 0, 1 <= K <= N / V
  Index V = k.tile_param("V"), CAP = k.tile_param("CAP");
  Tensor X = k["x"], out = k["values"], out_at = k["indices"];
  Tensor group_list = k.workspace("group_list", DType::kI32, {R, CAP}),
         groups = k.workspace("groups", DType::kI32, {R});
  Tensor best = k.workspace("best", DType::kI32,
                            {R, 2, KK});  // keys and indices of the winners, in index order
  Tile want = k.full({}, 0, DType::kI32) + k.index(KK), skip = k.full({}, kSkip, DType::kI32);
  auto place = [&](const Tile& flag) {  // position among the flagged, or -1: the store skips it
    Tile ones = where_(flag, k.full({}, 1, DType::kI32), k.full({}, 0, DType::kI32));
    return where_(flag, scan(ir::ReduceKind::kSum, ones, 0) - 1.0, skip);
  };

  k.tiles({"r", R}, [&](Index r) {
    // Every group vouches for one element, so the K-th largest group maximum is not above the K-th
    // largest element.
    Tile key = order_key(k, k.load(X(r, all), "x"));                                    // (N)
    Tile top = reshape(reduce_max(reshape(key, {N / V, V}), 1), {N / V}).named("top");  // (N / V)
    Tile bound = kth_largest(k, top, want).named("bound");                              // (1)
    Tile alive = le(bound, top);
    k.store(groups(range(r, 1)), count(k, alive));
    auto select_from = [&](const Tile& at, const Tile& keys) {  // (n) indices ascending, (n) keys
      Tile kth = kth_largest(k, keys, want);
      Tile above = lt(kth, keys), tie = eq(kth, keys);
      Tile nth = scan(ir::ReduceKind::kSum,
                      where_(tie, k.full({}, 1, DType::kI32), k.full({}, 0, DType::kI32)), 0);
      Tile take = logical_or(above, logical_and(tie, le(nth, want - count(k, above))));
      k.store(best(r, 0, place(take)), keys);
      k.store(best(r, 1, place(take)), at);
    };
    k.when(groups.at(r) <= CAP, [&] {
      k.store(group_list(r, place(alive)), k.iota(N / V));
      Index n = groups.at(r);
      Tile first = reshape(k.load(group_list(r, range(0, n)), "survivors"), {n, 1}) * k.index(V);
      Tile at = reshape(first + k.iota({1, V}, 1), {n * V});  // element numbers, ascending
      select_from(at, order_key(k, k.load(X(r, at), "again")));
    });
    k.when(groups.at(r) > CAP,
           [&] { select_from(k.iota(N), order_key(k, k.load(X(r, all), "slow"))); });
    // The rank of a winner is the number of winners that beat it; order by index settles ties.
    Tile w = reshape(k.load(best(r, 0, all)), {KK, 1}), wt = w.t();
    Tile beats =
        logical_or(lt(w, wt), logical_and(eq(w, wt), lt(k.iota({1, KK}, 1), k.iota({KK, 1}, 0))));
    Tile rank = reshape(
        sum(where_(beats, k.full({}, 1, DType::kI32), k.full({}, 0, DType::kI32)), 1), {KK});
    Tile at = k.load(best(r, 1, all));
    k.store(out_at(r, rank), at);
    k.store(out(r, rank), k.load(X(r, at)));
  });
}
// [/topk]

// [sample]

// Temperature, top-k, top-p, min-p and the draw, exact and replayable, without a sort: bf16 has
// 65536 values, so a histogram over them loses nothing, and masses are integers, so that prefix
// sums do not depend on their order.
inline void sample(Kernel& k) {
  Index R = k.dim("R"), N = k.dim("N");  // contract: N < 2^17, 1 <= top_k <= N, temperature >= 1e-5
  Tensor X = k["x"], token = k["token"], seed = k["seed"];
  Tensor temperature = k["temperature"], top_k = k["top_k"], top_p = k["top_p"], min_p = k["min_p"];
  Tensor hist = k.workspace("hist", DType::kI32, {R, 65536});
  Tile none = k.full({}, 0, DType::kI64);
  k.tiles({"r", R}, [&](Index r) {
    Tile x = k.load(X(r, all), "x").to(DType::kF32);  // (N)
    Tile raw = bit_and(shr(bits(x), 16.0), 65535.0);  // (N) the bf16 as it is stored
    raw = where_(eq(raw, 32768.0), k.full({}, 0, DType::kI32), raw);  // -0 counts as +0
    k.store(hist(r, all), k.full({65536}, 0, DType::kI32));
    k.store_add(hist(r, raw), k.full({N}, 1, DType::kI32));
    // Place d of the descending order is bits 0x7fff - d for the positive half, bits d for the
    // negative one.
    Tile d = k.iota(Index(65536)), raw_of = where_(lt(d, 32768.0), 32767.0 - d, d);
    Tile n = k.load(hist(r, raw_of), "bins")
                 .to(DType::kI64);  // (65536) how many of each value, largest first
    Tile value = from_bits(shl(raw_of, 16.0)), peak = reduce_max(x);  // (65536), (1)
    Tile e = exp2((value - peak) * kLog2e / k.load(temperature(range(r, 1))));
    e = where_(eq(value, peak), k.full({}, 1), e);  // also when the peak is +inf
    Tile dead = logical_or(lt(e, k.load(min_p(range(r, 1)))), le(n, 0.0));
    Tile weight =
        where_(dead, none, (e * 0x1p40).to(DType::kI64));  // integer masses, 2^40 at the peak
    Tile mass = scan(ir::ReduceKind::kSum, weight * n, 0), below = mass - weight * n;
    Tile seen = scan(ir::ReduceKind::kSum, n, 0);
    auto at_bin = [&](const Tile& bin, const Tile& of) {
      return sum(where_(bin, of, none), 0);
    };  // (1)
    // Top-k: the values before the one that holds the k-th element, and as many elements of that
    // one as are left.
    Tile limit = k.load(top_k(range(r, 1))).to(DType::kI64);
    Tile kth = logical_and(lt(seen - n, limit), le(limit, seen)).named("kth");
    Tile kept = at_bin(kth, mass - weight * (seen - limit));
    // Top-p: the shortest prefix, in whole elements, that reaches the share p of that.
    Tile goal =
        max(min((kept.to(DType::kF32) * k.load(top_p(range(r, 1)))).to(DType::kI64), kept), 1.0);
    Tile reach = logical_and(lt(below, goal), le(goal, mass)).named("reach");
    Tile w = max(at_bin(reach, weight), 1.0), part = at_bin(reach, below);
    kept = min(kept, part + floor_div(goal - part + w - 1.0, w) * w);
    // The draw: the element whose span of mass holds u * kept, for 31 random bits u. No product
    // passes 2^63.
    Tile u = floor_div(
        philox(k.full({1}, 0, DType::kI32), k.index(seed.at(r)), k.index(k.int_attr("offset")))
            .to(DType::kI64),
        2.0);
    Tile at = u * floor_div(kept, 0x1p32) * 2.0 + floor_div(u * mod(kept, 0x1p32), 0x1p31);
    Tile hit = logical_and(le(below, at), lt(at, mass)).named("hit");
    Tile nth = floor_div(at - at_bin(hit, below), max(at_bin(hit, weight), 1.0));
    // Which of the elements of that value, by index.
    Tile same = eq(raw.to(DType::kI64), at_bin(hit, raw_of.to(DType::kI64)));
    Tile rank = scan(ir::ReduceKind::kSum, where_(same, k.full({}, 1, DType::kI64), none), 0);
    Tile pick = logical_and(same, eq(rank, nth + 1.0));
    Tile found = sum(where_(pick, k.iota(N), k.full({}, 0, DType::kI32)), 0);
    Tile nan = reduce_max(where_(ne(x, x), k.full({}, 1, DType::kI32), k.full({}, 0, DType::kI32)));
    k.store(token(range(r, 1)),
            where_(eq(nan, 1.0), k.full({}, -1, DType::kI32), found));  // a NaN row is flagged
  });
}
// [/sample]

}  // namespace rooftile::dsl::design
