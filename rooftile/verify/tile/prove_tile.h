// SPDX-License-Identifier: Apache-2.0
// Proves a tile program (L0) safe for every call that its contract admits, whatever the schedule:
// regions in bounds, instances apart, outputs complete, nothing read that a neighbour stores.
//
// The same four are what the interpreter checks of one call (RT-V002, RT-V003, RT-V004); here they
// hold for all calls. Pure: no state, no I/O, the same answer each time.
#pragma once

#include <vector>

#include "rooftile/ir/ir.h"
#include "rooftile/verify/verdict.h"

namespace rooftile::verify {

// `program` is verified (ir::verify). Tile parameters may be numbers or symbols.
std::vector<Finding> prove_tile(const ir::Program& program);

}  // namespace rooftile::verify
