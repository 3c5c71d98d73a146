// SPDX-License-Identifier: Apache-2.0
// CUDA text of one instruction: a call of its helper.
#pragma once

#include <string>

#include "rooftile/codegen/cuda/prelude.h"
#include "rooftile/codegen/cuda/value_text.h"
#include "rooftile/lanes/lanes.h"

namespace rooftile::codegen::cuda {

// What an instruction's text depends on beside itself.
struct InstrContext {
  lanes::Ty register_type = lanes::Ty::kU32;  // of its first result, else of its first operand
  bool read_only = false;  // nothing writes the tensor that it loads from while the kernel runs
  int map_rank = 0;        // dimensions of its tensor map
};

// Instructions whose PTX depends on types, sizes or cache policy (instr_families.cc). The helper of
// a memory access with a guard takes it as its last operand, `bool guard`, and predicates the one
// instruction: cheaper and more certain than a branch around it.
Helper family_helper(const lanes::Instr& instr, const InstrContext& context);
bool takes_guard(lanes::Ins ins);

// One statement a line.
std::vector<std::string> instr_text(const lanes::Instr& instr, Prelude& prelude, ValueText& values);

}  // namespace rooftile::codegen::cuda
