// SPDX-License-Identifier: Apache-2.0
// Which values are the same in all lanes of a warp, by the statements alone.
#pragma once

#include <string>
#include <vector>

#include "rooftile/lanes/lanes.h"

namespace rooftile::verify::protocol {

// The first instruction that wants a whole warp, is no event of the protocol, and stands under a
// condition that lanes may answer differently; nullptr: there is none. `program` is unrolled.
// (Events are looked at one by one when they are explored.)
const lanes::Stmt* apart(const lanes::Program& program);

}  // namespace rooftile::verify::protocol
