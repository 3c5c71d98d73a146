// SPDX-License-Identifier: Apache-2.0
// lanes.matches: what the code sets its barriers up for is what the schedule says. The protocol
// proof shows that the code keeps to its barriers; this, that they are the schedule's.
#pragma once

#include <vector>

#include "rooftile/codegen/gpu/placed.h"
#include "rooftile/lanes/lanes.h"
#include "rooftile/verify/verdict.h"

namespace rooftile::verify {

// One finding a ring. `kernel` need not be unrolled.
std::vector<Finding> match_rings(const codegen::Placed& placed, const lanes::Program& kernel);

}  // namespace rooftile::verify
