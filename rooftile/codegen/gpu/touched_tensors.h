// SPDX-License-Identifier: Apache-2.0
// Which tensors one phase reads and writes. Phases are kernels of their own: what an earlier one
// has written is read-only in this one.
#pragma once

#include <set>
#include <string>

#include "rooftile/ir/ir.h"

namespace rooftile::codegen {

struct TouchedTensors {
  std::set<std::string> read, written;
};

// What stands outside of phases counts for each of them.
TouchedTensors touched_tensors(const ir::Program& program, const ir::Node& phase);

}  // namespace rooftile::codegen
