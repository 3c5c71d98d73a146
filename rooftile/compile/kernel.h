// SPDX-License-Identifier: Apache-2.0
// From an operator, a config and a schedule to a loaded, callable CPU kernel.
//
//   build (OpDef) -> verify -> substitute tile parameters -> lower_cpu (codegen/cpu) -> emit text +
//   launcher
//   -> system compiler / disk cache (toolchain) -> dlopen (runtime/cpu)
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "rooftile/base/diag.h"
#include "rooftile/compile/schedule.h"
#include "rooftile/ops/op_def.h"
#include "rooftile/runtime/ffi_abi.h"

namespace rooftile {

// An operand that the schedule wants packed ahead of the call (runtime/cpu/pack.h does it).
struct PrepackedOperand {
  std::string tensor;
  DType dtype = DType::kBf16;   // of the logical operand
  DType packed = DType::kBf16;  // of the packed one: a target without f16 arithmetic takes f32
  bool n_major = true;          // logical operand is [N, K] (true) or [K, N]
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
  std::vector<PrepackedOperand> prepacked;
};

struct CompiledKernel {
  KernelSource source;
  TVMFFISafeCall launch = nullptr;  // __tvm_ffi_<name>: checks everything, then runs
  std::string library_path;         // the shared object in the cache
  double compile_ms = 0;            // 0 on a cache hit
  bool from_cache = false;
  std::shared_ptr<void> library;  // keeps the code loaded
};

// Everything up to the texts; no compiler needed. `schedule` null: the kernel's own choice for
// `dims`.
Result<KernelSource> generate(const OpDef& op, const KernelDef& kernel, const Config& config,
                              const Env& dims, const TargetInfo& target,
                              const Schedule* schedule = nullptr);
// The same for a program that belongs to no OpDef (a user's own operator, tests).
Result<KernelSource> generate(const ir::Program& program, const std::string& name,
                              const Schedule& schedule, const TargetInfo& target);
Result<std::shared_ptr<const CompiledKernel>> compile(KernelSource source);

}  // namespace rooftile
