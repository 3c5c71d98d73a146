// SPDX-License-Identifier: Apache-2.0
// Linear terms over atoms, the normal form of all that is asked.
//
// An atom stands for an integer: a symbol, a product of atoms, a quotient, min(t, 0), a conditional
// value, an element of an index tensor. Atoms are interned: what is written alike after
// normalisation is one atom, with one number. A term is a sum of atoms with constant coefficients,
// so a polynomial is a linear term over named products. Formulas are in negation normal form, with
// `term >= 0` and `term == 0` at the leaves.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rooftile/verify/arith/wide.h"

namespace rooftile::verify::arith {

using AtomId = int;

struct Term {
  std::vector<std::pair<AtomId, Wide>> parts;  // by atom, no coefficient is 0
  Wide constant = 0;

  Term() = default;
  Term(Wide c) : constant(c) {}  // NOLINT: implicit by intent
  static Term atom(AtomId id) {
    Term t;
    t.parts = {{id, 1}};
    return t;
  }
  bool is_const() const { return parts.empty(); }
  bool is_const(Wide v) const { return parts.empty() && constant == v; }
  Wide coefficient(AtomId id) const;
  bool operator==(const Term&) const = default;
};

Term operator+(const Term& a, const Term& b);
Term operator-(const Term& a, const Term& b);
Term operator-(const Term& a);
Term operator*(const Term& a, Wide factor);
Wide content(const Term& t);  // gcd of the coefficients, without the constant; 0: constant

enum class Relation : uint8_t { kGe, kEq };  // term >= 0, term == 0
struct Literal {
  Relation relation = Relation::kGe;
  Term term;
};

struct FormulaNode;
using Formula = std::shared_ptr<const FormulaNode>;
struct FormulaNode {
  enum class Kind : uint8_t { kTrue, kFalse, kLiteral, kAnd, kOr } kind = Kind::kTrue;
  Literal literal;
  std::vector<Formula> args;
};
Formula truth(bool value);
Formula at_least_zero(const Term& t);  // divided by its content, decided if constant
Formula is_zero(const Term& t);
Formula not_zero(const Term& t);
Formula all_of(std::vector<Formula> args);
Formula any_of(std::vector<Formula> args);
Formula negation(const Formula& f);
std::string key_of(const Formula& f);

struct Atom {
  enum class Kind : uint8_t { kSymbol, kProduct, kQuotient, kMin0, kSelect, kLoad } kind;
  std::string name;             // symbol, load: the tensor
  std::vector<AtomId> factors;  // product: sorted, at least two, none a product itself
  std::vector<Term> args;  // quotient: dividend, divisor; min0: t; select: value; load: indices
  Formula condition;       // select: `value` where it holds, else 0
};

class AtomTable {
 public:
  const Atom& operator[](AtomId id) const { return *atoms_[static_cast<size_t>(id)]; }
  int size() const { return static_cast<int>(atoms_.size()); }

  AtomId symbol(const std::string& name);
  AtomId load(const std::string& tensor, std::vector<Term> indices);
  AtomId product(std::vector<AtomId> factors);  // factors may be products; one factor: itself
  AtomId find_product(const std::vector<AtomId>& sorted_factors) const;  // -1: not met yet
  Term times(const Term& a, const Term& b);                              // multiplied out
  // floor(a / b): multiples of b are taken out first, so that the atom's dividend is reduced.
  Term quotient(const Term& a, const Term& b);
  Term minimum(const Term& a, const Term& b);
  Term maximum(const Term& a, const Term& b);
  Term select(const Formula& condition, const Term& then, const Term& otherwise);

  std::vector<AtomId> factors(AtomId id) const;  // of anything: itself, if it is no product
  bool is_product(AtomId id) const { return (*this)[id].kind == Atom::Kind::kProduct; }
  // Is `inner` part of what `id` is made from, or `id` itself?
  bool mentions(AtomId id, AtomId inner) const;
  // With `value` for every `symbol`, inside atoms too.
  Term replaced(const Term& t, AtomId symbol, const Term& value);
  Formula replaced(const Formula& f, AtomId symbol, const Term& value);

 private:
  AtomId intern(const std::string& key, Atom atom);
  Term quotient_by_constant(const Term& a, Wide c);

  std::vector<std::unique_ptr<Atom>> atoms_;
  std::map<std::string, AtomId> ids_;
  std::map<std::vector<AtomId>, AtomId> products_;
};

}  // namespace rooftile::verify::arith
