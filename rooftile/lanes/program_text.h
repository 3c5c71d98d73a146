// SPDX-License-Identifier: Apache-2.0
// One statement of L2 as a line, for printers and for messages.
#pragma once

#include <string>

#include "rooftile/lanes/lanes.h"

namespace rooftile::lanes {

// The statement without the bodies it holds: "for k = 0 .. K", "acc[3] = x + 1".
std::string print_head(const Stmt& stmt);

}  // namespace rooftile::lanes
