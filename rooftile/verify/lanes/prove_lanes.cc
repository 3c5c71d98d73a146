// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/lanes/prove_lanes.h"

#include <optional>

#include "rooftile/verify/lanes/bounds.h"
#include "rooftile/verify/lanes/budget.h"
#include "rooftile/verify/lanes/copies.h"
#include "rooftile/verify/lanes/grid_order.h"
#include "rooftile/verify/lanes/hand_out.h"
#include "rooftile/verify/lanes/once.h"
#include "rooftile/verify/lanes/ticket_trial.h"
#include "rooftile/verify/lanes/uniform.h"
#include "rooftile/verify/lanes/walk.h"

namespace rooftile::verify {

std::vector<Finding> prove_lanes(const lanes::Program& kernel, const LaneContract& contract) {
  // Of sums that meet in a way that no lemma is about, little can be shown, and that slowly.
  if (waits_for_tickets(kernel) && !HandOuts(kernel).of_sums())
    if (std::optional<Finding> wrong = try_tickets(kernel, contract)) return {std::move(*wrong)};
  Walk walk(kernel, contract);
  Bounds bounds;
  Budget budget;
  Copies copies(kernel);
  Once once(kernel);
  WholeWarps warps(kernel);
  walk.run({&bounds, &copies, &budget, &once, &warps});
  copies.finish(walk);
  budget.finish(walk);
  once.finish(walk);
  prove_grid_order(kernel, walk.report());
  warps.finish(walk);
  return walk.report().take();
}

}  // namespace rooftile::verify
