// SPDX-License-Identifier: Apache-2.0
// The part of verify (lanes.h) that needs no unrolling, and takes a tenth of its time: all rules
// but the range of array indices.
#pragma once

#include "rooftile/lanes/lanes.h"

namespace rooftile::lanes {

Status verify_rolled(const Program& program);

}  // namespace rooftile::lanes
