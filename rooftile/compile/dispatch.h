// SPDX-License-Identifier: Apache-2.0
// From a call of an operator to a running kernel: config from the arguments, kernel and schedule
// for the shapes, compiled once, found again by comparing the shapes. Everything that a caller can
// do wrong comes back as a Status, and then nothing has been written. Thread-safe.
//
// This is the positional form that generated wrappers use; rooftile/api.h has the one by name.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "rooftile/base/diag.h"
#include "rooftile/compile/kernel.h"
#include "rooftile/compile/schedule.h"
#include "rooftile/runtime/call.h"
#include "rooftile/runtime/cpu/pack.h"
#include "rooftile/runtime/tensor_view.h"

namespace rooftile {

class OpDef;

struct CallOptions {
  Route route = Route::kAuto;          // kTile: the compiler's kernels alone
  std::string kernel;                  // by name; empty: the first choice of the route
  const Schedule* schedule = nullptr;  // null: the kernel's own choice for the shapes
  // Proved kernels alone (proof_gate.h): tile kernels with every obligation proved, nothing waived.
  // RT-V005 where there is none. ROOFTILE_REQUIRE_PROVED asks for it of every call.
  bool proved = false;
};

// Arguments in the order of the OpDef: one view a tensor (an absent optional one is TensorView()),
// one scalar an attribute, one value a flag or choice (the position of the choice).
struct OpArgs {
  std::span<const TensorView> tensors;
  std::span<const Scalar> attrs;
  std::span<const int64_t> flags;
};

Status call(const OpDef& op, const OpArgs& args, const CallOptions& options = {});

// Keeps an operator of the caller's own for the life of the process, so that its kernels are
// remembered. Calls of an operator that is not kept work too, but go through code generation each
// time.
const OpDef& keep(OpDef op);

// An operator that the build put in; for generated code, which knows that it is there.
const OpDef& built_in(std::string_view name);

// The kernel that such a call runs, compiled; for whoever wants to look at it, or to call it many
// times.
Result<std::shared_ptr<const CompiledKernel>> kernel_for(const OpDef& op, const OpArgs& args,
                                                         const CallOptions& options = {});

// Runs a compiled kernel: the program's tensors (no absent ones), then its scalars.
Status call(const CompiledKernel& kernel, std::span<const TensorView> tensors,
            std::span<const Scalar> scalars);

// `tensor` in the packed form that this kernel wants. RT-C002 if the kernel does not take it
// packed.
Result<PackedTensor> prepack(const CompiledKernel& kernel, std::string_view tensor,
                             const TensorView& logical);

// What selects code in a call, and the extents that its shapes bind. Exposed for tools that report
// on kernels.
Result<Config> config_of(const OpDef& op, const OpArgs& args);
// The first choice of the route, or the kernel that the options name.
Result<const KernelDef*> choose_kernel(const OpDef& op, const OpArgs& args, const Config& config,
                                       const CallOptions& options);
Env bind_dims(const OpDef& op, const Config& config, std::span<const TensorView> tensors);

}  // namespace rooftile
