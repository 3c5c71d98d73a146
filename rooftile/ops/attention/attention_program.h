// SPDX-License-Identifier: Apache-2.0
// The parts that the attention operators have in common: one step of the online softmax, the logit
// transformation, the heads' contract.
//
// Scores are kept in units of log2, so that every exponential is one exp2. The state of a row is
// the unnormalised output o, the largest score so far m, and the sum of exponentials l. A row that
// has seen no key has m = -inf, l = 0, and ends as o = 0 with LSE -inf.
#pragma once

#include <string>
#include <vector>

#include "rooftile/ops/op_def.h"

namespace rooftile::ops {

// Positions and windows are compared as i32: a position plus or minus a window must fit.
inline constexpr int64_t kMaxTokens = int64_t{1} << 29;
inline constexpr int64_t kMaxWindow = int64_t{1} << 30;

inline constexpr double kLog2E = 1.44269504088896340736;
inline constexpr double kLn2 = 0.69314718055994530942;

// o [rows, D], m [rows, 1], l [rows, 1], all f32, for no keys yet.
std::vector<dsl::Tile> empty_state(dsl::Kernel& k, const Expr& rows, const Expr& depth);

// Logits from q k^T: scale, soft cap, change of base.
dsl::Tile logits(dsl::Kernel& k, const Config& config, const dsl::Tile& qk);

// m with 0 in place of -inf: what exponents are taken relative to, so that -inf - -inf never
// occurs.
dsl::Tile finite_base(const dsl::Tile& m);

// The state after the keys with these logits [rows, keys] and values v [keys, D]. Labels "p" and
// "pv".
std::vector<dsl::Tile> softmax_step(const std::vector<dsl::Tile>& state, const dsl::Tile& scores,
                                    const dsl::Tile& v);

// 1 / (l + e^sink), 0 for rows without a key. NaN if a soft cap was passed to code without one:
// never a silently uncapped result. `sink` is in natural units and may be invalid (absent).
dsl::Tile normalizer(dsl::Kernel& k, const Config& config, const dsl::Tile& m, const dsl::Tile& l,
                     const dsl::Tile& sink);

// Natural-log LSE without the sink; -inf for rows without a key.
dsl::Tile log_sum_exp(const dsl::Tile& m, const dsl::Tile& l);

// The window as distances: how far left and right of its own position a query sees. Unbounded (-1)
// is kMaxWindow, which is beyond every key.
Expr left_reach();
Expr right_reach(const Config& config);  // 0 under `causal`

// Query heads that share a KV head, Hq / Hkv; 1 without heads.
Expr group_size();

// scale, softcap and its flag, sink, and the rule on the heads.
void declare_logits(OpDef& op);

}  // namespace rooftile::ops
