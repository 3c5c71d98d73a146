// SPDX-License-Identifier: Apache-2.0
// Cross-entropy of each row of logits with its target, with label smoothing and z-loss; losses are
// per row, the caller reduces them (and divides by the number of rows that were counted).
//
//   loss = (1 - label_smoothing) * (lse - z[target]) + label_smoothing * (lse - mean z) + z_loss *
//   lse^2
//
// One online pass over blocks of the vocabulary carries the maximum m and s = sum exp(z - m). Every
// difference is taken relative to m before lse is formed: lse - z loses all digits when the logits
// are large (pytorch#38839).
#include <limits>

#include "rooftile/ops/loss/cross_entropy/cross_entropy_raw.h"
#include "rooftile/ops/numerics.h"
#include "rooftile/ops/strips_sm90.h"

namespace rooftile::ops {

using namespace dsl;

void cross_entropy_ref(RefCall& call);

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int64_t kBlock = 4096;

// x, with -inf replaced by 0: what may be subtracted from -inf.
Tile finite_or_zero(const Tile& x) {
  return where_(eq(x, -kInfinity), x.kernel()->full({}, 0.0), x);
}

// lse = maximum + log_sum; mean z = origin + mean_distance. All [1].
struct RowSums {
  Tile maximum, log_sum, origin, mean_distance;
};

RowSums walk_row(Kernel& k, const Tensor& logits, const Index& row) {
  Index V = k.dim("V"), BV = k.tile_param("BV");
  // Distances from the row's first logit, so that their sum is exact enough for rows far from zero.
  Tile origin = finite_or_zero(k.load(logits(row, range(0, 1)), "origin").to(DType::kF32));
  auto carried = k.loop("v", 0, V, BV, {k.full({1}, -kInfinity), k.zeros({1}), k.zeros({1})},
                        [&](Index v, std::vector<Tile> state) {
                          Tile m = state[0], s = state[1], d = state[2];
                          Tile z = k.load(logits(row, range(v, min(BV, V - v))), "z");  // [BV]
                          Tile next_m = max(m, reduce_max(z));
                          // A block that is all -inf, at the start of a row, has maximum -inf: its
                          // terms are exp(-inf - 0) = 0.
                          Tile base = finite_or_zero(next_m);
                          Tile next_s = s * exp(m - base) + sum(exp(z - base));
                          return std::vector<Tile>{next_m, next_s, d + sum(z - origin)};
                        });
  Tile count = k.index(V).to(DType::kF32);
  return {carried[0], log(carried[1]), origin, carried[2] / count};
}

// The loss of a row whose target is column `target`. [1]
Tile row_loss(Kernel& k, const RowSums& r, const Index& row, const Index& target) {
  Tile smoothing = k.scalar("label_smoothing"), z_loss = k.scalar("z_loss");
  Tile z_target = k.load(k["logits"](row, range(target, 1)), "z_target");
  Tile lse = r.maximum + r.log_sum;
  Tile hard = r.log_sum - (z_target - r.maximum);
  Tile soft = r.log_sum - ((r.origin - r.maximum) + r.mean_distance);
  // Terms that are off must not turn the infinity of a masked vocabulary into NaN: 0 * inf.
  Tile none = k.full({}, 0.0);
  return (1.0 - smoothing) * hard + where_(0.0 < smoothing, smoothing * soft, none) +
         where_(0.0 < z_loss, z_loss * (lse * lse), none);
}

void cross_entropy_rows(Kernel& k, const Config& config) {
  k.tiles({"row", k.dim("T")}, [&](Index row) {
    Index target = k["targets"].at(row);
    Index counted = target != k.int_attr("ignore_index");
    Range here = range(row, 1);
    if (config.has("lse")) {
      RowSums r = walk_row(k, k["logits"], row);
      k.store(k["lse"](here), r.maximum + r.log_sum);
      Tile loss = row_loss(k, r, row, select(counted, target, 0));
      k.store(k["loss"](here), where_(eq(k.index(counted), 1.0), loss, k.zeros({1})));
    } else {
      k.when(counted, [&] {
        k.store(k["loss"](here), row_loss(k, walk_row(k, k["logits"], row), row, target));
      });
      k.when(!counted, [&] { k.store(k["loss"](here), k.zeros({1})); });
    }
  });
}

// Largest distance between two finite logits of the call.
double logit_spread(const NdArray& logits) {
  double lo = kInfinity, hi = -kInfinity;
  for (double z : logits.data) {
    if (!std::isfinite(z)) continue;
    lo = std::min(lo, z);
    hi = std::max(hi, z);
  }
  return hi > lo ? hi - lo : 0;
}

Tolerance cross_entropy_tolerance(const RefCall& call) {
  const double blocks = static_cast<double>(call.dim("V")) / kBlock + 1;
  const double chain = sum_chain(std::min<int64_t>(call.dim("V"), kBlock)) + 8 * blocks;
  const double lse = call.has("lse") ? max_abs(call["lse"]) : max_abs(call["logits"]) + 32;
  const double terms = chain + 16 + 6 * logit_spread(call["logits"]);
  double abs =
      kF32Roundoff * (terms + call.attr("z_loss") * (2 * lse * (terms + 2 * lse) + 3 * lse * lse));
  if (call.attr("label_smoothing") > 0) abs += kF32Roundoff * chain * logit_spread(call["logits"]);
  return {abs, 4 * kF32Roundoff, 0,
          "f32 throughout: the sum of exponentials errs by one block's additions (4096/8 + 8) and "
          "eight roundings a block, "
          "exp and log by 2 ulp, the differences from the maximum and the target by 6 roundings of "
          "the spread of the "
          "logits; z-loss doubles the error of lse times lse; the mean errs by the same additions "
          "times the spread"};
}

constexpr int64_t kManyRows = 1 << 16;  // the shape of a CTA does not depend on how many there are

// A block is held between its two passes: its maximum, then its sums.
Schedule sm90_blocks(const Config& config, const Env& dims) {
  const DType dtype = config.dtype("logits");
  Schedule schedule = sm90_rows(kManyRows, std::min(dims.at("V"), kBlock), dtype);
  schedule.tile["BV"] = kBlock;
  const int64_t vectors = kBlock * size_bytes(dtype) / 16;
  schedule.gpu.strips.held_vectors =
      static_cast<int>((vectors + schedule.gpu.strips.threads - 1) / schedule.gpu.strips.threads);
  if (schedule.gpu.strips.held_vectors > 4) schedule.gpu.strips.held_vectors = 0;
  return schedule;
}

}  // namespace

