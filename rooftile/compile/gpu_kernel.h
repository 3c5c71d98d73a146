// SPDX-License-Identifier: Apache-2.0
// The GPU half of kernel.h's pipeline.
#pragma once

#include "rooftile/compile/kernel.h"

namespace rooftile {

// Lanes, CUDA texts and launcher of `schedule` and of the ones it names for other alignments.
Result<KernelSource> generate_gpu(const ir::Program& program, const std::string& name,
                                  const Schedule& schedule, const TargetInfo& target);

// The launcher of a source whose program and variants are set.
Result<std::string> gpu_launcher_text(const KernelSource& source);

// Cubins from the cache or NVRTC (spills, serialised wgmma and dropped register budgets are
// errors), the launcher by the system compiler, both bound together. Needs no GPU; the device is
// touched by the first call.
Result<std::shared_ptr<const CompiledKernel>> compile_gpu(KernelSource source);

// Puts the cubins and the launcher of `source` into a folder that another machine will name in
// ROOFTILE_CUBIN_DIR: it then needs neither NVRTC nor a compiler for this kernel.
Status carry_gpu(const KernelSource& source, const std::string& dir);

}  // namespace rooftile
