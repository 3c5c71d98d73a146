// SPDX-License-Identifier: Apache-2.0
// Is there a rational point that meets linear constraints? The general simplex method of
// Dutertre and de Moura (CAV 2006): each linear form is a row with a bound, bounds are added one
// by one, pivots repair the point. Exact, small, deterministic (Bland's rule).
//
// All variables stand for integers and all forms have coprime integer coefficients, so bounds are
// integers too. A value type: a branch of the search copies it.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "rooftile/verify/arith/terms.h"

namespace rooftile::verify::arith {

class Simplex {
 public:
  // False: contradicts the bounds so far (a shortcut: check() decides).
  bool assert_literal(const Literal& literal);
  void introduce(AtomId id) { variable_of(id); }  // an atom that alternatives may constrain later
  enum class Status { kPoint, kEmpty, kLimit };
  // `work` counts down by what pivots cost; below 0: kLimit.
  Status check(int64_t& work);
  int64_t size() const { return static_cast<int64_t>(rows_.size() * columns_.size()); }

  // Valid after kPoint. Atoms never met have the value 0.
  Rational value(AtomId id) const;
  Rational value(const Term& t) const;
  struct Bounds {
    std::optional<Wide> lo, hi;
  };
  Bounds bounds(AtomId id) const;  // as asserted on the atom alone
  bool knows(AtomId id) const { return of_atom_.count(id) != 0; }
  // In order of first appearance.
  const std::vector<AtomId>& atoms() const { return atoms_; }

 private:
  struct Variable {
    Bounds bounds;
    Rational value;
    int row = -1;     // basic: its row
    int column = -1;  // else: its column
  };
  struct Row {
    int basic = 0;
    std::vector<Rational> coefficients;  // by column; missing ones are 0
  };

  int variable_of(AtomId id);
  int variable_of(const Term& form);
  bool bound_below(int v, Wide bound);
  bool bound_above(int v, Wide bound);
  void move_nonbasic(int v, const Rational& to);
  void pivot(int row, int column, int64_t& work);
  bool violates_low(const Variable& v) const {
    return v.bounds.lo && v.value < Rational(*v.bounds.lo);
  }
  bool violates_high(const Variable& v) const {
    return v.bounds.hi && Rational(*v.bounds.hi) < v.value;
  }

  bool empty_ = false;
  std::vector<AtomId> atoms_;
  std::map<AtomId, int> of_atom_;
  std::map<std::vector<std::pair<AtomId, Wide>>, int> of_form_;
  std::vector<Variable> variables_;
  std::vector<Row> rows_;
  std::vector<int> columns_;  // the nonbasic variable of each
};

}  // namespace rooftile::verify::arith
