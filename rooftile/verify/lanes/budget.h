// SPDX-License-Identifier: Apache-2.0
// lanes.budget: threads, registers, shared memory, clusters and barriers fit the machine (sm_90).
#pragma once

#include <vector>

#include "rooftile/verify/lanes/walk.h"

namespace rooftile::verify {

class Budget : public Walk::Observer {
 public:
  void instruction(Walk& walk, const lanes::Stmt& stmt) override;
  // After the walk: what concerns the kernel as a whole.
  void finish(Walk& walk);

 private:
  void registers(Walk& walk, const lanes::Stmt& stmt);

  struct Change {
    Interval threads;
    int registers = 0;
  };
  std::vector<Change> changes_;
};

}  // namespace rooftile::verify
