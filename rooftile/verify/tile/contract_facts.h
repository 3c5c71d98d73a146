// SPDX-License-Identifier: Apache-2.0
// What the contract of a program promises, as formulas: the ground that every proof stands on.
//
// Each fact knows where it comes from, so that a certificate can list what was assumed and
// `contract.implies` can ask whether the launcher checks it. Promises about index tensors are given
// an element at a time (element_facts): a proof names the elements that it reads.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "rooftile/ir/ir.h"
#include "rooftile/verify/arith/arithmetic.h"

namespace rooftile::verify {

struct ContractFact {
  Expr fact;           // != 0
  std::string source;  // "clause `H >= 1`: a row needs at least one element"
};

// The source of what a schedule sees to, not a launcher.
inline constexpr std::string_view kTileParametersPositive = "tile parameters are positive";

// Over dims and integer attributes: nothing is negative, ranges of attributes, conditions of the
// contract, ends of index tensors.
std::vector<ContractFact> contract_facts(const ir::Program& program);

// What relates the elements of one index tensor to each other: order, distinctness.
std::vector<IndexFacts> order_facts(const ir::Program& program);

// What is promised of the element `term` (a kIndexLoad inside its tensor).
std::vector<ContractFact> element_facts(const ir::Program& program, const Expr& term);

// The clause, as the certificate says it.
std::string clause_text(const ir::Clause& clause);

}  // namespace rooftile::verify
