// SPDX-License-Identifier: Apache-2.0
// Float64 reference of silu_and_mul.
#include <cmath>

#include "rooftile/ops/op_def.h"

namespace rooftile::ops {

void silu_and_mul_ref(RefCall& call) {
  const NdArray& x = call["x"];
  NdArray& out = call["out"];
  const int64_t rows = call.dim("T"), columns = call.dim("H");
  for (int64_t t = 0; t < rows; ++t)
    for (int64_t h = 0; h < columns; ++h) {
      const double gate = x({t, h}), up = x({t, columns + h});
      out({t, h}) = gate / (1 + std::exp(-gate)) * up;
    }
}

}  // namespace rooftile::ops
