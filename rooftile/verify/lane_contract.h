// SPDX-License-Identifier: Apache-2.0
// What a kernel's code may assume of a call: the clauses of its tile program and what the launcher
// has checked before it took this variant. Nothing else is ever assumed.
#pragma once

#include "rooftile/codegen/gpu/lower.h"
#include "rooftile/verify/lanes/prove_lanes.h"

namespace rooftile::verify {

LaneContract lane_contract(const ir::Program& program, const codegen::GpuNeeds& needs);

}  // namespace rooftile::verify
