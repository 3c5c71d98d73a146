// SPDX-License-Identifier: Apache-2.0
// What is true of atoms because of what they stand for.
//
// Defining axioms say what a quotient, a minimum, a conditional value or an element of an index
// tensor is, and are added with the atom. Lemmas are instances that a point at hand contradicts: of
// products (a fact times a factor of known sign; the order of a k and b k), of quotients by related
// divisors, of pairs of elements. Only what is contradicted is added, so linear reasoning stays
// small.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "rooftile/verify/arith/simplex.h"
#include "rooftile/verify/arith/terms.h"

namespace rooftile::verify::arith {

// IndexFacts in normal form.
struct LoadFacts {
  bool has_range = false;
  Term lo, hi;  // lo <= element < hi
  bool non_decreasing = false, distinct = false;
};
using Model = std::map<AtomId, Wide>;  // a value for every atom

using LoadFactsOf = std::map<std::string, LoadFacts>;

std::vector<Formula> defining_axioms(AtomTable& atoms, AtomId id, const LoadFactsOf& loads);

// A point to contradict: that of a simplex, or one from elsewhere beside the simplex's bounds.
struct Point {
  const Simplex& lp;
  const Model* values = nullptr;

  Point(const Simplex& s, const Model* v = nullptr) : lp(s), values(v) {}  // NOLINT: implicit
  bool knows(AtomId id) const { return values ? values->count(id) != 0 : lp.knows(id); }
  Rational value(AtomId id) const;
  Rational value(const Term& t) const;
  Simplex::Bounds bounds(AtomId id) const { return lp.bounds(id); }
  std::vector<AtomId> atoms() const;
};

// Facts (of `literals`) times factors whose sign is known, that the point contradicts, at most
// `limit`. Consequences of the literals, not valid without them.
std::vector<Formula> product_lemmas(AtomTable& atoms, const std::vector<Literal>& literals,
                                    const Point& at, size_t limit);
// Valid always: the order of products with a common factor, quotients of one dividend, elements of
// one index tensor.
std::vector<Formula> pair_lemmas(AtomTable& atoms, const LoadFactsOf& loads, const Point& at,
                                 size_t limit);
// Cases that together are all, of which each says more about a factor of a product that the point
// gets wrong.
std::vector<Formula> product_cases(const AtomTable& atoms, AtomId product, const Point& at);
// The value that the product's factors make, at the point.
Rational product_value(const AtomTable& atoms, AtomId id, const Point& at);
bool holds(const Formula& f, const Point& at);  // at the point

}  // namespace rooftile::verify::arith
