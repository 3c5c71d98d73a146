// SPDX-License-Identifier: Apache-2.0
// Kernels that may start before the one ahead of them is over: they wait for it before they touch
// what it may still touch.
#pragma once

#include "rooftile/verify/lanes/report.h"

namespace rooftile::verify {

// lanes.global-race of a kernel with dependent_launch: every thread passes griddepcontrol.wait
// ahead of the first access to global memory. What phases know of each other rests on it.
void prove_grid_order(const lanes::Program& program, Report& report);

}  // namespace rooftile::verify
