// SPDX-License-Identifier: Apache-2.0
// Pure operations over the 32 lanes of a register, one function for each operation and type;
// generated from lanes/pure_ops.def.
#pragma once

#include "rooftile/emulate/cell.h"
#include "rooftile/lanes/lanes.h"

namespace rooftile::emulate {

// in: up to four operands.
using PureFn = void (*)(Cell& out, const Cell* const* in);

// The function that computes f, on operands whose main type is `from` (the first operand's, of a
// select the second's) with a result of type `to`; nullptr if there is none.
PureFn pure_fn(lanes::Fn f, lanes::Ty from, lanes::Ty to);

}  // namespace rooftile::emulate
