// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/tile/disjoint.h"

#include <algorithm>

#include "rooftile/verify/tile/linear.h"

namespace rooftile::verify {
namespace {

// The symbols that an access brings along, besides dims and attributes.
std::set<std::string> own_symbols(const Access& access) {
  std::set<std::string> out;
  for (const std::vector<AxisWalk>* walks :
       {&access.scope.tiles, &access.scope.loops, &access.positions})
    for (const AxisWalk& walk : *walks) out.insert(walk.var);
  for (const Lookup& lookup : access.scope.lookups)
    for (const auto& [from, to] : lookup.renamed) out.insert(to.name());
  return out;
}

struct Equation {
  Expr left, right;  // an index of the first access, of the second
};

class TwoInstances {
 public:
  TwoInstances(Reasoner& reasoner, const Access& a, const Access& b)
      : reasoner_(reasoner), own_(own_symbols(a)) {
    for (const std::string& symbol : own_symbols(b)) {
      other_.insert(symbol + kOther);
      renamed_.emplace(symbol, Expr::sym(symbol + kOther));
    }
    facts_ = facts_of(a);
    for (const Expr& fact : facts_of(b)) facts_.push_back(substitute(fact, renamed_));
    for (size_t d = 0; d < a.index.size(); ++d)
      equations_.push_back({a.index[d], substitute(b.index[d], renamed_)});
    for (const AxisWalk& walk : a.scope.tiles) unknown_.push_back(walk.var);
    // Who stored an element looked up is worth knowing first: the rest follows from it.
    for (const Lookup& lookup : a.scope.lookups)
      for (const std::string& owner : lookup.owners)
        if (renamed_.count(owner) > 0) helpers_.push_back(owner);
  }

  // Indices of the parallel space that have not been shown equal.
  const std::vector<std::string>& deduce() {
    for (bool more = true; more && !unknown_.empty();) {
      more = undo_division() || undo_distinct();
      for (std::vector<std::string>* list : {&unknown_, &helpers_})
        for (size_t i = 0; i < list->size(); ++i)
          if (by_lemma((*list)[i])) {
            list->erase(list->begin() + static_cast<std::ptrdiff_t>(i));
            more = true;
            break;
          }
      if (more) continue;
      for (std::vector<std::string>* list : {&helpers_, &unknown_})
        for (size_t i = 0; i < list->size() && !more; ++i)
          if (by_arithmetic((*list)[i])) {
            list->erase(list->begin() + static_cast<std::ptrdiff_t>(i));
            more = true;
          }
    }
    return unknown_;
  }

  std::vector<Expr> all_facts() const {
    std::vector<Expr> out = facts_;
    for (const Equation& e : equations_) out.push_back(e.left == e.right);
    return out;
  }

 private:
  // x is the same in both instances from here on.
  void equal(const std::string& x) {
    const Substitution same = {{x + kOther, Expr::sym(x)}};
    for (Expr& fact : facts_) fact = substitute(fact, same);
    for (Equation& e : equations_) e.right = substitute(e.right, same);
    own_.erase(x);
    other_.erase(x + kOther);
  }

  bool is_common(const Expr& e) const { return !mentions_any(e, own_) && !mentions_any(e, other_); }

  // The terms that differ between the instances, of one side of an equation.
  Expr varying(const Expr& e) const {
    Expr out = 0;
    for (const Expr& term : sum_terms(e))
      if (!is_common(term)) out = out + term;
    return out;
  }
  std::vector<std::string> common(const Expr& e) const {
    std::vector<std::string> out;
    for (const Expr& term : sum_terms(e))
      if (is_common(term)) out.push_back(term.str());
    std::sort(out.begin(), out.end());
    return out;
  }

