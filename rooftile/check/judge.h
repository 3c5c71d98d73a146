// SPDX-License-Identifier: Apache-2.0
// The verdict on one implementation of an operator for one set of inputs.
//
// It is run twice or more on the same inputs over differently poisoned outputs, once on a padded
// layout with minimal alignment, if asked once on one with rows apart by `spaced_bytes`, and once
// in place where the contract allows that. It fails for: an error it returns; an element outside
// the tolerance; a NaN or infinity that the reference does not have; an element never written; a
// byte changed outside the outputs (guard zones, padding, inputs); a result that differs between
// equal runs.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "rooftile/check/compare.h"
#include "rooftile/check/invoke.h"
#include "rooftile/ops/op_def.h"

namespace rooftile::check {

using Implementation = std::function<Status(Arguments&)>;

struct Subject {
  const OpDef& op;
  const RefCall& inputs;    // before the call
  const RefCall& expected;  // after the float64 reference
  Tolerance tolerance;
  int runs = 2;          // equal runs on the compact layout, 2 or more
  int spaced_bytes = 0;  // 0: no such layout
};

struct Verdict {
  Comparison comparison;  // with the reference, the worst over outputs and layouts
  std::string output;     // the tensor of the first failure
  std::string layout;     // "compact", "padded", "spaced" or "in place": where it failed
  std::map<std::string, NdArray, std::less<>> results;  // outputs of the compact run
  bool pass() const { return comparison.pass; }
};

Verdict judge(const Subject& subject, const Implementation& run);

// Compares results already in float64 (an interpreter's, another rung's) over all outputs.
Verdict judge_results(const Subject& subject,
                      const std::map<std::string, NdArray, std::less<>>& results);

}  // namespace rooftile::check
