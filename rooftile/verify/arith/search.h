// SPDX-License-Identifier: Apache-2.0
// The cheap prover: is there a point that meets these formulas?
//
// Linear constraints go to the simplex; alternatives, fractional values and products that do not
// come out are split, lemmas that the point contradicts are added, within a budget that counts
// steps, never time. Complete enough for nearly all that shipped kernels ask; what runs out of
// budget is for the solver.
#pragma once

#include <map>
#include <vector>

#include "rooftile/verify/arith/axioms.h"
#include "rooftile/verify/arith/terms.h"

namespace rooftile::verify::arith {

struct WorkBudget {
  int64_t work = 1'200'000;  // of sums and products
  int branches = 100;
  int lemmas = 120;
  int fresh = 24;  // lemmas that bring in products
  int strategies = 3;
};

struct Outcome {
  enum class Status : uint8_t { kEmpty, kModel, kUnknown } status = Status::kUnknown;
  Model model;
  // Valid without any case distinction: worth giving to the next prover.
  std::vector<Formula> lemmas;
};

// Defining axioms of all atoms in `formulas` are added here. `budget` is for each of a few
// strategies.
Outcome find_point(AtomTable& atoms, const std::vector<Formula>& formulas, const Known& known,
                   WorkBudget budget = {});

// Atoms of the formulas and, transitively, of what those are made from.
class AtomClosure {
 public:
  explicit AtomClosure(const AtomTable& atoms) : atoms_(atoms) {}
  void visit(const Formula& f);
  void visit(const Term& t);
  std::vector<AtomId> take_new();  // those seen since the last call

 private:
  void visit(AtomId id);
  const AtomTable& atoms_;
  std::vector<bool> seen_;
  std::vector<AtomId> new_;
};

}  // namespace rooftile::verify::arith
