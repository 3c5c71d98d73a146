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
    } else {
      IndexFacts rest = clause.facts;
      rest.has_range = false;
      arithmetic_.assume(rest);
    }
  for (const Expr& fact : contract.facts) assume(fact);
  // Again: what a fact says of a symbol may bound another.
  for (const Expr& fact : contract.facts) symbols_.assume(fact);
}

void Questions::push() {
  scopes_.push_back({facts_.size(), {}, {}});
  symbols_.push();
  arithmetic_.push();
}

void Questions::pop() {
  const Scope& scope = scopes_.back();
  facts_.resize(scope.facts);
  for (const std::string& name : scope.declared) declared_.erase(name);
  for (const std::string& goal : scope.proved) proved_.erase(goal);
  scopes_.pop_back();
  symbols_.pop();
  arithmetic_.pop();
}

void Questions::assume(const Expr& fact) {
  if (fact.kind() == K::kAnd) {
    assume(fact.args()[0]);
    assume(fact.args()[1]);
    return;
  }
  facts_.push_back(fact);
  if (scopes_.size() == 1) divides_.assume(fact);
  symbols_.assume(fact);
  tell(fact);
}

void Questions::tell(const Expr& fact) {
  declare(fact);
  arithmetic_.assume(fact);
}

// ---- symbols and elements of tensors -----------------------------------------------------------

void Questions::declare(const Expr& e) {
  for (const std::string& name : symbols_of(e)) {
    if (!declared_.insert(name).second) continue;
    scopes_.back().declared.push_back(name);
    const Symbol* symbol = symbols_.find(name);
    if (symbol == nullptr) continue;
    const Expr s = Expr::sym(name);
    if (symbol->range.lo != kNoLeast) arithmetic_.assume(s >= Expr(symbol->range.lo));
    if (symbol->range.hi != kNoMost) arithmetic_.assume(s <= Expr(symbol->range.hi));
    for (const Expr& fact : symbol->facts) tell(fact);
  }
  std::vector<Expr> loads;
  collect_loads(e, loads);
  for (const Expr& load : loads) {
    const std::string key = load.str();
    if (!declared_.insert(key).second) continue;
    scopes_.back().declared.push_back(key);
    if (const auto it = loads_.find(key); it != loads_.end()) {
      if (it->second.lo != kNoLeast) arithmetic_.assume(load >= Expr(it->second.lo));
      if (it->second.hi != kNoMost) arithmetic_.assume(load <= Expr(it->second.hi));
    }
    const Expr clause = clause_of(load);
    if (!clause.is_const()) tell(clause);
  }
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
    if (clause.facts.tensor != load.name() || !clause.facts.has_range) continue;
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
  if (goal.is_const() && goal.value() != 0) return {Verdict::kProved, Prover::kConstant, {}, {}};
  if (symbols_.dead() || symbols_.range(goal).lo == 1)
    return {Verdict::kProved, Prover::kInterval, {}, {}};
  const std::string key = goal.str();
  if (proved_.count(key) != 0) return {Verdict::kProved, Prover::kInterval, {}, {}};
  declare(goal);
  Answer answer = arithmetic_.prove(goal);
  if (answer.verdict != Verdict::kProved)
    if (Answer all = enumerate(goal); all.verdict == Verdict::kProved) answer = std::move(all);
  if (answer.verdict == Verdict::kProved) {
    proved_.insert(key);
    scopes_.back().proved.push_back(key);
  }
  return answer;
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
