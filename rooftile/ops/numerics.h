// SPDX-License-Identifier: Apache-2.0
// Facts about number formats that contracts, tolerances and test inputs of operators share.
//
// Tolerances are worst-case bounds: u is the unit roundoff of the stored type, v = 2^-24 that of
// the f32 the kernels compute in. A sum of n terms is taken in at least eight partial sums on every
// target, so that its relative error (terms of one sign) is at most sum_chain(n) * v.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "rooftile/ops/op_def.h"

namespace rooftile::ops {

inline const std::vector<DType> kFloating = {DType::kBf16, DType::kF16, DType::kF32};

inline constexpr double kF32Roundoff = 0x1p-24;

// Largest relative error of rounding a normal number to `dtype`, to nearest.
inline double unit_roundoff(DType dtype) {
  switch (dtype) {
    case DType::kBf16:
      return 0x1p-8;
    case DType::kF16:
      return 0x1p-11;
    case DType::kF8E4M3:
      return 0x1p-4;
    case DType::kF8E5M2:
      return 0x1p-3;
    default:
      return kF32Roundoff;
  }
}

// Largest absolute error of rounding a number below the normal range: half the smallest subnormal.
// For bf16 and f32 it is the smallest normal number instead, since vector units may flush such
// results to zero.
inline double underflow_error(DType dtype) { return dtype == DType::kF16 ? 0x1p-25 : 0x1p-126; }

// Additions in the longest chain of a sum of n terms, plus those that join the partial sums.
inline double sum_chain(int64_t n) { return static_cast<double>(n) / 8 + 8; }

inline double max_abs(const NdArray& array) {
  double largest = 0;
  for (double value : array.data)
    if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
  return largest;
}

// The elementwise bound, and the bound on the norm of the error that follows from it for results
// like `ref`.
inline Tolerance bounded(double abs, double rel, const NdArray& ref, std::string why) {
  double squares = 0;
  for (double value : ref.data)
    if (std::isfinite(value)) squares += value * value;
  const double spread =
      squares > 0 ? abs * std::sqrt(static_cast<double>(ref.numel()) / squares) : 0;
  return {abs, rel, squares > 0 ? rel + spread : 0, std::move(why)};
}

inline double bytes_of(const RefCall& call, std::string_view tensor, double elements) {
  return elements * size_bytes(call.config.dtype(tensor));
}

// The schedule of operators that walk rows: one row a parallel index, every pass fused.
inline Schedule row_schedule(std::vector<std::string> keep = {}) {
  Schedule schedule;
  schedule.name = "cpu_rows";
  schedule.keep = std::move(keep);
  return schedule;
}

}  // namespace rooftile::ops
