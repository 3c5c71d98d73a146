// SPDX-License-Identifier: Apache-2.0
// The computing role, walked: which slots it holds, which products run, whose turn it is.
//
// Per ring a list of slots held; a list of running products with the registers and slots that each
// touches; the token. These are few, and a loop repeats them, so every step of every loop is walked
// until no new state appears: what holds here holds for all trip counts. Conditions go both ways.
// Finds
//   ring.credit  a slot given back that is not held, or never given back
//   ring.hazard  a slot given back while a product may read it; a product whose slot holds
//                something else
//   placed.live  more slots asked for than the ring has
//   placed.tokens  registers of a running product read or written
//   placed.turns   products started, and slots looked at, out of turn
#pragma once

#include "rooftile/codegen/gpu/placed.h"
#include "rooftile/verify/placed/placed_problem.h"

namespace rooftile::verify {

struct WalkResult {
  PlacedProblems problems;
  int states = 0;  // walked
};
WalkResult walk_computing(const ir::Program& program, const codegen::Placed& placed);

}  // namespace rooftile::verify
