// SPDX-License-Identifier: Apache-2.0
// Float64 reference of softmax.
#include <algorithm>
#include <cmath>

#include "rooftile/ops/op_def.h"

namespace rooftile::ops {

void softmax_ref(RefCall& call) {
  const NdArray& x = call["x"];
  NdArray& out = call["out"];
  const int64_t rows = call.dim("T"), columns = call.dim("V");
  const double scale = call.attr("scale");
  for (int64_t t = 0; t < rows; ++t) {
    // A NaN element never becomes the maximum here; it reaches the sum, and with it the whole row.
    double largest = x({t, 0}), total = 0;
    for (int64_t v = 1; v < columns; ++v) largest = std::max(largest, x({t, v}));
    for (int64_t v = 0; v < columns; ++v) {
      out({t, v}) = std::exp(scale * (x({t, v}) - largest));
      total += out({t, v});
    }
    for (int64_t v = 0; v < columns; ++v) out({t, v}) /= total;
  }
}

}  // namespace rooftile::ops
