// SPDX-License-Identifier: Apache-2.0
// Shapes, types and names of L0: what the builder, the verifier, the printer and the interpreter
// share.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rooftile/ir/ir.h"

namespace rooftile::ir {

using Shape = std::vector<Expr>;

std::string shape_str(const Shape& shape);              // "[BM, D]"
std::string type_str(DType dtype, const Shape& shape);  // "f32[BM, D]"; "f32[]" for rank 0
std::string node_str(const Node& node);                 // "%7 `qk` f32[BM, BN]"
bool same_shape(const Shape& a, const Shape& b);        // structurally

// The NumPy shape of two operands whose ranks are equal or one of which is 0; nullopt if extents
// disagree.
std::optional<Shape> broadcast(const Shape& a, const Shape& b);

inline bool is_integer(DType dtype) { return !is_float(dtype) && dtype != DType::kBool; }
// dtypes in which arithmetic is defined: narrow floats are storage only.
inline bool is_arithmetic(DType dtype) { return dtype == DType::kF32 || is_integer(dtype); }

std::string_view op_name(Op op);  // "load", "mma"
std::optional<ReduceKind> reduce_find(std::string_view name);
std::optional<Role> role_find(std::string_view name);

// Extent of each axis of a tile of `rank` that a region fills: ranges as written, indirect
// dimensions from their index tile, 1 where no dimension walks the axis.
Shape region_shape(const Program& program, const std::vector<DimIndex>& region, int rank);

}  // namespace rooftile::ir
