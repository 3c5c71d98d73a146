// SPDX-License-Identifier: Apache-2.0
// lanes.uniform: what a warp, a warpgroup, a CTA or a cluster executes together is reached by all
// of it, and operands that all must agree on are alike.
//
// A dataflow over the statements: of each register, who surely holds one value (the lanes of a warp
// at least, a warpgroup, ...), as the least over what is assigned to it and the conditions around.
#pragma once

#include "rooftile/lanes/lanes.h"
#include "rooftile/verify/lanes/report.h"

namespace rooftile::verify {

void prove_uniform(const lanes::Program& program, Report& report);

}  // namespace rooftile::verify
