// SPDX-License-Identifier: Apache-2.0
// From a tile program and a schedule to lanes: the GPU kernels that carry it out.
//
// Two ways, chosen by the schedule and never by chance:
//   strips     (strips.h)     every thread of a CTA does the same; tiles are strips over the
//   threads,
//                             or buffers in shared memory. Any program, no alignment needed.
//   fragments  (fragments.h)  roles, rings and tensor cores: programs with products whose operands
//                             the copy engine can load. The peak.
// A schedule with roles asks for fragments.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "rooftile/base/diag.h"
#include "rooftile/codegen/gpu/placed.h"
#include "rooftile/codegen/host/launcher.h"
#include "rooftile/compile/schedule.h"
#include "rooftile/ir/ir.h"
#include "rooftile/lanes/lanes.h"

namespace rooftile::codegen {

// What a variant needs of a call beyond the contract: every named tensor's data and all its strides
// but the innermost are multiples of `align_bytes`, and the conditions hold.
struct GpuNeeds {
  int align_bytes = 1;
  std::vector<std::string> aligned;
  std::vector<Expr> conditions;   // over dims and integer attributes
  std::vector<AttrRange> ranges;  // of float attributes; NaN is in none
};

// L1 of a phase, for whoever proves or shows it: the program that was placed (transposed where the
// schedule swaps products) and where everything went.
struct PlacedPhase {
  ir::Program program;
  Placed placed;
};

// The kernels of one variant, launched in order on one stream (one a phase of the program).
struct GpuVariant {
  GpuNeeds needs;
  std::vector<lanes::Program> phases;
  // What became these lanes: the tile program, its tile parameters and fixed dims replaced by
  // numbers; and L1, one a phase, null for a phase by strips, which place nothing.
  std::shared_ptr<const ir::Program> program = nullptr;
  std::vector<std::shared_ptr<const PlacedPhase>> placed = {};
};

struct GpuKernelLanes {
  std::string scheduled;             // stage "scheduled": what was placed where, readable
  std::vector<GpuVariant> variants;  // the first whose needs a call meets is launched
};

// `program` has its tile parameters already replaced by numbers; `name` is the symbol stem. Dims
// that the schedule fixes become conditions of its variants.
Result<GpuKernelLanes> lower_gpu(const ir::Program& program, const std::string& name,
                                 const Schedule& schedule);

// The two ways; each appends to `scheduled`. Fixed dims are replaced here if they have not been.
Result<std::vector<GpuVariant>> lower_strips(const ir::Program& program, const std::string& name,
                                             const Schedule& schedule, std::string& scheduled);
Result<std::vector<GpuVariant>> lower_fragments(const ir::Program& program, const std::string& name,
                                                const Schedule& schedule, std::string& scheduled);

}  // namespace rooftile::codegen
