// SPDX-License-Identifier: Apache-2.0
// Rung 1: a kernel's tile program in the interpreter, in double precision throughout.
#pragma once

#include <map>
#include <string>

#include "rooftile/base/diag.h"
#include "rooftile/ops/op_def.h"

namespace rooftile::check {

// The outputs after running the program that `kernel` builds, with the tile sizes of its own
// schedule.
Result<std::map<std::string, NdArray, std::less<>>> interpret(const OpDef& op,
                                                              const KernelDef& kernel,
                                                              const RefCall& inputs,
                                                              const TargetInfo& target);

}  // namespace rooftile::check
