// SPDX-License-Identifier: Apache-2.0
// What CTAs tell each other through tickets, tried for small calls.
//
// Where the arithmetic of a kernel is not that of the lemmas (hand_out.h), nothing can be shown,
// but mostly something can be found: the registers that say who adds where, who waits for how many
// and which images are read are computed as the kernel computes them, for one thread a group, CTA
// after CTA, each to its end. CTAs start in the order of their numbers, so a wait that is not over
// then waits for a CTA behind, or for ever.
#pragma once

#include <optional>

#include "rooftile/verify/lanes/prove_lanes.h"

namespace rooftile::verify {

bool waits_for_tickets(const lanes::Program& kernel);

// What goes wrong in one of the calls that are tried; nothing where nothing does, or where the
// registers hang on what the trial does not know.
std::optional<Finding> try_tickets(const lanes::Program& kernel, const LaneContract& contract);

}  // namespace rooftile::verify
