// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/arith/normalise.h"

namespace rooftile::verify::arith {
namespace {

using K = ExprKind;

bool is_truth_kind(K kind) {
  switch (kind) {
    case K::kLt:
    case K::kLe:
    case K::kEq:
    case K::kNe:
    case K::kAnd:
    case K::kOr:
    case K::kNot:
      return true;
    default:
      return false;
  }
}

}  // namespace

Term Normaliser::term(const Expr& e) {
  if (e.is_const()) return Term(e.value());
  if (auto it = terms_.find(e.node()); it != terms_.end()) return it->second;
  Term t = make_term(e);
  kept_.push_back(e);
  terms_.emplace(e.node(), t);
  return t;
}

Formula Normaliser::formula(const Expr& e) {
  if (auto it = formulas_.find(e.node()); it != formulas_.end()) return it->second;
  Formula f = make_formula(e);
  kept_.push_back(e);
  formulas_.emplace(e.node(), f);
  return f;
}

Term Normaliser::make_term(const Expr& e) {
  const auto& args = e.args();
  if (is_truth_kind(e.kind())) return atoms_.select(formula(e), 1, 0);
  switch (e.kind()) {
    case K::kSym: {
      const AtomId id = atoms_.symbol(e.name());
      auto it = value_of_.find(id);
      return it == value_of_.end() ? Term::atom(id) : it->second;
    }
    case K::kIndexLoad: {
      std::vector<Term> indices;
      for (const Expr& arg : args) indices.push_back(term(arg));
      return Term::atom(atoms_.load(e.name(), std::move(indices)));
    }
    case K::kSelect:
      return atoms_.select(formula(args[0]), term(args[1]), term(args[2]));
    default:
      break;
  }
  const Term a = term(args[0]), b = term(args[1]);
  switch (e.kind()) {
    case K::kAdd:
      return a + b;
    case K::kSub:
      return a - b;
    case K::kMul:
      return atoms_.times(a, b);
    case K::kMin:
      return atoms_.minimum(a, b);
    case K::kMax:
      return atoms_.maximum(a, b);
    default:
      break;
  }
  const Term q = atoms_.quotient(a, b);
  return e.kind() == K::kFloorDiv ? q : a - atoms_.times(q, b);
}

Formula Normaliser::make_formula(const Expr& e) {
  const auto& args = e.args();
  switch (e.kind()) {
    case K::kLt:
      return at_least_zero(term(args[1]) - term(args[0]) - 1);
    case K::kLe:
      return at_least_zero(term(args[1]) - term(args[0]));
    case K::kEq:
      return is_zero(term(args[0]) - term(args[1]));
    case K::kNe:
      return not_zero(term(args[0]) - term(args[1]));
    case K::kAnd:
      return all_of({formula(args[0]), formula(args[1])});
    case K::kOr:
      return any_of({formula(args[0]), formula(args[1])});
    case K::kNot:
      return negation(formula(args[0]));
    case K::kSelect: {
      const Formula c = formula(args[0]);
      return any_of({all_of({c, formula(args[1])}), all_of({negation(c), formula(args[2])})});
    }
    default:
      return not_zero(term(e));
  }
}

bool Normaliser::learn(const Expr& fact) {
  if (fact.kind() == K::kAnd) {
    const bool first = learn(fact.args()[0]);
    return learn(fact.args()[1]) || first;
  }
  if (fact.kind() != K::kEq) return false;
  const Expr &a = fact.args()[0], &b = fact.args()[1];
  if (a.kind() == K::kMod && a.args()[1].is_const() && a.args()[1].value() > 0 && b.is_const())
    return learn_divisible(a.args()[0], a.args()[1].value(), b.value());
  return learn_equal(term(a) - term(b));
}

// dividend % divisor == remainder
bool Normaliser::learn_divisible(const Expr& dividend, Wide divisor, Wide remainder) {
  if (remainder < 0 || remainder >= divisor) return false;
  const Term t = term(dividend) - remainder;
  if (t.parts.size() == 1 && t.constant == 0) {  // a s = 0 mod c: s = 0 mod c / gcd(a, c)
    const auto [id, a] = t.parts[0];
    if (atoms_[id].kind != Atom::Kind::kSymbol) return false;
    divisor /= gcd(a, divisor);
    if (divisor == 1) return false;
    const Term part = Term::atom(atoms_.symbol(atoms_[id].name + "/" + to_string(divisor)));
    return define(id, part * divisor);
  }
  for (const auto& [id, a] : t.parts) {
    if ((a != 1 && a != -1) || atoms_[id].kind != Atom::Kind::kSymbol) continue;
    const Term rest = t - Term::atom(id) * a;
    bool inside = false;
    for (const auto& part : rest.parts) inside |= atoms_.mentions(part.first, id);
    if (inside) continue;
    const Term multiple =
        Term::atom(atoms_.symbol("(" + dividend.str() + ")/" + to_string(divisor))) * divisor;
    return define(id, a == 1 ? multiple - rest : rest - multiple);
  }
  return false;
}

bool Normaliser::learn_equal(const Term& zero) {
  for (auto it = zero.parts.rbegin(); it != zero.parts.rend(); ++it) {
    const auto& [id, a] = *it;
    if ((a != 1 && a != -1) || atoms_[id].kind != Atom::Kind::kSymbol) continue;
    const Term rest = zero - Term::atom(id) * a;
    bool inside = false;
    for (const auto& part : rest.parts) inside |= atoms_.mentions(part.first, id);
    if (!inside) return define(id, a == 1 ? -rest : rest);
  }
  return false;
}

bool Normaliser::define(AtomId symbol, const Term& value) {
  for (auto& [other, term] : value_of_) term = atoms_.replaced(term, symbol, value);
  value_of_.emplace(symbol, value);
  drop_translations();
  return true;
}

void Normaliser::drop_translations() {
  terms_.clear();
  formulas_.clear();
  kept_.clear();
}

void Normaliser::forget_definitions() {
  value_of_.clear();
  drop_translations();
}

}  // namespace rooftile::verify::arith
