// SPDX-License-Identifier: Apache-2.0
// Tile programs with one mistake, of the kinds that authors make. See emulate/mutate.h for those of
// the lowered code.
#pragma once

#include <string>
#include <vector>

#include "rooftile/ir/ir.h"

namespace rooftile::verify::testing {

struct TileMutant {
  std::string kind, site;
  ir::Program program;  // verified
};

// Every mistake at every place where it can be made.
//   bound one off        a region begins one later
//   tail not cut         min(block, rest) became block
//   space too long       one tile more than cover the dimension
//   space too short      one less
//   loop too long        a step more
//   element stored twice a store's rows do not follow their tile
//   clause missing       the contract no longer says it
std::vector<TileMutant> tile_mutants(const ir::Program& program);

}  // namespace rooftile::verify::testing
