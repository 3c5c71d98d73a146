// SPDX-License-Identifier: Apache-2.0
// Draws one token a row from its logits: temperature, then min-p, top-k, top-p, softmax, draw.
//
// Exact and replayable: the result depends on the row's logits and parameters, its seed and its
// offset, on nothing else. Probabilities are compared as e = exp((x - max) / temperature) in f32,
// and summed as integers of 2^-40, so that sums do not depend on their order. Tokens are ordered by
// e, ties by the lower index; every filter keeps a prefix of that order, hence is a threshold on e
// and a number of tokens equal to it. The thresholds are found bit by bit.
#include "rooftile/ops/sampling/sample/sample.h"

#include <cmath>

#include "rooftile/ops/numerics.h"
#include "rooftile/ops/sampling/sample/sample_raw.h"
#include "rooftile/ops/strips_sm90.h"

namespace rooftile::ops {

using namespace dsl;

void sample_ref(RefCall& call);

namespace {

constexpr double kGreedyBelow = 1e-5;  // temperature
constexpr double kMassUnit = 0x1p40;   // mass of the most probable token
constexpr double kSmallest = 0x1p-63;  // below every e that has a mass
constexpr int64_t kLowBits = (int64_t{1} << 30) - 1;

Tile i64(Kernel& k, int64_t value) { return k.full({}, static_cast<double>(value), DType::kI64); }
Tile mass_of(const Tile& e) { return (e * kMassUnit).to(DType::kI64); }
Tile count(const Tile& predicate) { return sum(predicate.to(DType::kI32)); }

// A prefix of the order: tokens with e > threshold, and the first `ties` of those with e ==
// threshold. [1] each.
struct Prefix {
  Tile threshold, ties, mass;
};

// The largest value t of the tile `e` (0 <= e <= 1) for which `holds` is true, or the smallest from
// 2^-63 on if there is none; `holds` must not become true again as its argument grows. Finds the
// largest f32 with that property, power of two first, then the 23 bits below it, and from there the
// next element. `active` 0 skips the search. [1]
Tile largest_threshold(Kernel& k, const std::string& name, const Tile& e, const Index& active,
                       const std::function<Tile(const Tile&)>& holds) {
  auto try_step = [&](const Tile& at, const Tile& candidate) {
    return where_(holds(candidate), candidate, at);
  };
  auto power =
      k.loop(name + "_exponent", 0, 6 * active, 1, {k.full({1}, kSmallest), k.full({1}, 0x1p32)},
             [&](Index, std::vector<Tile> s) -> std::vector<Tile> {
               return {try_step(s[0], s[0] * s[1]), sqrt(s[1])};  // 2^32, 2^16, ..., 2
             });
  auto exact = k.loop(name + "_mantissa", 0, 23 * active, 1, {power[0], power[0] * 0.5},
                      [&](Index, std::vector<Tile> s) -> std::vector<Tile> {
                        return {try_step(s[0], s[0] + s[1]), s[1] * 0.5};
                      });
  return reduce_min(where_(le(exact[0], e), e, k.full({}, 1.0)));
}

// floor(whole * fraction / 2^30) for whole < 2^62 and 0 <= fraction <= 2^30, without overflow.
Tile scaled(const Tile& whole, const Tile& fraction) {
  Tile high = shr(whole, 30), low = bit_and(whole, static_cast<double>(kLowBits));
  return high * fraction + shr(low * fraction, 30);
}

class RowSampler {
 public:
  RowSampler(Kernel& k, const Index& row) : k_(k), row_(row) {
    x_ = k.load(k["logits"](row, all), "logits");                                   // [V]
    largest_ = reduce_max(x_);                                                      // [1]
    temperature_ = k.load(k["temperature"](row), "temperature");                    // rank 0
    e_ = exp((x_ - largest_) * recip(max(temperature_, kGreedyBelow))).named("e");  // [V], 0..1
  }

