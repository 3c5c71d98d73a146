// SPDX-License-Identifier: Apache-2.0
// Fills and acquisitions of a ring pair up: both roles walk the same loops and conditions, so the
// n-th fill is of what the n-th acquisition looks for, whatever the trip counts. Decided by
// comparing the two event trees, cut down to the ring.
#pragma once

#include "rooftile/codegen/gpu/placed.h"
#include "rooftile/verify/placed/placed_problem.h"

namespace rooftile::verify {

// ring.credit
PlacedProblems check_pairing(const ir::Program& program, const codegen::Placed& placed);
// placed.once: every load, product, store and value of the phase has its event, once, where it
// belongs.
PlacedProblems check_once(const ir::Program& program, const codegen::Placed& placed);

}  // namespace rooftile::verify
