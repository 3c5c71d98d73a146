// SPDX-License-Identifier: Apache-2.0
// An index as what one symbol contributes and the rest: e = coefficient * symbol + rest.
//
// Coefficients may be symbolic (the size of a group of heads): that is where tile structure becomes
// nonlinear, and where the proofs of this folder use a lemma instead of a solver.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rooftile/base/expr.h"

namespace rooftile::verify {

bool mentions(const Expr& e, const std::string& symbol);
bool mentions_any(const Expr& e, const std::set<std::string>& symbols);

struct Split {
  Expr coefficient, rest;  // neither mentions the symbol
};
// nullopt where `symbol` stands elsewhere than in sums and products.
std::optional<Split> split(const Expr& e, const std::string& symbol);

// The terms of a sum, products spread out over sums.
std::vector<Expr> sum_terms(const Expr& e);

}  // namespace rooftile::verify
