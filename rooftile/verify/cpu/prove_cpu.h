// SPDX-License-Identifier: Apache-2.0
// Proves the CPU text of a tile program: what the plan and the memory layout, which the text is
// printed from, add to the program's own accesses (prove_tile has those).
//
//   cpu.bounds     row and vector loops stay inside the tiles that they walk; every value fits its
//                  part of the scratch, whole vectors and register tiles included
//   cpu.race       threads share nothing but tensors, and of those tile.once and tile.order say who
//                  touches what
//   cpu.alignment  the accesses that must be aligned are
//   cpu.overflow   sizes, offsets and the number of instances fit 64 bits
#pragma once

#include <vector>

#include "rooftile/compile/schedule.h"
#include "rooftile/compile/target.h"
#include "rooftile/ir/ir.h"
#include "rooftile/verify/verdict.h"

namespace rooftile::codegen {
struct ScratchPart;
}

namespace rooftile::verify {

// `program` has its tile parameters already replaced by numbers. A schedule that the program cannot
// be lowered by is one unknown finding. `scratch` null: the memory of the kernel as it is.
std::vector<Finding> prove_cpu(const ir::Program& program, const Schedule& schedule,
                               const TargetInfo& target,
                               const std::vector<codegen::ScratchPart>* scratch = nullptr);

}  // namespace rooftile::verify
