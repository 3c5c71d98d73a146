// SPDX-License-Identifier: Apache-2.0
// How far a result is from its reference, and whether that is within the operator's derived
// tolerance.
//
// A NaN passes only where the reference is NaN too; an infinity only where the reference is the
// same infinity.
#pragma once

#include <cstdint>
#include <string>

#include "rooftile/ops/op_def.h"

namespace rooftile::check {

struct Comparison {
  double max_abs = 0;
  double max_rel = 0;   // |x - ref| / max(|ref|, rms(ref)): the floor keeps zeros from deciding
  double norm_err = 0;  // ||x - ref|| / ||ref||
  bool pass = true;
  std::string reason;      // why not, one line
  int64_t first_bad = -1;  // row-major position
  double got = 0, want = 0;

  void merge(const Comparison& other);  // the worse of both; keeps the first failure
};

Comparison compare(const NdArray& got, const NdArray& want, const Tolerance& tolerance);

// The multi-dimensional position of a row-major one: "[3, 17]".
std::string coordinate(int64_t position, const std::vector<int64_t>& shape);

}  // namespace rooftile::check
