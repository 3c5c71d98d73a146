// SPDX-License-Identifier: Apache-2.0
// What a check of L1 found wrong; prove_placed() makes Findings of them.
#pragma once

#include <string>
#include <vector>

#include "rooftile/ir/ir.h"
#include "rooftile/verify/verdict.h"

namespace rooftile::verify {

struct PlacedProblem {
  Kind kind = Kind::kLive;
  std::string subject;  // a ring, product, value or loop, by its name
  std::string what;     // what is wrong, in one sentence
  std::vector<std::string> story;
  SourceLoc loc;
  Verdict verdict = Verdict::kRefuted;  // unknown: the check gave up, and why
  bool operator==(const PlacedProblem& other) const {
    return kind == other.kind && subject == other.subject && what == other.what;
  }
};
using PlacedProblems = std::vector<PlacedProblem>;

// As the stage's print names a node.
std::string node_name(const ir::Program& program, ir::ValueId id);

}  // namespace rooftile::verify
