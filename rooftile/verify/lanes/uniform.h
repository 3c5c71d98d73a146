// SPDX-License-Identifier: Apache-2.0
// lanes.uniform: what a warp, a warpgroup, a CTA or a cluster executes together is reached by all
// of it, and operands that all must agree on are alike.
//
// A dataflow over the statements: of each register, who surely holds one value (the lanes of a warp
// at least, a warpgroup, ...), as the least over what is assigned to it and the conditions around.
// Where it does not show that a whole warp comes to an instruction, two lanes are asked for: one
// for which all conditions on the way hold, and another of its warp for which one does not.
#pragma once

#include <map>
#include <set>

#include "rooftile/lanes/lanes.h"
#include "rooftile/verify/lanes/report.h"
#include "rooftile/verify/lanes/walk.h"

namespace rooftile::verify {

class WholeWarps : public Walk::Observer {
 public:
  explicit WholeWarps(const lanes::Program& program);
  void instruction(Walk& walk, const lanes::Stmt& stmt) override;
  // After the walk: what both have found.
  void finish(Walk& walk);

 private:
  Answer two_lanes(Walk& walk) const;

  const lanes::Program& program_;
  std::set<const lanes::Stmt*> open_;               // what the dataflow leaves open
  std::map<const lanes::Stmt*, Answer> two_lanes_;  // and what was found of it
};

}  // namespace rooftile::verify