  void draw() {
    Prefix kept = after_top_k(min_p());
    Tile drawable = 0.0 < kept.mass;  // false for a NaN temperature
    if (k_.has("top_p")) kept = after_top_p(kept);
    Tile drawn = token_at(kept, scaled_by_random(kept.mass));
    Tile token = where_(temperature_ < kGreedyBelow, arg_max(x_), drawn);
    // NaN for a row that holds NaN or +inf, or nothing but -inf.
    Tile valid = logical_and(eq(largest_ - largest_, 0.0), drawable);
    k_.store(k_["out"](range(row_, 1)), where_(valid, token, k_.full({}, -1, DType::kI32)));
  }

 private:
  Tile mass_where(const Tile& predicate) const {
    return sum(where_(predicate, mass_of(e_), i64(k_, 0)));
  }

  // Lowest e that min-p admits; at most 1, so that the most probable token always stays. [1]
  Tile min_p() const {
    Tile none = k_.full({1}, kSmallest);
    return k_.has("min_p") ? max(none, min(k_.load(k_["min_p"](row_), "min_p"), 1.0)) : none;
  }

  Prefix after_top_k(const Tile& lowest) const {
    Tile limit = k_.index(k_.dim("V"));
    Tile threshold = lowest;
    if (k_.has("top_k")) {
      Index wanted = k_["top_k"].at(row_);
      Index active = Index(0) < wanted && wanted < k_.dim("V");
      limit = k_.index(select(active, wanted, k_.dim("V")));
      Tile kth = largest_threshold(k_, "top_k", e_, active, [&](const Tile& t) {
        return le(limit, count(le(t, e_)).to(DType::kI64));
      });
      threshold = max(threshold, kth);
    }
    // At most `limit` in all: those above the threshold, then ties while there is room.
    Tile room = limit - count(threshold < e_).to(DType::kI64);
    Tile ties = min(room, count(eq(e_, threshold)).to(DType::kI64));
    return {threshold, ties, mass_where(threshold < e_) + ties * mass_of(threshold)};
  }

  // The shortest prefix of `kept` whose mass reaches top_p of it.
  Prefix after_top_p(const Prefix& kept) const {
    Tile p = min(max(k_.load(k_["top_p"](row_), "top_p"), 0.0), 1.0);
    Tile wanted = max(scaled(kept.mass, (p * 0x1p30).to(DType::kI64)), 1.0);
    Tile nucleus = largest_threshold(
        k_, "top_p", e_, 1, [&](const Tile& t) { return le(wanted, mass_where(le(t, e_))); });
    Tile threshold = max(kept.threshold, nucleus);
    Tile above = mass_where(threshold < e_);
    Tile each = max(mass_of(threshold), 1.0);
    Tile ties = floor_div(wanted - above + each - 1.0, each);
    return {threshold, ties, above + ties * each};
  }

  // floor(mass * u) for a uniform u of 60 bits in [0, 1).
  Tile scaled_by_random(const Tile& mass) const {
    Tile seed = k_.load(k_["seed"](row_), "seed"), offset = k_.load(k_["offset"](row_), "offset");
    auto bits = [&](int word) {
      return shr(philox(k_.full({1}, word, DType::kI32), seed, offset).to(DType::kI64), 2);
    };
    Tile u_high = bits(0), u_low = bits(1);
    Tile high = shr(mass, 30), low = bit_and(mass, static_cast<double>(kLowBits));
    return high * u_high + shr(high * u_low + low * u_high + shr(low * u_low, 30), 30);
  }

  // The first token at which the running mass of the kept tokens, in order of their index, exceeds
  // `target`.
  Tile token_at(const Prefix& kept, const Tile& target) const {
    Tile tie = eq(e_, kept.threshold);
    Tile tie_rank = scan(ir::ReduceKind::kSum, tie.to(DType::kI32));  // [V], from 1
    Tile admitted = logical_and(tie, le(tie_rank, kept.ties.to(DType::kI32)));
    Tile mass = where_(logical_or(kept.threshold < e_, admitted), mass_of(e_), i64(k_, 0));
    return count(le(scan(ir::ReduceKind::kSum, mass), target));
  }

