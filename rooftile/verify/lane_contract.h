// SPDX-License-Identifier: Apache-2.0
// What a kernel's code may assume of a call: the clauses of its tile program, what the launcher has
// checked before it took this variant, and what the kernels launched before it leave in workspaces
// (which is proved of them). Nothing else is ever assumed.
#pragma once

#include "rooftile/codegen/gpu/lower.h"
#include "rooftile/verify/lanes/prove_lanes.h"

namespace rooftile::verify {

LaneContract lane_contract(const codegen::GpuVariant& variant, size_t phase);

}  // namespace rooftile::verify
