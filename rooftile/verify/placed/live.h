// SPDX-License-Identifier: Apache-2.0
// No wait is for ever, on the schedule.
//
// Each loop body alone is a marked graph: the ring events of the two roles, each role in sequence;
// an edge from a fill to the acquisition of what it brings, and from a release to the fill that
// takes the slot next, with as many tokens as steps lie between. Such a graph runs for ever if
// every cycle has a token, whatever the trip count. How bodies follow one another (loops in loops,
// conditions, tiles) is run: events only ever enable others, so one order is enough, and every
// choice of trip counts up to twice the deepest ring and two is tried.
#pragma once

#include "rooftile/codegen/gpu/placed.h"
#include "rooftile/verify/placed/placed_problem.h"

namespace rooftile::verify {

struct LiveResult {
  PlacedProblems problems;
  int graphs = 0, runs = 0;
};
LiveResult check_live(const ir::Program& program, const codegen::Placed& placed);

}  // namespace rooftile::verify
