// SPDX-License-Identifier: Apache-2.0
// Float64 reference of cross_entropy.
#include <algorithm>
#include <cmath>
#include <limits>

#include "rooftile/ops/op_def.h"

namespace rooftile::ops {

void cross_entropy_ref(RefCall& call) {
  const NdArray& logits = call["logits"];
  const NdArray& targets = call["targets"];
  const int64_t columns = call.dim("V");
  const double smoothing = call.attr("label_smoothing"), z_loss = call.attr("z_loss");
  for (int64_t t = 0; t < call.dim("T"); ++t) {
    double largest = logits({t, 0}), total = 0, mean = 0;
    for (int64_t v = 1; v < columns; ++v) largest = std::max(largest, logits({t, v}));
    for (int64_t v = 0; v < columns; ++v) {
      total += std::exp(logits({t, v}) - largest);
      mean += logits({t, v}) / static_cast<double>(columns);
    }
    double lse = largest + std::log(total);
    // A row that is all -inf has no distribution: its log-sum-exp is that of nothing, its loss NaN.
    const bool nothing = largest == -std::numeric_limits<double>::infinity();
    if (call.has("lse")) call["lse"]({t}) = nothing ? largest : lse;
    double loss = 0;
    if (targets({t}) != call.attr("ignore_index")) {
      const double target = logits({t, static_cast<int64_t>(targets({t}))});
      loss = (1 - smoothing) * (std::log(total) - (target - largest));
      if (smoothing > 0) loss += smoothing * (lse - mean);
      if (z_loss > 0) loss += z_loss * lse * lse;
    }
    call["loss"]({t}) = loss;
  }
}

}  // namespace rooftile::ops
