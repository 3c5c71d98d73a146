// SPDX-License-Identifier: Apache-2.0
// Reference of argmax.
#include <cmath>

#include "rooftile/ops/op_def.h"

namespace rooftile::ops {

void argmax_ref(RefCall& call) {
  const NdArray& x = call["x"];
  for (int64_t t = 0; t < call.dim("T"); ++t) {
    int64_t best = 0;
    for (int64_t v = 1; v < call.dim("V"); ++v) {
      const bool larger = std::isnan(x({t, v})) || x({t, v}) > x({t, best});
      if (larger && !std::isnan(x({t, best}))) best = v;
    }
    call["out"]({t}) = static_cast<double>(best);
  }
}

}  // namespace rooftile::ops