  bool by_lemma(const std::string& x) {
    for (Equation& e : equations_) {
      const std::optional<Split> left = split(e.left, x), right = split(e.right, x + kOther);
      if (!left || !right || left->coefficient.is_const(0) || !is_common(left->coefficient) ||
          !left->coefficient.same_as(right->coefficient) ||
          common(left->rest) != common(right->rest))
        continue;
      const Expr r = varying(left->rest), s = varying(right->rest);
      if (mentions_any(r, {helpers_.begin(), helpers_.end()})) continue;
      for (const Expr& a : {left->coefficient, Expr(0) - left->coefficient}) {
        if (!less(Expr(0), a) || !at_least_zero(r) || !at_least_zero(s) || !less(r, a) ||
            !less(s, a))
          continue;
        e = {r, s};
        equal(x);
        return true;
      }
    }
    return false;
  }
  bool less(const Expr& x, const Expr& y) { return reasoner_.proves(facts_, x < y); }
  bool at_least_zero(const Expr& x) {
    return x.is_const(0) || reasoner_.proves(facts_, Expr(0) <= x);
  }

  bool by_arithmetic(const std::string& x) {
    if (!reasoner_.proves(all_facts(), Expr::sym(x) == Expr::sym(x + kOther))) return false;
    equal(x);
    return true;
  }

  // x / d = y / d and x % d = y % d give x = y.
  bool undo_division() {
    for (size_t i = 0; i < equations_.size(); ++i)
      for (size_t j = 0; j < equations_.size(); ++j) {
        const Equation &q = equations_[i], &r = equations_[j];
        auto matches = [](const Expr& quotient, const Expr& remainder) {
          return quotient.kind() == ExprKind::kFloorDiv && remainder.kind() == ExprKind::kMod &&
                 quotient.args()[0].same_as(remainder.args()[0]) &&
                 quotient.args()[1].same_as(remainder.args()[1]);
        };
        if (!matches(q.left, r.left) || !matches(q.right, r.right) ||
            !q.left.args()[1].same_as(q.right.args()[1]))
          continue;
        const Equation whole = {q.left.args()[0], q.right.args()[0]};
        equations_[i] = whole;
        equations_[j] = {0, 0};
        return true;
      }
    return false;
  }

  // t[i] = t[j] gives i = j where the elements of t differ.
  bool undo_distinct() {
    for (Equation& e : equations_) {
      if (e.left.kind() != ExprKind::kIndexLoad || e.right.kind() != ExprKind::kIndexLoad ||
          e.left.name() != e.right.name() || e.left.args().size() != 1 ||
          !reasoner_.distinct(e.left, facts_))
        continue;
      e = {e.left.args()[0], e.right.args()[0]};
      return true;
    }
    return false;
  }

  Reasoner& reasoner_;
  std::set<std::string> own_, other_;
  Substitution renamed_;
  std::vector<Expr> facts_;
  std::vector<Equation> equations_;
  std::vector<std::string> unknown_, helpers_;
};

std::string unknown_index(const Access& a, const Access& b) {
  return a.unknown.empty() ? b.unknown : a.unknown;
}

}  // namespace

Meeting meet_only_in_one_instance(Reasoner& reasoner, const Access& a, const Access& b) {
  if (!unknown_index(a, b).empty()) return {Verdict::kUnknown, {}, unknown_index(a, b)};
  TwoInstances pair(reasoner, a, b);
  const std::vector<std::string>& left = pair.deduce();
  if (left.empty()) return {Verdict::kProved, {}, ""};
  Expr equal = 1;
  for (const std::string& var : left) {
    const Expr same = Expr::sym(var) == Expr::sym(var + kOther);
    equal = equal.is_const(1) ? same : equal && same;
  }
  const Answer answer = reasoner.prove(pair.all_facts(), equal);
  return {answer.verdict, answer.model, answer.reason};
}

Meeting never_meet(Reasoner& reasoner, const Access& a, const Access& b) {
  if (!unknown_index(a, b).empty()) return {Verdict::kUnknown, {}, unknown_index(a, b)};
  TwoInstances pair(reasoner, a, b);
  const Answer answer = reasoner.prove(pair.all_facts(), Expr(0));
  return {answer.verdict, answer.model, answer.reason};
}

}  // namespace rooftile::verify
