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
  if (users_[decision].insert({running_, pc}).second) discovered_ = true;
  if (terms_.atom(decision).newest_step != kNoAtom) return;
  const auto outer = std::find_if(warp.frames.begin(), warp.frames.end(),
                                  [](const Frame& f) { return f.kind == Frame::kUndecided; });
  const int round = outer != warp.frames.end() && outer->loop >= 0 && outer->index == 0
                        ? signature(outer->loop)
                        : -1;
  const auto [it, is_new] = first_rounds_.emplace(decision, round);
  if (is_new || it->second == round || it->second == -1) return;
  it->second = -1;
  discovered_ = true;
}

// v >= 0, from facts f >= 0: v - f >= 0 settles it.
Machine::Truth Machine::implied(ValueId v) {
  const ValueId negated = terms_.add(terms_.constant(-1), v, -1);
  for (const auto& [f, decision] : facts_) {
    const bool yes = terms_.bounds(terms_.add(v, f, -1)).lo >= 0;
    if (!yes && terms_.bounds(terms_.add(negated, f, -1)).lo < 0) continue;
    used(decision);
    return yes ? Truth::kYes : Truth::kNo;
  }
  return Truth::kUndecided;
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

Interval Machine::known_bounds(ValueId id, int lane) {
  Interval out = terms_.bounds(id, lane);
  const Value v = terms_.value(id);
  const Coefficients& sum = terms_.sum(v.sum);
  if (sum.size() == 1 && std::abs(sum[0].second) == 1) {  // c +- min(a, b)
    const Atom& a = terms_.atom(sum[0].first);
    if (a.kind == AtomKind::kFn && (a.fn == Fn::kMin || a.fn == Fn::kMax)) {
      const Interval p = known_bounds(a.args[0], 0), q = known_bounds(a.args[1], 0);
      const bool least = a.fn == Fn::kMin;
      Interval i = least ? Interval{std::min(p.lo, q.lo), std::min(p.hi, q.hi)}
                         : Interval{std::max(p.lo, q.lo), std::max(p.hi, q.hi)};
      if (sum[0].second < 0) i = {-i.hi, -i.lo};
      const int64_t c = v.lane[static_cast<size_t>(lane)];
      if (i.lo > -kOpen) out.lo = std::max(out.lo, i.lo + c);
      if (i.hi < kOpen) out.hi = std::min(out.hi, i.hi + c);
    }
  }
  for (const auto& [f, decision] : facts_) {
    out.lo = std::max(out.lo, terms_.bounds(terms_.add(id, f, -1), lane).lo);
    out.hi = std::min(out.hi, terms_.bounds(terms_.add(id, f), lane).hi);
  }
  return out;
}

}  // namespace rooftile::verify::protocol
