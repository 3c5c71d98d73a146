// SPDX-License-Identifier: Apache-2.0
// A dense row-major tensor in float64, for references and the interpreter: its values are exactly
// those of the stored dtype. Integers are exact to 2^53.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace rooftile {

struct NdArray {
  std::vector<int64_t> shape;
  std::vector<double> data;
  int64_t numel() const { return static_cast<int64_t>(data.size()); }
  double& operator()(std::initializer_list<int64_t> at) { return data[offset(at)]; }
  double operator()(std::initializer_list<int64_t> at) const { return data[offset(at)]; }
  size_t offset(std::initializer_list<int64_t> at) const {
    int64_t off = 0;
    size_t d = 0;
    for (int64_t i : at) off = off * shape[d++] + i;
    return static_cast<size_t>(off);
  }
};

}  // namespace rooftile