OpDef cross_entropy() {
  Expr T = Expr::sym("T"), V = Expr::sym("V");
  return OpDef("loss", "cross_entropy",
               "negative log-likelihood of a target under the softmax of each row")
      .out({.name = "loss",
            .shape = {T},
            .dtypes = {DType::kF32},
            .doc = "[T] loss of each row, not reduced; 0 where the target is ignore_index, NaN "
                   "where a row is all -inf or "
                   "holds NaN"})
      .out(
          {.name = "lse",
           .shape = {T},
           .dtypes = {DType::kF32},
           .optional = true,
           .doc =
               "[T] natural log-sum-exp of every row, ignored ones too: for the backward pass, and "
               "to join the parts of a vocabulary split over ranks"})
      .in({.name = "logits",
           .shape = {T, V},
           .dtypes = kFloating,
           .doc = "[T, V]; -inf has probability 0"})
      .in({.name = "targets",
           .shape = {T},
           .dtypes = {DType::kI32},
           .doc = "[T] a column, or ignore_index"})
      .int_attr({.name = "ignore_index",
                 .is_float = false,
                 .default_value = -100,
                 .doc = "the target of rows that do not count"})
      .attr({.name = "label_smoothing",
             .default_value = 0,
             .min = 0,
             .max = 0.999,
             .has_range = true,
             .doc = "share of the uniform distribution in the target"})
      .attr({.name = "z_loss",
             .default_value = 0,
             .min = 0,
             .max = 1e6,
             .has_range = true,
             .doc = "factor of lse^2, which keeps the logits near zero"})
      .needs(V >= 1, "a row needs at least one logit")
      .limit("V", (int64_t{1} << 31) - 1)
      .index_range_or("targets", 0, V, Expr::sym("ignore_index"),
                      "a target is a column of the logits, or ignore_index")
      .source(
          "torch.nn.functional.cross_entropy; online pass: Milakov and Gimelshein 2018, "
          "arXiv:1805.02867; z-loss: "
          "Chowdhery et al. 2022, arXiv:2204.02311, section 5")
      .reference(cross_entropy_ref)
      .kernel({.name = "rows",
               .build = cross_entropy_rows,
               .schedule =
                   [](const Config& config, const Env& dims, const TargetInfo& target) {
                     if (target.gpu) return sm90_blocks(config, dims);
                     Schedule schedule = row_schedule();
                     schedule.tile["BV"] =
                         kBlock;  // read twice a block: 16 KB of f32 stay in the first cache
                     return schedule;
                   }})
      .kernel(cross_entropy_raw_kernel())
      .cost([](const RefCall& call) {
        double elements = static_cast<double>(call.dim("T")) * static_cast<double>(call.dim("V"));
        double outputs = (call.config.has("lse") ? 8.0 : 4.0) * static_cast<double>(call.dim("T"));
        return Cost{.flops = 6 * elements,
                    .bytes = bytes_of(call, "logits", elements) +
                             4 * static_cast<double>(call.dim("T")) + outputs};
      })
      .tolerance(cross_entropy_tolerance)
      .cases(R"(
        T=1 V=1 : smoke
        T=0 V=16 : smoke
        T=3 V=7 lse=1 : smoke
        T=9 V=15 dtype=f16 label_smoothing=0.1 : smoke
        T=20 V=33 dtype=f32 lse=1 z_loss=0.0001 : smoke
        T=7 V=769 dtype=f32 label_smoothing=0.2 z_loss=0.01 lse=1 : smoke
        T=4 V=4096 : smoke
        T=3 V=4097 dtype=f32 lse=1 : smoke
        T=5 V=8200 ignore_index=3 : smoke
        T=16 V=32000 lse=1 : ci
        T=9 V=50257 dtype=f16 label_smoothing=0.1 : ci
        T=3 V=128256 dtype=f32 z_loss=0.0001 lse=1 : ci
        T=512 V=32000 : llm
        T=256 V=128256 lse=1 : llm
        T=128 V=128256 dtype=f32 : llm
        T=64 V=151936 : full
      )");
}

}  // namespace rooftile::ops
