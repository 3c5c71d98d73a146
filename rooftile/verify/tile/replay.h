// SPDX-License-Identifier: Apache-2.0
// A counterexample shown by the interpreter: the call that a proof found, made and run.
//
// Tensors are filled with zeros; index tensors with the values that the counterexample gives
// (`ids[2]` = 7), else with values that the contract admits. The interpreter refuses what the proof
// says is wrong, at the same place, or the call shows nothing.
#pragma once

#include <optional>

#include "rooftile/base/diag.h"
#include "rooftile/ir/ir.h"

namespace rooftile::verify {

// What the interpreter says of the call. nullopt: it cannot be made, since a size is missing, the
// index tensors cannot be filled as the contract asks, or it is too large to be run.
std::optional<Status> replay(const ir::Program& program, const Env& call);

}  // namespace rooftile::verify
