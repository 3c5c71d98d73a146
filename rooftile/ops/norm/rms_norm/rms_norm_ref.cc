// SPDX-License-Identifier: Apache-2.0
// Float64 reference of rms_norm. A double holds the square of every float, so that no scaling is
// needed.
#include <cmath>

#include "rooftile/ops/op_def.h"

namespace rooftile::ops {

void rms_norm_ref(RefCall& call) {
  const NdArray& x = call["x"];
  const NdArray& weight = call["weight"];
  NdArray& out = call["out"];
  const int64_t rows = call.dim("T"), columns = call.dim("H");
  const double offset = call.config.flag("weight_plus_one") ? 1.0 : 0.0;
  for (int64_t t = 0; t < rows; ++t) {
    double squares = 0;
    for (int64_t h = 0; h < columns; ++h) squares += x({t, h}) * x({t, h});
    const double root = std::sqrt(squares / static_cast<double>(columns) + call.attr("eps"));
    for (int64_t h = 0; h < columns; ++h) out({t, h}) = x({t, h}) / root * (offset + weight({h}));
  }
}

}  // namespace rooftile::ops
