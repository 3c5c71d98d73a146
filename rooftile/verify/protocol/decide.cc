// SPDX-License-Identifier: Apache-2.0
// Decisions: what is known of a condition.
//
// A condition's key is its term. Two warps share an answer only if their terms are one term, which
// has one value in any launch; so what is shared is right, and what is forgotten is asked anew,
// which admits more runs than there are and never fewer.
#include <algorithm>
#include <cstdlib>

#include "rooftile/verify/protocol/machine.h"

namespace rooftile::verify::protocol {

using lanes::Fn;

namespace {

constexpr int kLongestChase = 5;  // of conclusions in a row

}  // namespace

// ---- what is known

void Machine::add_fact(AtomId id, bool yes) {
  const Atom& a = terms_.atom(id);
  if (a.kind != AtomKind::kPositive) return;
  const ValueId v = a.args[0];
  facts_.emplace_back(yes ? v : terms_.add(terms_.constant(-1), v, -1), id);
}

void Machine::used(AtomId decision) {
  if (decision == kNoAtom) return;
  const Warp& warp = s_->warps[static_cast<size_t>(running_)];
  const int pc = warp.pc;
  if (users_[decision].insert({running_, pc}).second) ++discoveries_;
  if (terms_.atom(decision).newest_step != kNoAtom) return;
  const auto outer = std::find_if(warp.frames.begin(), warp.frames.end(),
                                  [](const Frame& f) { return f.kind == Frame::kUndecided; });
  const int round = outer != warp.frames.end() && outer->loop >= 0 && outer->index == 0
                        ? signature(outer->loop)
                        : -1;
  const auto [it, is_new] = first_rounds_.emplace(decision, round);
  if (is_new || it->second == round || it->second == -1) return;
  it->second = -1;
  ++discoveries_;
}

// Bounds that do not show here might with what has been forgotten: the next run keeps it.
void Machine::want_facts(int w) {
  if (wants_facts_.insert(s_->warps[static_cast<size_t>(w)].pc).second) ++discoveries_;
}

// v >= 0, from facts f >= 0: v - f >= 0 settles it, or what can be chased from them.
Machine::Truth Machine::implied(ValueId v) {
  const auto [known, is_new] =
      now_->implied.try_emplace(v, Truth::kUndecided, std::vector<AtomId>());
  auto& [truth, by] = known->second;
  if (is_new) {
    const ValueId negated = terms_.add(terms_.constant(-1), v, -1);
    for (const auto& [f, decision] : facts_) {
      const bool yes = terms_.bounds(terms_.add(v, f, -1)).lo >= 0;
      if (!yes && terms_.bounds(terms_.add(negated, f, -1)).lo < 0) continue;
      truth = yes ? Truth::kYes : Truth::kNo;
      by = {decision};
      break;
    }
    if (truth == Truth::kUndecided) {
      if (Least least = at_least(v, kLongestChase); least.bound >= 0) {
        truth = Truth::kYes;
        by = std::move(least.by);
      } else if (least = at_least(negated, kLongestChase); least.bound >= 0) {
        truth = Truth::kNo;
        by = std::move(least.by);
      }
    }
  }
  for (const AtomId decision : by) used(decision);
  return truth;
}

Machine::Truth Machine::truth(ValueId condition) {
  const Value& v = terms_.value(condition);
  if (v.sum == kNoSum) return v.lane[0] != 0 ? Truth::kYes : Truth::kNo;
  const Coefficients& sum = terms_.sum(v.sum);
  if (sum.size() != 1 || !terms_.uniform(condition))
    throw Refusal{"a condition that is no truth value"};
  const Truth t = atom_truth(sum[0].first);
  if (t == Truth::kUndecided) return t;
  return sum[0].second * (t == Truth::kYes ? 1 : 0) + v.lane[0] != 0 ? Truth::kYes : Truth::kNo;
}

Machine::Truth Machine::atom_truth(AtomId id) {
  const Atom& a = terms_.atom(id);
  if (a.kind == AtomKind::kFn && a.fn == Fn::kLogicalAnd) {
    const Truth p = truth(a.args[0]);
    if (p == Truth::kNo) return p;
    const Request first = request_;
    const Truth q = truth(a.args[1]);
    if (q == Truth::kNo) return q;
    if (p == Truth::kYes) return q;
    request_ = first;
    return Truth::kUndecided;
  }
  for (const auto& [atom, yes] : s_->decided)
    if (atom == id) {
      used(id);
      return yes ? Truth::kYes : Truth::kNo;
    }
  if (a.kind == AtomKind::kPositive)
    if (const Truth t = implied(a.args[0]); t != Truth::kUndecided) return t;
  request_.leaf = id;
  return Truth::kUndecided;
}

// ---- bounds

// At least what? A fact f >= 0 may be taken from a value (k f, k > 0, where that cancels an atom);
// a minimum is at most each arm and at least the lesser; a quotient lies within its divisor of what
// is divided. Each of these leaves a simpler value, and all are tried, so many in a row.
Machine::Least Machine::at_least(ValueId v, int steps) {
  // Steps multiply coefficients: beyond this, the next could wrap.
  constexpr int64_t kLargest = int64_t{1} << 31;
  if (terms_.value(v).sum != kNoSum)
    for (const auto& [id, by] : terms_.sum(terms_.value(v).sum))
      if (by > kLargest || by < -kLargest) return {-kOpen, {}};
  Least best{terms_.bounds(v).lo, {}};
  if (steps == 0 || terms_.value(v).sum == kNoSum) return best;
  const auto [known, is_new] = now_->least.try_emplace({v, steps}, best);
  if (!is_new) return known->second;
  const auto better = [&](Least found) {
    if (found.bound > best.bound) best = std::move(found);
  };
  const Coefficients sum = terms_.sum(terms_.value(v).sum);
  for (const auto& [id, by] : sum) {
    if (terms_.atom(id).kind != AtomKind::kFn) continue;
    const Fn fn = terms_.atom(id).fn;
    const std::vector<ValueId> args = terms_.atom(id).args;
    const ValueId rest = terms_.add(v, terms_.of_atom(id), -by);
    const auto with = [&](ValueId arm, int64_t times) {
      return at_least(terms_.add(rest, arm, times), steps - 1);
    };
    if (fn == Fn::kMin || fn == Fn::kMax) {
      Least p = with(args[0], by), q = with(args[1], by);
      if ((fn == Fn::kMin) != (by > 0)) {
        better(std::move(p));
        better(std::move(q));
        continue;
      }
      p.by.insert(p.by.end(), q.by.begin(), q.by.end());
      p.bound = std::min(p.bound, q.bound);
      better(std::move(p));
    } else if (fn == Fn::kFloorDiv && terms_.known(args[1])) {
      const int64_t d = terms_.value(args[1]).lane[0];
      if (d <= 0 || by % d != 0) continue;
      // d q <= x and x - (d - 1) <= d q
      better(with(by < 0 ? args[0] : terms_.add(args[0], terms_.constant(1 - d)), by / d));
    }
  }
  for (size_t i = 0; i < facts_.size(); ++i) {
    const auto [f, decision] = facts_[i];
    for (const auto& [id, has] : Coefficients(terms_.sum(terms_.value(f).sum))) {
      const auto mine = std::find_if(
          sum.begin(), sum.end(), [&, atom = id](const auto& term) { return term.first == atom; });
      if (mine == sum.end() || mine->second % has != 0 || mine->second / has <= 0) continue;
      Least found = at_least(terms_.add(v, f, -(mine->second / has)), steps - 1);
      found.by.push_back(decision);
      better(std::move(found));
    }
  }
  return now_->least[{v, steps}] = std::move(best);
}

// Of what all lanes have in common; which decisions say so is told once an operation.
const Machine::Common& Machine::common_bounds(SumId sum) {
  const auto [known, is_new] = now_->common.try_emplace(sum);
  Common& common = known->second;
  if (is_new) {
    const ValueId v = terms_.of_sum(sum, 0);
    Least lo = at_least(v, kLongestChase), hi = at_least(terms_.scaled(v, -1), kLongestChase);
    common.bounds = {std::max(lo.bound, -kOpen), hi.bound > -kOpen ? -hi.bound : kOpen};
    common.by = std::move(lo.by);
    common.by.insert(common.by.end(), hi.by.begin(), hi.by.end());
  }
  const auto here = std::pair(running_, s_->warps[static_cast<size_t>(running_)].pc);
  if (common.told != here)
    for (const AtomId decision : common.by) used(decision);
  common.told = here;
  return common;
}

Interval Machine::known_bounds(ValueId id, int lane) {
  Interval out = terms_.bounds(id, lane);
  const Value& v = terms_.value(id);
  if (v.sum == kNoSum) return out;
  const int64_t c = v.lane[static_cast<size_t>(lane)];
  const Interval& common = common_bounds(v.sum).bounds;
  if (common.lo > -kOpen) out.lo = std::max(out.lo, common.lo + c);
  if (common.hi < kOpen) out.hi = std::min(out.hi, common.hi + c);
  return out;
}

}  // namespace rooftile::verify::protocol
