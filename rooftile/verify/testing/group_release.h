// SPDX-License-Identifier: Apache-2.0
// A mistake of the lowering that once was one: a slot that a group may hold without starting a
// product goes back by one thread of the group, which others of its warps may still wait for.
#pragma once

#include <string>

#include "rooftile/lanes/lanes.h"

namespace rooftile::verify::testing {

// `kernel` with the slots of this ring given back so; of two computing groups. False: it has none
// that warps give back one by one.
bool release_for_the_group(lanes::Program& kernel, const std::string& ring);

}  // namespace rooftile::verify::testing
