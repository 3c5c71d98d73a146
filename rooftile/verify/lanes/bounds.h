// SPDX-License-Identifier: Apache-2.0
// lanes.global, lanes.shared, lanes.alignment: every access lies inside its tensor, one dimension
// at a time, or inside its allocation of shared memory; and is aligned as its width asks.
#pragma once

#include "rooftile/verify/lanes/places.h"

namespace rooftile::verify {

class Bounds : public Walk::Observer {
 public:
  void instruction(Walk& walk, const lanes::Stmt& stmt) override;

 private:
  void global(Walk& walk, const lanes::Instr& instr);
  void shared(Walk& walk, const lanes::Instr& instr);
  void barrier(Walk& walk, const lanes::Val& address);
  void range(Walk& walk, const lanes::Val& address, int64_t bytes, int64_t align);
};

}  // namespace rooftile::verify
