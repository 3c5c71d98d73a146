// SPDX-License-Identifier: Apache-2.0
// From an operator, a config and a schedule to a loaded, callable kernel.
//
//   build (OpDef) -> verify -> substitute tile parameters -> lower_cpu (codegen/cpu) -> emit text +
//   launcher
//   -> system compiler / disk cache (toolchain) -> dlopen (runtime/cpu)
//
// For a GPU: lower_gpu (codegen/gpu) -> CUDA text -> NVRTC / cubin cache; the launcher is host code
// as above, bound to the device runtime once it is loaded (compile/gpu_kernel.cc).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "rooftile/base/diag.h"
#include "rooftile/codegen/gpu/lower.h"
#include "rooftile/compile/schedule.h"
#include "rooftile/ops/op_def.h"
#include "rooftile/runtime/ffi_abi.h"
#include "rooftile/toolchain/ptxas_report.h"

namespace rooftile {

namespace cuda {
class GpuKernel;
}

// An operand that the schedule wants packed ahead of the call (runtime/cpu/pack.h does it).
struct PrepackedOperand {
  std::string tensor;
  DType dtype = DType::kBf16;   // of the logical operand
  DType packed = DType::kBf16;  // of the packed one: a target without f16 arithmetic takes f32
  bool n_major = true;          // logical operand is [N, K] (true) or [K, N]
};

// One CUDA text of a GPU kernel.
struct GpuText {
  size_t variant = 0, phase = 0;
  std::string name;  // of the entry function
  std::string text;
};

struct KernelSource {
  std::string name;     // symbol stem: rooftile_<op>_<kernel>_<schedule>_<dtypes>_<isa>
  ir::Program program;  // after substitution; prepacked tensors have their packed shape
  Schedule schedule;
  std::string scheduled;           // stage "scheduled": the loop nests, readable
  std::string kernel_text;         // stage "text": C++ for the system compiler, no includes
  std::string launcher_text;       // stage "host"
  std::vector<std::string> flags;  // compiler flags, canonical order
  std::string target_key;          // TargetInfo::key() of the machine it is for
  // What proofs are about: the program with its tile parameters replaced by numbers and operands as
  // callers know them (not packed), and the machine.
  ir::Program tiles;
  TargetInfo target;
  std::vector<PrepackedOperand> prepacked;
  // GPU only: the lanes of each variant, what each needs, and their texts (kernel_text is all of
  // them, for reading)
  std::vector<codegen::GpuVariant> variants;
  std::vector<GpuText> gpu_texts;
  Route route = Route::kTile;       // kRaw: variant 0 is a hand-written text, which nobody proved
  std::vector<std::string> zeroed;  // workspaces that are zero before and after each call
  bool gpu() const { return !variants.empty(); }
};

struct CompiledKernel {
  KernelSource source;
  TVMFFISafeCall launch = nullptr;  // __tvm_ffi_<name>: checks everything, then runs
  std::string library_path;         // the shared object in the cache
  double compile_ms = 0;            // 0 on a cache hit
  bool from_cache = false;
  std::shared_ptr<void> library;                   // keeps the code loaded
  const cuda::GpuKernel* device_kernel = nullptr;  // GPU only
  std::vector<PtxasReport> reports;                // GPU only: one a text
  std::string nvrtc;                               // GPU only: what compiled them
};

// Everything up to the texts; no compiler needed. `schedule` null: the kernel's own choice for
// `dims`. Behind a raw kernel stands the tile kernel for the same call, for alignments and sizes
// that the text does not take, unless `route` is kRaw: then such a call is an error.
Result<KernelSource> generate(const OpDef& op, const KernelDef& kernel, const Config& config,
                              const Env& dims, const TargetInfo& target,
                              const Schedule* schedule = nullptr, Route route = Route::kAuto);
// The same for a program that belongs to no OpDef (a user's own operator, tests).
Result<KernelSource> generate(const ir::Program& program, const std::string& name,
                              const Schedule& schedule, const TargetInfo& target);
Result<std::shared_ptr<const CompiledKernel>> compile(KernelSource source);

}  // namespace rooftile
