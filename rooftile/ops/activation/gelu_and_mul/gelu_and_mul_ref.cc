// SPDX-License-Identifier: Apache-2.0
// Float64 reference of gelu_and_mul. erfc keeps the digits of the exact form for negative gates.
#include <cmath>
#include <numbers>

#include "rooftile/ops/op_def.h"

namespace rooftile::ops {

void gelu_and_mul_ref(RefCall& call) {
  const NdArray& x = call["x"];
  NdArray& out = call["out"];
  const int64_t rows = call.dim("T"), columns = call.dim("H");
  const bool tanh_form = call.config.flag("approximate") == 1;
  for (int64_t t = 0; t < rows; ++t)
    for (int64_t h = 0; h < columns; ++h) {
      const double gate = x({t, h}), up = x({t, columns + h});
      const double y = std::sqrt(2 / std::numbers::pi) * (gate + 0.044715 * gate * gate * gate);
      // (1 + tanh y) / 2 = 1 / (1 + exp(-2 y)); the first form has no digits left below y = -19.
      const double cdf =
          tanh_form ? 1 / (1 + std::exp(-2 * y)) : 0.5 * std::erfc(-gate / std::numbers::sqrt2);
      out({t, h}) = gate * cdf * up;
    }
}

}  // namespace rooftile::ops
