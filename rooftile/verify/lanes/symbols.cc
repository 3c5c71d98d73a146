// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/lanes/symbols.h"

#include <utility>

namespace rooftile::verify {

using K = ExprKind;

Expr Symbols::add(const std::string& hint, Symbol symbol) {
  std::string name = hint;
  while (symbols_.count(name) != 0) name = hint + "." + std::to_string(++counts_[hint]);
  symbols_.emplace(name, std::move(symbol));
  return Expr::sym(name);
}

const Symbol* Symbols::find(const std::string& name) const {
  const auto it = symbols_.find(name);
  return it == symbols_.end() ? nullptr : &it->second;
}

void Symbols::push() {
  undo_.emplace_back();
  was_dead_.push_back(dead_);
}

void Symbols::pop() {
  if (!undo_.back().empty()) known_.clear();
  for (auto saved = undo_.back().rbegin(); saved != undo_.back().rend(); ++saved)
    symbols_.at(saved->name).range = saved->range;
  undo_.pop_back();
  dead_ = was_dead_.back();
  was_dead_.pop_back();
}

// ---- bounds ------------------------------------------------------------------------------------

Interval Symbols::range(const Expr& e) {
  if (e.is_const()) return Interval::point(e.value());
  if (const auto it = known_.find(e.node()); it != known_.end()) return it->second.range;
  const Interval result = compute(e);
  known_.emplace(e.node(), Known{e, result});
  return result;
}

Interval Symbols::compute(const Expr& e) {
  const std::vector<Expr>& a = e.args();
  const auto at = [&](size_t i) { return range(a[i]); };
  switch (e.kind()) {
    case K::kConst:
      return Interval::point(e.value());
    case K::kSym: {
      const Symbol* symbol = find(e.name());
      return symbol == nullptr ? Interval() : symbol->range;
    }
    case K::kAdd:
      return at(0) + at(1);
    case K::kSub:
      return at(0) - at(1);
    case K::kMul:
      return at(0) * at(1);
    case K::kFloorDiv:
      return floor_div(at(0), at(1));
    case K::kMod:
      return floor_mod(at(0), at(1));
    case K::kMin: {
      const Interval x = at(0), y = at(1);
      return {std::min(x.lo, y.lo), std::min(x.hi, y.hi)};
    }
    case K::kMax: {
      const Interval x = at(0), y = at(1);
      return {std::max(x.lo, y.lo), std::max(x.hi, y.hi)};
    }
    case K::kSelect: {
      const Interval condition = at(0);
      if (condition.lo == 1) return at(1);
      if (condition.hi == 0) return at(2);
      return hull(at(1), at(2));
    }
    case K::kLt: {
      const Interval x = at(0), y = at(1);
      return x.hi < y.lo ? Interval{1, 1} : x.lo >= y.hi ? Interval{0, 0} : Interval{0, 1};
    }
    case K::kLe: {
      const Interval x = at(0), y = at(1);
      return x.hi <= y.lo ? Interval{1, 1} : x.lo > y.hi ? Interval{0, 0} : Interval{0, 1};
    }
    case K::kEq:
    case K::kNe: {
      const Interval x = at(0), y = at(1);
      const bool apart = x.hi < y.lo || y.hi < x.lo;
      const bool same = x.lo == x.hi && x == y;
      if (!apart && !same) return {0, 1};
      return Interval::point(same == (e.kind() == K::kEq) ? 1 : 0);
    }
    case K::kAnd: {
      const Interval x = at(0), y = at(1);
      return {x.lo == 1 && y.lo == 1 ? 1 : 0, x.hi == 0 || y.hi == 0 ? 0 : 1};
    }
    case K::kOr: {
      const Interval x = at(0), y = at(1);
      return {x.lo == 1 || y.lo == 1 ? 1 : 0, x.hi == 0 && y.hi == 0 ? 0 : 1};
    }
    case K::kNot: {
      const Interval x = at(0);
      return {x.hi == 0 ? 1 : 0, x.lo == 1 ? 0 : 1};
    }
    case K::kIndexLoad:
      return {};
  }
  return {};
}

// ---- what conditions say -----------------------------------------------------------------------

void Symbols::assume(const Expr& condition) {
  const std::vector<Expr>& a = condition.args();
  switch (condition.kind()) {
    case K::kConst:
      dead_ |= condition.value() == 0;
      return;
    case K::kAnd:
      assume(a[0]);
      assume(a[1]);
      return;
    case K::kNot:
      switch (a[0].kind()) {
        case K::kLt:
          return compare(K::kLe, a[0].args()[1], a[0].args()[0]);
        case K::kLe:
          return compare(K::kLt, a[0].args()[1], a[0].args()[0]);
        case K::kNe:
          return compare(K::kEq, a[0].args()[0], a[0].args()[1]);
        case K::kOr:
          assume(!a[0].args()[0]);
          assume(!a[0].args()[1]);
          return;
        case K::kEq:
          return compare(K::kNe, a[0].args()[0], a[0].args()[1]);
        default:
          return narrow(a[0], {0, 0});
      }
    case K::kLt:
    case K::kLe:
    case K::kEq:
    case K::kNe:
      return compare(condition.kind(), a[0], a[1]);
    default:
      if (range(condition).lo >= 0) narrow(condition, {1, kNoMost});
  }
}

void Symbols::compare(K kind, const Expr& a, const Expr& b) {
  const Interval x = range(a), y = range(b);
  const auto below = [](int64_t v) { return v == kNoMost || v == kNoLeast ? v : v - 1; };
  const auto above = [](int64_t v) { return v == kNoMost || v == kNoLeast ? v : v + 1; };
  switch (kind) {
    case K::kLt:
      narrow(a, {kNoLeast, below(y.hi)});
      narrow(b, {above(x.lo), kNoMost});
      return;
    case K::kLe:
      narrow(a, {kNoLeast, y.hi});
      narrow(b, {x.lo, kNoMost});
      return;
    case K::kEq:
      narrow(a, y);
      narrow(b, x);
      return;
    default:  // kNe: an end of an interval may fall
      if (y.lo == y.hi && x.lo == y.lo) narrow(a, {above(x.lo), kNoMost});
      if (y.lo == y.hi && x.hi == y.lo) narrow(a, {kNoLeast, below(x.hi)});
      if (x.lo == x.hi && y.lo == x.lo) narrow(b, {above(y.lo), kNoMost});
      if (x.lo == x.hi && y.hi == x.lo) narrow(b, {kNoLeast, below(y.hi)});
  }
}

// `e` lies within `to`: so do, turned around, the parts that it is made of.
void Symbols::narrow(const Expr& e, const Interval& to) {
  const std::vector<Expr>& a = e.args();
  const Interval now = range(e);
  if (now.within(to)) return;
  if (meet(now, to).empty()) {
    dead_ = true;
    return;
  }
  switch (e.kind()) {
    case K::kSym: {
      const auto it = symbols_.find(e.name());
      if (it == symbols_.end()) return;
      if (!undo_.empty()) undo_.back().push_back({e.name(), it->second.range});
      it->second.range = meet(it->second.range, to);
      known_.clear();
      return;
    }
    case K::kAdd:
      narrow(a[0], to - range(a[1]));
      narrow(a[1], to - range(a[0]));
      return;
    case K::kSub:
      narrow(a[0], to + range(a[1]));
      narrow(a[1], range(a[0]) - to);
      return;
    case K::kMul: {
      if (!a[1].is_const() || a[1].value() <= 0) return;
      const int64_t c = a[1].value();
      const Interval by = Interval::point(c);
      Interval quotient = floor_div(to, by);
      if (to.lo != kNoLeast)
        quotient.lo = floor_div(Interval::point(to.lo) + Interval::point(c - 1), by).lo;
      narrow(a[0], quotient);
      return;
    }
    case K::kFloorDiv: {
      if (!a[1].is_const() || a[1].value() <= 0) return;
      const Interval scaled = to * Interval::point(a[1].value());
      narrow(a[0],
             {scaled.lo, (Interval::point(scaled.hi) + Interval::point(a[1].value() - 1)).hi});
      return;
    }
    case K::kMin:
      narrow(a[0], {to.lo, kNoMost});
      narrow(a[1], {to.lo, kNoMost});
      return;
    case K::kMax:
      narrow(a[0], {kNoLeast, to.hi});
      narrow(a[1], {kNoLeast, to.hi});
      return;
    default:
      return;
  }
}

// ---- where values come from --------------------------------------------------------------------

std::set<std::string> Symbols::closure(const Expr& e) const {
  std::set<std::string> out = symbols_of(e);
  std::vector<std::string> open(out.begin(), out.end());
  while (!open.empty()) {
    const Symbol* symbol = find(open.back());
    open.pop_back();
    if (symbol == nullptr || symbol->kind != SymbolKind::kDefined) continue;
    for (const Expr& part : {symbol->a, symbol->b})
      for (const std::string& name : symbols_of(part))
        if (out.insert(name).second) open.push_back(name);
  }
  return out;
}

bool Symbols::is_data(const Expr& e) {
  for (const std::string& name : symbols_of(e))
    if (const Symbol* symbol = find(name); symbol != nullptr && symbol->data) return true;
  return false;
}

bool Symbols::is_estimate(const Expr& e) {
  for (const std::string& name : closure(e))
    if (const Symbol* symbol = find(name);
        symbol != nullptr && symbol->kind == SymbolKind::kChanged)
      return true;
  return false;
}

}  // namespace rooftile::verify
