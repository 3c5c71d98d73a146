// SPDX-License-Identifier: Apache-2.0
// Float64 reference of layer_norm: mean first, then the variance about it.
#include <cmath>

#include "rooftile/ops/op_def.h"

namespace rooftile::ops {

void layer_norm_ref(RefCall& call) {
  const NdArray& x = call["x"];
  const NdArray& weight = call["weight"];
  const NdArray* bias = call.has("bias") ? &call["bias"] : nullptr;
  NdArray& out = call["out"];
  const int64_t rows = call.dim("T"), columns = call.dim("H");
  const double count = static_cast<double>(columns);
  for (int64_t t = 0; t < rows; ++t) {
    double mean = 0, variance = 0;
    for (int64_t h = 0; h < columns; ++h) mean += x({t, h}) / count;
    for (int64_t h = 0; h < columns; ++h)
      variance += (x({t, h}) - mean) * (x({t, h}) - mean) / count;
    const double root = std::sqrt(variance + call.attr("eps"));
    for (int64_t h = 0; h < columns; ++h)
      out({t, h}) = (x({t, h}) - mean) / root * weight({h}) + (bias ? (*bias)({h}) : 0.0);
  }
}

}  // namespace rooftile::ops
