// SPDX-License-Identifier: Apache-2.0
// Expr to terms and formulas.
//
// Symbols that a fact defines are replaced while translating: after `K % 8 == 0`, K is 8 K' with a
// symbol K' of its own, so that K / 8 is K' and what is asked stays linear; after `M == n * BM`
// every M is that product. Expressions are graphs with shared parts: each part is translated once.
#pragma once

#include <map>
#include <unordered_map>
#include <vector>

#include "rooftile/base/expr.h"
#include "rooftile/verify/arith/terms.h"

namespace rooftile::verify::arith {

class Normaliser {
 public:
  explicit Normaliser(AtomTable& atoms) : atoms_(atoms) {}

  Term term(const Expr& e);
  Formula formula(const Expr& e);  // e != 0

  // Looks for a symbol that `fact` defines. True: it is replaced from now on, and whatever has been
  // translated before must be translated again.
  bool learn(const Expr& fact);
  void forget_definitions();

 private:
  Term make_term(const Expr& e);
  Formula make_formula(const Expr& e);
  bool define(AtomId symbol, const Term& value);
  void drop_translations();
  bool learn_divisible(const Expr& dividend, Wide divisor, Wide remainder);
  bool learn_equal(const Term& zero);

  AtomTable& atoms_;
  std::map<AtomId, Term> value_of_;  // of defined symbols; no value mentions one
  std::unordered_map<const ExprNode*, Term> terms_;
  std::unordered_map<const ExprNode*, Formula> formulas_;
  std::vector<Expr> kept_;  // so that no node's address is used again
};

}  // namespace rooftile::verify::arith
