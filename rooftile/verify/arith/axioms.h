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

// What the axioms rest on, beside the formulas.
struct Known {
  std::map<std::string, LoadFacts> loads;
  std::vector<Term> positive;  // divisors that the facts make so
  bool is_positive(const Term& t) const;
};

std::vector<Formula> defining_axioms(AtomTable& atoms, AtomId id, const Known& known);

// Of atoms x = t / c and y = (t + gap) / (c m): y is about x / m. Else: true.
Formula nested_quotients(const AtomTable& atoms, AtomId p, AtomId q);

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

struct LemmaLimits {
  size_t count;   // of lemmas
  size_t degree;  // of the products in them
  int fresh;      // products that a lemma may bring in
  int bytes;      // of its largest coefficients: long ones make points with long fractions
  Wide fraction;  // the largest denominator in a product that gets lemmas
};
// Facts (of `literals`) times factors whose sign is known, that the point contradicts. Consequences
// of the literals, not valid without them. `work` counts down.
std::vector<Formula> product_lemmas(AtomTable& atoms, const std::vector<Literal>& literals,
                                    const Point& at, const LemmaLimits& limits, int64_t& work);
// Valid always: the order of products with a common factor, elements of one index tensor.
std::vector<Formula> pair_lemmas(AtomTable& atoms, const Known& known, const Point& at,
                                 size_t limit);
// Cases that together are all, of which each says more about a factor of a product that the point
// gets wrong. `few`: only if one of a handful of values is all that a factor can have.
std::vector<Formula> product_cases(const AtomTable& atoms, AtomId product, const Point& at,
                                   bool few);
// Is the product something else than its factors make, at the point?
bool is_wrong(const AtomTable& atoms, AtomId product, const Point& at);
bool holds(const Formula& f, const Point& at);  // at the point

}  // namespace rooftile::verify::arith
