// SPDX-License-Identifier: Apache-2.0
// From a counterexample to a call: sizes, attributes and the contents of index tensors.
//
// Index tensors hold what the counterexample says (`ids[2]` = 7) and elsewhere values that the
// contract admits. A call that is made has been looked at clause by clause: it meets the contract.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "rooftile/ir/interp.h"
#include "rooftile/ir/ir.h"

namespace rooftile::verify {

struct ExampleCall {
  Env ints;  // dims and integer attributes, all that the program has; what else was given
  ir::FloatAttrs floats;
  ir::InterpTensors index;  // inputs of integers, filled
};

// What index tensors hold where nothing is said of it: the least that the contract admits, or large
// values, which make long loops.
enum class Filling : uint8_t { kLeast, kLarge };

// nullopt with the reason in `why`: an extent has no value, the index tensors are too large or
// cannot be filled as the contract asks, or a size breaks it.
std::optional<ExampleCall> example_call(const ir::Program& program, const Env& given,
                                        std::string* why = nullptr,
                                        Filling filling = Filling::kLeast);

}  // namespace rooftile::verify
