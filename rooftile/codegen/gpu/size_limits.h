// SPDX-License-Identifier: Apache-2.0
// What a GPU kernel limits beyond the contract: sizes up to which its 32-bit indices do not wrap.
// Conditions of every variant, checked by the launcher: no variant takes a larger call. The proofs
// of lanes.overflow rest on them.
#pragma once

#include <cstdint>

#include "rooftile/codegen/gpu/lower.h"

namespace rooftile::codegen {

// Above this, an i32 loop counter that steps by a block, a CTA or a grid could pass 2^31.
inline constexpr int64_t kLargestSize = (int64_t{1} << 31) - (1 << 16);
// Of the tiles of a phase.
inline constexpr int64_t kLargestGrid = kLargestSize;

// Unless it is known, or there already.
void add_condition(const Expr& condition, GpuNeeds* needs);
// Extents of tensors, and the number of tiles of a phase.
void add_size_conditions(const ir::Program& program, const ir::Node& phase, GpuNeeds* needs);

}  // namespace rooftile::codegen
