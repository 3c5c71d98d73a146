// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/lanes/prove_lanes.h"

#include "rooftile/verify/lanes/bounds.h"
#include "rooftile/verify/lanes/walk.h"

namespace rooftile::verify {

std::vector<Finding> prove_lanes(const lanes::Program& kernel, const LaneContract& contract) {
  Walk walk(kernel, contract);
  Bounds bounds;
  walk.run({&bounds});
  return walk.report().take();
}

}  // namespace rooftile::verify
