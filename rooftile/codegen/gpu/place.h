// SPDX-License-Identifier: Apache-2.0
// L0 to L1: gives every operation of one phase a role, every value a home, every copy a ring, and
// puts the events of each role in order.
#pragma once

#include <optional>
#include <string>

#include "rooftile/base/diag.h"
#include "rooftile/codegen/gpu/placed.h"

namespace rooftile::codegen {

// `program` has its tile parameters and the dims that the schedule fixes replaced by numbers.
Result<Placed> place(const ir::Program& program, const gpu::Plan& plan, ValueId phase);

// The largest value an extent can take, where that is known when the kernel is compiled.
std::optional<int64_t> static_bound(const Expr& extent);

// The value in memory behind a product's operand: transposes and exact widenings of 8-bit floats
// removed; and whether an odd number of transposes stands between.
ValueId operand_source(const ir::Program& program, ValueId operand);
bool is_transposed(const ir::Program& program, ValueId operand);

// A cast of 8-bit floats to a 16-bit type, which changes no value.
bool widens_bytes(const ir::Program& program, const ir::Node& node);

// A carried sum that a product starts afresh: the first product of the loop overwrites it.
bool starts_from_zero_product(const ir::Program& program, const ir::Node& loop, size_t carry);

// Stores of `tensor` go through shared memory, and on from there by the warps.
bool stores_by_warps(const gpu::Plan& plan, const std::string& tensor);

enum class TileClass : uint8_t { kScalar, kRow, kColumn, kMatrix, kOther };
TileClass tile_class(const ir::Node& node);

}  // namespace rooftile::codegen
