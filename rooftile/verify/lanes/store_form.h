// SPDX-License-Identifier: Apache-2.0
// A store's index taken apart: what threads and unrolled copies make of it, and what CTAs and loops
// do. Strided loops over threads and walks of the grid become one number each, which takes every
// value from 0 to its end once.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rooftile/verify/lanes/once.h"

namespace rooftile::verify {

// A number that takes each of 0 .. count-1 once.
struct Digit {
  Expr symbol, count;
};

struct StoreForm {
  std::vector<Expr> base;            // over digits
  std::vector<Expr> offset;          // over what is enumerated
  std::vector<std::string> counted;  // enumerated symbols
  std::vector<Digit> digits;
  std::vector<Expr> domain;     // facts of digits and lemmas
  std::vector<Expr> selectors;  // conditions on what is enumerated alone
  std::vector<Expr> clips;      // other conditions
  std::string wrong;            // why there is no such form
};

StoreForm store_form(Walk& walk, const TensorSite& site);

// Whether a fact says that two numbers are equal (or, `equal` false, that they are not).
bool says(const Expr& fact, const Expr& a, const Expr& b, bool equal);

}  // namespace rooftile::verify
