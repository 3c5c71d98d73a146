// SPDX-License-Identifier: Apache-2.0
// The certificate checker's own arithmetic: small, and shares nothing with the provers but Expr.
//
// A question is text: "fact E" lines and a "goal E" line (the form of the evidence in
// certificates). It is redone by elimination over the rationals: the facts and the goal's negation,
// as linear inequalities, lead to 0 < 0 or they do not. Divisions by constants get a name and their
// bounds; min, max, select and disjunctions are split into cases. And it is tried: values that meet
// the facts must meet the goal.
#pragma once

#include <string_view>

namespace rooftile::verify {

enum class Redone {
  kHolds,    // shown again
  kTooHard,  // not within the few steps that this takes; no value breaks it
  kBroken,   // values meet the facts and break the goal
  kNoText,   // not a question
};
// All questions of `text`, the worst of them.
Redone check_formulas(std::string_view text);

}  // namespace rooftile::verify
