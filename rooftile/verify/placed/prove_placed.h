// SPDX-License-Identifier: Apache-2.0
// L1: is the schedule of a placed phase sound, whatever the sizes? One Finding an obligation and
// subject (a ring, a product); `placed.*` and `ring.*` of obligations.def. Rests on nothing but the
// event trees, rings and homes of Placed; what the lowering makes of them is proved again from the
// lanes.
#pragma once

#include <vector>

#include "rooftile/codegen/gpu/placed.h"
#include "rooftile/verify/verdict.h"

namespace rooftile::verify {

std::vector<Finding> prove_placed(const ir::Program& program, const codegen::Placed& placed);

}  // namespace rooftile::verify
