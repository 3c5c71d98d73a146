// SPDX-License-Identifier: Apache-2.0
// A tile in the interpreter, and the operations that touch no memory (tile_compute.cc).
#pragma once

#include <cstdint>
#include <vector>

#include "rooftile/ir/interp.h"

namespace rooftile::ir {

// Floats are held in double, integers and bools in int64 (always within the range of the dtype).
struct TileValue {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::vector<double> floats;
  std::vector<int64_t> ints;

  TileValue() = default;
  TileValue(DType d, std::vector<int64_t> s) : dtype(d), shape(std::move(s)) {
    int64_t n = 1;
    for (int64_t extent : shape) n *= extent;
    if (is_float(d))
      floats.resize(static_cast<size_t>(n));
    else
      ints.resize(static_cast<size_t>(n));
  }
  size_t numel() const { return is_float(dtype) ? floats.size() : ints.size(); }
  double as_double(size_t i) const {
    return is_float(dtype) ? floats[i] : static_cast<double>(ints[i]);
  }
};

// Two's complement wrap to the width of an integer dtype; bools become 0 or 1.
int64_t wrap_to(int64_t value, DType dtype);
// Nearest even, clamped to the range of the dtype; NaN gives 0.
int64_t saturate_to(double value, DType dtype);

// One compute node (kFill, kIota and everything with tile operands) on concrete shapes. `begin` is
// the value of the node's expression. The only errors are shifts out of range and the position of a
// maximum of nothing.
Result<TileValue> compute(const Node& node, std::vector<int64_t> shape, int64_t begin,
                          const std::vector<const TileValue*>& operands,
                          InterpOptions::Numerics numerics);

}  // namespace rooftile::ir