  Kernel& k_;
  Index row_;
  Tile x_, largest_, temperature_, e_;
};

void sample_rows(Kernel& k, const Config&) {
  k.tiles({"row", k.dim("B")}, [&](Index row) { RowSampler(k, row).draw(); });
}

}  // namespace

OpDef sample() {
  Expr B = Expr::sym("B"), V = Expr::sym("V");
  return OpDef("sampling", "sample",
               "draw a token from each row of logits, with temperature, min-p, top-k and top-p")
      .out({.name = "out",
            .shape = {B},
            .dtypes = {DType::kI32},
            .doc = "[B] token drawn; -1 for a row that holds NaN or +inf, or only -inf"})
      .in({.name = "logits",
           .shape = {B, V},
           .dtypes = kFloating,
           .doc = "[B, V]; -inf is never drawn"})
      .in({.name = "temperature",
           .shape = {B},
           .dtypes = {DType::kF32},
           .doc = "[B] divides the logits; below 1e-5: the largest logit, lowest index"})
      .in({.name = "top_k",
           .shape = {B},
           .dtypes = {DType::kI32},
           .optional = true,
           .doc = "[B] keep the k most probable; <= 0 or >= V: all"})
      .in({.name = "top_p",
           .shape = {B},
           .dtypes = {DType::kF32},
           .optional = true,
           .doc = "[B] keep the shortest prefix, by probability, of at least this share of what "
                  "top-k left; >= 1: all"})
      .in({.name = "min_p",
           .shape = {B},
           .dtypes = {DType::kF32},
           .optional = true,
           .doc = "[B] keep tokens at least this fraction as probable as the most probable one; 0: "
                  "all"})
      .in({.name = "seed", .shape = {B}, .dtypes = {DType::kI64}, .doc = "[B] the request's seed"})
      .in({.name = "offset",
           .shape = {B},
           .dtypes = {DType::kI64},
           .doc = "[B] the request's step; another offset gives an independent draw"})
      .needs(V >= 1, "nothing to draw from")
      .limit("V", int64_t{1} << 22)
      .source(
          "Holtzman et al. 2020, arXiv:1904.09751 (top-p); Nguyen et al. 2024, arXiv:2407.01082 "
          "(min-p); Salmon et "
          "al. 2011 (Philox)")
      .reference(sample_ref)
      .kernel({.name = "rows",
               .build = sample_rows,
               .schedule =
                   [](const Config& config, const Env& dims, const TargetInfo& target) {
                     if (target.gpu) return sm90_streamed(dims.at("V"), config.dtype("logits"));
                     return row_schedule({"e"});
                   }})
      .kernel(sample_raw_kernel())
      .cost([](const RefCall& call) {
        double rows = static_cast<double>(call.dim("B")),
               columns = static_cast<double>(call.dim("V"));
        double searches =
            (call.config.has("top_k") ? 29 : 0) + (call.config.has("top_p") ? 2 * 29 : 0);
        return Cost{.flops = (8 + searches) * rows * columns,
                    .bytes = bytes_of(call, "logits", rows * columns) + 36 * rows};
      })
      .tolerance([](const RefCall&) {
        return Tolerance{0, 0, 0,
                         "a token is right or wrong; the test inputs keep every decision further "
                         "from its boundary than "
                         "the error of exp in f32 (sample_ref.cc measures the distance)"};
      })
      .inputs(sample_inputs)
      .cases(R"(
        B=1 V=1 : smoke
        B=0 V=16 : smoke
        B=3 V=7 top_k=1 top_p=1 min_p=1 : smoke
        B=9 V=15 dtype=f16 top_k=1 : smoke
        B=20 V=33 dtype=f32 top_p=1 : smoke
        B=7 V=769 min_p=1 : smoke
        B=4 V=4097 dtype=f32 top_k=1 top_p=1 min_p=1 : smoke
        B=16 V=32000 top_k=1 top_p=1 : ci
        B=3 V=128256 dtype=f32 top_k=1 top_p=1 min_p=1 : ci
        B=1 V=128256 top_k=1 top_p=1 : llm
        B=16 V=128256 top_k=1 top_p=1 : llm
        B=16 V=151936 dtype=f32 top_p=1 : llm
        B=16 V=32000 : full
      )");
}

}  // namespace rooftile::ops
