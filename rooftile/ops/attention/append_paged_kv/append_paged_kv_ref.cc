// SPDX-License-Identifier: Apache-2.0
// Float64 reference and test inputs of append_paged_kv.
#include <algorithm>
#include <numeric>
#include <random>

#include "rooftile/ops/op_def.h"

namespace rooftile::ops {

void append_paged_kv_ref(RefCall& call) {
  const int64_t row = call.dim("Hkv") * call.dim("D");
  for (int64_t t = 0; t < call.dim("T"); ++t) {
    const auto slot = static_cast<int64_t>(call["slot_mapping"]({t}));
    if (slot < 0) continue;
    // Pages are contiguous, so the slot number is the token's row in the whole cache.
    for (int64_t i = 0; i < row; ++i) {
      call["k_cache"].data[static_cast<size_t>(slot * row + i)] =
          call["k_new"].data[static_cast<size_t>(t * row + i)];
      call["v_cache"].data[static_cast<size_t>(slot * row + i)] =
          call["v_new"].data[static_cast<size_t>(t * row + i)];
    }
  }
}

// Distinct slots in random order, with skipped tokens among them.
void append_paged_kv_inputs(RefCall& call, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<int64_t> slots(static_cast<size_t>(call.dim("P") * call.dim("S")));
  std::iota(slots.begin(), slots.end(), 0);
  std::shuffle(slots.begin(), slots.end(), random);
  size_t next = 0;
  for (double& slot : call["slot_mapping"].data)
    slot = random() % 5 == 0 || next == slots.size() ? -1.0 : static_cast<double>(slots[next++]);
}

}  // namespace rooftile::ops
