// SPDX-License-Identifier: Apache-2.0
#include "rooftile/ops/attention/attention_program.h"

#include <limits>

namespace rooftile::ops {

using dsl::Kernel;
using dsl::Tile;

namespace {
constexpr double kInf = std::numeric_limits<double>::infinity();
}  // namespace

std::vector<Tile> empty_state(Kernel& k, const Expr& rows, const Expr& depth) {
  return {k.zeros({rows, depth}), k.full({rows, 1}, -kInf), k.zeros({rows, 1})};
}

Tile logits(Kernel& k, const Config& config, const Tile& qk) {
  if (config.flag("softcap_on") == 0) return qk * (k.scalar("scale") * kLog2E);
  Tile cap = k.scalar("softcap");
  return tanh(qk * (k.scalar("scale") / cap)) * (cap * kLog2E);
}

Tile finite_base(const Tile& m) { return where_(eq(m, -kInf), m.kernel()->zeros({}), m); }

std::vector<Tile> softmax_step(const std::vector<Tile>& state, const Tile& scores, const Tile& v) {
  const Tile &o = state[0], &m = state[1], &l = state[2];
  Tile m_next = max(m, reduce_max(scores, 1));              // [rows, 1]
  Tile base = finite_base(m_next);                          // [rows, 1]
  Tile p = exp2(scores - base).named("p");                  // [rows, keys]
  Tile shrink = exp2(m - base);                             // [rows, 1]
  Tile o_next = mma(p.to(v.dtype()), v, o * shrink, "pv");  // [rows, D]
  return {o_next, m_next, l * shrink + sum(p, 1)};
}

Tile normalizer(Kernel& k, const Config& config, const Tile& m, const Tile& l, const Tile& sink) {
  Tile whole = sink.valid() ? l + exp2(sink * kLog2E - finite_base(m)) : l;
  Tile inverse = where_(eq(l, 0.0), k.zeros({}), recip(whole));
  if (config.flag("softcap_on") != 0) return inverse;
  Tile nan = k.full({}, std::numeric_limits<double>::quiet_NaN());
  return where_(eq(k.scalar("softcap"), 0.0), inverse, nan);
}

Tile log_sum_exp(const Tile& m, const Tile& l) {
  Tile none = m.kernel()->full({}, -kInf);
  return where_(eq(l, 0.0), none, (m + log2(l)) * kLn2);
}

Expr left_reach() {
  const Expr window = Expr::sym("window_left");
  return select(window < Expr(0), Expr(kMaxWindow), window);
}

Expr right_reach(const Config& config) {
  if (config.flag("causal") != 0) return 0;
  const Expr window = Expr::sym("window_right");
  return select(window < Expr(0), Expr(kMaxWindow), window);
}

Expr group_size() { return Expr::sym("Hq") / max(Expr::sym("Hkv"), Expr(1)); }

void declare_logits(OpDef& op) {
  const Expr Hq = Expr::sym("Hq"), Hkv = Expr::sym("Hkv"), D = Expr::sym("D");
  op.in({.name = "sink",
         .shape = {Hq},
         .dtypes = {DType::kF32},
         .optional = true,
         .doc = "a logit per head, in scaled units, that joins the softmax without a value; the "
                "LSE leaves it out"})
      .attr({.name = "scale",
             .default_value = 0.08838834764831845,
             .doc = "factor of q k^T, usually D^-1/2 (pass it: the default is that of D = 128)"})
      .attr({.name = "softcap",
             .default_value = 0,
             .min = 0,
             .max = 1e30,
             .has_range = true,
             .doc = "c > 0: logits become c tanh(logit / c); needs softcap_on. Positive without "
                    "it gives NaN, never an uncapped result"})
      .flag("softcap_on", false, "code with the soft cap; softcap must then be positive")
      .needs(select(Hkv == Expr(0), Hq == Expr(0), Hq % max(Hkv, Expr(1)) == Expr(0)),
             "every KV head serves the same number of query heads")
      .needs(D >= Expr(1), "a head needs at least one element")
      .limit("D", int64_t{1} << 16)
      .limit("Hq", int64_t{1} << 20);  // heads times sequences are counted
}

}  // namespace rooftile::ops
