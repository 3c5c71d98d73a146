// SPDX-License-Identifier: Apache-2.0
// The raw route's half of kernel.h's pipeline: from a hand-written text and its description
// (ops/raw_kernel.h) to a KernelSource that goes on like a generated one: launcher with the whole
// contract, NVRTC with spills and serialised products as errors, cubin cache, tensor maps, capture.
#pragma once

#include "rooftile/compile/kernel.h"

namespace rooftile {

// The raw kernel as variant 0; behind it the variants of `otherwise`, the tile kernel for the same
// call, for what the text does not take. Without one, such a call is an error.
Result<KernelSource> generate_raw(const OpDef& op, const KernelDef& kernel, const Config& config,
                                  const std::string& name, const Schedule& schedule,
                                  const TargetInfo& target, const KernelSource* otherwise);

}  // namespace rooftile
