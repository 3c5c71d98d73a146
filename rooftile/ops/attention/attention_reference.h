// SPDX-License-Identifier: Apache-2.0
// Float64 attention of one query row: the definition, with all logits in memory.
#pragma once

#include <functional>

#include "rooftile/ops/op_def.h"

namespace rooftile::ops {

struct RowAttention {
  const RefCall* call = nullptr;
  const double* q = nullptr;  // [D]
  int64_t depth = 0;
  int64_t head = 0;                                // query head, for the sink
  int64_t first = 0, last = -1;                    // visible keys, inclusive
  std::function<const double*(int64_t key)> k, v;  // [D] of a key
  // Writes o [D]; returns the natural-log LSE without the sink, -inf if no key is visible.
  double operator()(double* o) const;
};

}  // namespace rooftile::ops
