// SPDX-License-Identifier: Apache-2.0
// From a tile program and a schedule to C++ text for the system compiler.
//
// The text follows the calling convention of compile/arg_layout.h. It has no includes: a prelude of
// vector types and functions, packing routines and register-tile kernels for the products it needs,
// and <name>_run.
//
// What is decided here, by fixed rules (docs/decisions/0002-cpu-path.md):
//   - which values live in scratch, which in local variables, and which are recomputed where they
//   are used (plan.h);
//   - which row loops are fused and which vector loops (passes) each has;
//   - how each product is computed and how its operands are packed (mma.h).
#pragma once

#include <string>
#include <vector>

#include "rooftile/base/diag.h"
#include "rooftile/codegen/cpu/scratch.h"
#include "rooftile/compile/schedule.h"
#include "rooftile/compile/target.h"
#include "rooftile/ir/ir.h"

namespace rooftile::codegen {

// An operand that the caller passes packed: its logical tensor and the dtype of the packed words.
struct PackedArg {
  std::string tensor;
  DType logical = DType::kBf16;  // dtype of the tensor before packing
  DType packed = DType::kBf16;   // f16 is packed as f32
  bool n_major = true;           // logical tensor is [N, K]; false: [K, N]
};

struct CpuKernelText {
  std::string scheduled;  // the placed program: buffers, row loops, passes, products
  std::string text;       // C++ without includes
  // as the launcher must check it: packed tensors have their packed shape
  ir::Program program;
  std::vector<PackedArg> packed;
  std::vector<ScratchPart> scratch;  // the memory that it works in
};

// `program` has its tile parameters already replaced by numbers.
Result<CpuKernelText> emit_cpu(const ir::Program& program, const std::string& name,
                               const Schedule& schedule, const TargetInfo& target);

}  // namespace rooftile::codegen
