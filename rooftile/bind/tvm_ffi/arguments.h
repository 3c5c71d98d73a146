// SPDX-License-Identifier: Apache-2.0
// The arguments of a foreign call, as the dispatcher takes them.
//
// The order is that of the OpDef: its tensors (None for an absent optional one), its attributes,
// its flags and choices. Attributes and flags may be left off at the end, or be None: they then
// have their defaults. A choice is given by name or by position.
#pragma once

#include <span>
#include <vector>

#include "rooftile/base/diag.h"
#include "rooftile/compile/dispatch.h"
#include "rooftile/ops/op_def.h"
#include "rooftile/runtime/ffi_abi.h"

namespace rooftile::bind {

struct ForeignArgs {
  std::vector<TensorView> tensors;
  std::vector<Scalar> attrs;
  std::vector<int64_t> flags;
  int cuda_device = -1;  // of the first tensor that lives on one; -1: none does
  OpArgs args() const { return {tensors, attrs, flags}; }
};

// RT-C001 to RT-C004, RT-C008, RT-C015: counts, kinds and what a TensorView cannot hold. The rest
// is for the dispatcher and the launcher to check.
Result<ForeignArgs> read_arguments(const OpDef& op, std::span<const TVMFFIAny> args);

}  // namespace rooftile::bind
