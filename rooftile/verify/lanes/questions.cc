// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/lanes/questions.h"

#include <algorithm>

#include "rooftile/verify/lanes/tape.h"

namespace rooftile::verify {

using K = ExprKind;

namespace {

constexpr int64_t kMostPoints = 1 << 19;  // of an enumeration

void collect_loads(const Expr& e, std::vector<Expr>& out) {
  if (e.kind() == K::kIndexLoad) out.push_back(e);
  for (const Expr& arg : e.args()) collect_loads(arg, out);
}

}  // namespace

Questions::Questions(const lanes::Program& kernel, const LaneContract& contract)
    : contract_(contract) {
  std::set<std::string> names;
  for (const lanes::TensorUse& tensor : kernel.tensors)
    for (const Expr& extent : tensor.shape) collect_symbols(extent, names);
  for (const std::string& dim : names)
    symbols_.add(dim, {.kind = SymbolKind::kCall, .range = {0, kNoMost}});
  for (const lanes::ScalarUse& scalar : kernel.scalars) {
    if (scalar.type == lanes::Ty::kF32 || symbols_.find(scalar.name) != nullptr) continue;
    const bool stride = scalar.name.find('.') != std::string::npos;
    symbols_.add(scalar.name,
                 {.kind = SymbolKind::kCall, .range = {stride ? 0 : kNoLeast, kNoMost}});
  }
  for (const Expr& fact : contract.facts)
    for (const std::string& name : symbols_of(fact))
      if (symbols_.find(name) == nullptr)
        symbols_.add(name, {.kind = SymbolKind::kCall, .range = {}});
  for (const IndexClause& clause : contract.index)
    if (!clause.has_except && clause.used.empty()) {
      arithmetic_.assume(clause.facts);
      solver_.assume(clause.facts);
    } else {
      IndexFacts rest = clause.facts;
      rest.has_range = false;
      arithmetic_.assume(rest);
      solver_.assume(rest);
    }
  for (const Expr& fact : contract.facts) assume(fact, FactKind::kDomain);
  contract_facts_ = facts_.size();
  // Again: what a fact says of a symbol may bound another.
  for (const Expr& fact : contract.facts) symbols_.assume(fact);
}

void Questions::push() {
  scopes_.push_back({facts_.size(), {}, {}});
  symbols_.push();
  decoding_.push();
  arithmetic_.push();
  solver_.push();
}

void Questions::pop() {
  const Scope& scope = scopes_.back();
  facts_.resize(scope.facts);
  kinds_.resize(scope.facts);
  for (const std::string& name : scope.declared) declared_.erase(name);
  for (const std::string& goal : scope.proved) proved_.erase(goal);
  scopes_.pop_back();
  symbols_.pop();
  decoding_.pop();
  arithmetic_.pop();
  solver_.pop();
}

void Questions::assume(const Expr& fact, FactKind kind) {
  if (fact.kind() == K::kAnd) {
    assume(fact.args()[0], kind);
    assume(fact.args()[1], kind);
    return;
  }
  facts_.push_back(fact);
  kinds_.push_back(kind);
  if (scopes_.size() == 1) divides_.assume(fact);
  symbols_.assume(fact);
  decoding_.assume(fact);
  tell(fact);
}

void Questions::tell(const Expr& fact) {
  declare(fact);
  learn(fact);
}

void Questions::learn(const Expr& fact) {
  arithmetic_.assume(fact);
  solver_.assume(fact);
}

// ---- symbols and elements of tensors -----------------------------------------------------------

void Questions::declare(const Expr& e) {
  for (const std::string& name : symbols_of(e)) {
    if (!declared_.insert(name).second) continue;
    scopes_.back().declared.push_back(name);
    const Symbol* symbol = symbols_.find(name);
    if (symbol == nullptr) continue;
    const Expr s = Expr::sym(name);
    if (symbol->range.lo != kNoLeast) learn(s >= Expr(symbol->range.lo));
    if (symbol->range.hi != kNoMost) learn(s <= Expr(symbol->range.hi));
    for (const Expr& fact : symbol->facts) tell(fact);
  }
  std::vector<Expr> loads;
  collect_loads(e, loads);
  for (const Expr& load : loads) {
    const std::string key = load.str();
    if (!declared_.insert(key).second) continue;
    scopes_.back().declared.push_back(key);
    if (const auto it = loads_.find(key); it != loads_.end()) {
      if (it->second.lo != kNoLeast) learn(load >= Expr(it->second.lo));
      if (it->second.hi != kNoMost) learn(load <= Expr(it->second.hi));
    }
    const Expr clause = clause_of(load);
    if (!clause.is_const()) tell(clause);
  }
}

bool Questions::describes(const std::string& tensor) const {
  return std::any_of(contract_.index.begin(), contract_.index.end(),
                     [&](const IndexClause& clause) {
                       return clause.facts.tensor == tensor || clause.used == tensor;
                     });
}

Expr Questions::load(const std::string& tensor, std::vector<Expr> at, Interval of_type) {
  Expr e = Expr::index_load(tensor, std::move(at));
  loads_.emplace(e.str(), of_type);
  return e;
}

// What the contract says of this element, where Arithmetic is not told of the whole tensor.
Expr Questions::clause_of(const Expr& load) const {
  Expr all = 1;
  for (const IndexClause& clause : contract_.index) {
    if (clause.facts.tensor != load.name()) continue;
    std::map<std::string, Expr, std::less<>> element = {{"value", load}};
    for (size_t d = 0; d < load.args().size(); ++d)
      element.emplace("at." + std::to_string(d), load.args()[d]);
    for (const Expr& fact : clause.each) all = all && substitute(fact, element);
    if (!clause.facts.has_range) continue;
    if (!clause.has_except && clause.used.empty()) continue;
    Expr holds = clause.facts.lo <= load && load < clause.facts.hi;
    if (clause.has_except) holds = holds || load == clause.except;
    if (!clause.used.empty()) {
      const Expr used = Expr::index_load(clause.used, {load.args().front()});
      holds = !(load.args().back() < ceil_div(used, clause.used_unit)) || holds;
    }
    all = all && holds;
  }
  return all;
}

// ---- proofs ------------------------------------------------------------------------------------

Answer Questions::prove(const Expr& goal) {
  if (goal.kind() == K::kAnd) {
    Answer first = prove(goal.args()[0]);
    if (first.verdict != Verdict::kProved) return first;
    Answer second = prove(goal.args()[1]);
    if (second.verdict == Verdict::kProved) second.prover = std::max(first.prover, second.prover);
    return second;
  }
  Answer answer = by_parts(goal);
  if (answer.verdict != Verdict::kProved) answer = cheap(goal);
  // A model may be wrong about bitwise operations, of which Arithmetic knows bounds alone.
  if (answer.verdict != Verdict::kProved)
    if (Answer all = enumerate(goal); all.verdict == Verdict::kProved) answer = std::move(all);
  if (answer.verdict == Verdict::kUnknown) {
    answer = solver_.prove(goal);
  }
  if (answer.verdict == Verdict::kProved) {
    const std::string key = goal.str();
    if (proved_.insert(key).second) scopes_.back().proved.push_back(key);
  }
  return answer;
}

Answer Questions::cheap(const Expr& goal) {
  if (goal.is_const() && goal.value() != 0) return {Verdict::kProved, Prover::kConstant, {}, {}};
  if (symbols_.dead() || symbols_.range(goal).lo == 1 || proved_.count(goal.str()) != 0)
    return {Verdict::kProved, Prover::kInterval, {}, {}};
  declare(goal);
  return arithmetic_.prove(goal);
}

namespace {

bool has_product(const Expr& e) {
  if (e.kind() == K::kMul && !e.args()[1].is_const()) return true;
  return std::any_of(e.args().begin(), e.args().end(), has_product);
}

}  // namespace

// What a product of unknowns is in the way of: c <= e from the signs of the parts of e, and bounds
// from the constant bounds of a factor.
Answer Questions::by_parts(const Expr& goal) {
  const Answer proved{Verdict::kProved, Prover::kInterval, {}, {}};
  const Answer undecided{Verdict::kUnknown, Prover::kNone, {}, "not decided by parts"};
  if ((goal.kind() != K::kLe && goal.kind() != K::kLt) || !has_product(goal)) return undecided;
  const Expr &low = goal.args()[0], &high = goal.args()[1];
  if (goal.kind() == K::kLe && low.is_const() && low.value() <= 0 && not_negative(high))
    return proved;
  const Expr linear = Expr::make(goal.kind(), {relaxed(low, true), relaxed(high, false)});
  return !linear.same_as(goal) && cheap(linear).verdict == Verdict::kProved ? proved : undecided;
}

// At least e (up) or at most e, with a constant in the place of a factor that has bounds: x y is
// within [lo y, hi y] for x in [lo, hi] and y >= 0.
Expr Questions::relaxed(const Expr& e, bool up) {
  const std::vector<Expr>& a = e.args();
  switch (e.kind()) {
    case K::kAdd:
      return relaxed(a[0], up) + relaxed(a[1], up);
    case K::kSub:
      return relaxed(a[0], up) - relaxed(a[1], !up);
    case K::kMul:
      if (a[1].is_const())
        return a[1].value() >= 0 ? relaxed(a[0], up) * a[1] : relaxed(a[0], !up) * a[1];
      for (const auto& [x, y] : {std::pair(a[0], a[1]), std::pair(a[1], a[0])}) {
        const Interval range = symbols_.range(x);
        if (!range.within({0, INT32_MAX}) || !not_negative(y)) continue;
        return Expr(up ? range.hi : range.lo) * relaxed(y, up);
      }
      return e;
    default:
      return e;
  }
}

bool Questions::not_negative(const Expr& e) {
  if (cheap(Expr(0) <= e).verdict == Verdict::kProved) return true;
  const std::vector<Expr>& a = e.args();
  switch (e.kind()) {
    case K::kAdd:
    case K::kMul:
    case K::kMin:
      return not_negative(a[0]) && not_negative(a[1]);
    case K::kMax:
      return not_negative(a[0]) || not_negative(a[1]);
    case K::kFloorDiv:
      return cheap(Expr(1) <= a[1]).verdict == Verdict::kProved && not_negative(a[0]);
    case K::kMod:
      return cheap(Expr(1) <= a[1]).verdict == Verdict::kProved;
    default:
      return false;
  }
}

// Every value of the symbols that take part, where those are few; facts over other symbols are
// left out, which only adds points.
Answer Questions::enumerate(const Expr& goal) {
  Answer unknown;
  unknown.reason = "too many points to look at";
  const std::set<std::string> names = symbols_.closure(goal);
  Tape tape(symbols_);
  const int result = tape.add(goal);
  std::vector<int> conditions;
  for (const Expr& fact : facts_) {
    const std::set<std::string> needs = symbols_.closure(fact);
    if (!needs.empty() && std::includes(names.begin(), names.end(), needs.begin(), needs.end()))
      conditions.push_back(tape.add(fact));
  }
  struct Axis {
    int slot;
    Interval range;
  };
  std::vector<Axis> axes;
  int64_t points = 1;
  for (const auto& [name, slot] : tape.inputs()) {
    const Symbol* symbol = symbols_.find(name);
    if (symbol == nullptr || !symbol->range.bounded()) return unknown;
    axes.push_back({slot, symbol->range});
    const int64_t count = symbol->range.hi - symbol->range.lo + 1;
    if (count <= 0) return {Verdict::kProved, Prover::kInterval, {}, {}};
    if (count > kMostPoints || points > kMostPoints / count) return unknown;
    points *= count;
  }
  for (const Axis& axis : axes) tape.set(axis.slot, axis.range.lo);
  std::vector<int64_t> at;
  for (const Axis& axis : axes) at.push_back(axis.range.lo);
  for (int64_t point = 0; point < points; ++point) {
    const bool defined = tape.run();
    const bool there = std::all_of(conditions.begin(), conditions.end(),
                                   [&](int slot) { return tape.value(slot) != 0; });
    if (!defined || (there && tape.value(result) == 0)) {
      unknown.reason = "breaks at a point of the enumeration";
      return unknown;
    }
    for (size_t i = 0; i < axes.size(); ++i) {
      if (++at[i] > axes[i].range.hi) at[i] = axes[i].range.lo;
      tape.set(axes[i].slot, at[i]);
      if (at[i] != axes[i].range.lo) break;
    }
  }
  return {Verdict::kProved, Prover::kEnumeration, {}, {}};
}

}  // namespace rooftile::verify
