// SPDX-License-Identifier: Apache-2.0
// The sequential interpreter: the meaning of the tile language, and the oracle of its safety.
//
// Tiles of a parallel space run one after the other, elements in row-major order. Every access is
// checked: bounds, symbols, reads of what nothing has written, and races (an element that one tile
// of a phase writes and another one touches). Two numerics: float64, in which no float operation
// rounds, for the mathematics; and the declared dtypes, for what a machine that follows the
// language to the letter computes (each operation rounds to f32, sums run in order, casts round to
// nearest even).
#pragma once

#include <map>
#include <string>

#include "rooftile/base/diag.h"
#include "rooftile/base/nd_array.h"
#include "rooftile/ir/ir.h"

namespace rooftile::ir {

struct InterpOptions {
  enum Numerics { kFloat64, kDeclared } numerics = kDeclared;
  bool outputs_complete = true;  // an element of an output that is never stored is an error
};

using InterpTensors = std::map<std::string, NdArray, std::less<>>;
using FloatAttrs = std::map<std::string, double, std::less<>>;

// `ints` binds integer attributes, tile parameters and dims; dims that it lacks are taken from the
// shapes of the tensors. `tensors` holds the inputs; outputs are created (or overwritten, where
// given with the right shape). Errors: RT-V002 out of bounds, RT-V003 never written, RT-V004 race,
// RT-C005 shapes, RT-L002 unbound symbols.
Status interpret(const Program& program, const Env& ints, const FloatAttrs& floats,
                 InterpTensors& tensors, const InterpOptions& options = {});

}  // namespace rooftile::ir
