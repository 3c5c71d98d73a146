// SPDX-License-Identifier: Apache-2.0
// Float64 reference of attention_decode.
#include <algorithm>

#include "rooftile/ops/attention/attention_reference.h"

namespace rooftile::ops {

void attention_decode_ref(RefCall& call) {
  const int64_t B = call.dim("B"), Hq = call.dim("Hq"), Hkv = call.dim("Hkv"), D = call.dim("D");
  const int64_t S = call.dim("S");
  const bool paged = call.config.flag("kv_layout") == 1;
  const auto left = static_cast<int64_t>(call.attr("window_left"));
  const NdArray &k = call["k"], &v = call["v"];
  NdArray& o = call["o"];
#pragma omp parallel for schedule(dynamic)
  for (int64_t at = 0; at < B * Hq; ++at) {
    const int64_t b = at / Hq, head = at % Hq;
    const int64_t kv_head = head / (Hq / Hkv);
    const auto length = static_cast<int64_t>(call["lengths"]({b}));
    const auto offset = [&](int64_t key) {
      const int64_t page = paged ? static_cast<int64_t>(call["block_table"]({b, key / S})) : b;
      const int64_t slot = paged ? key % S : key;
      return static_cast<size_t>(((page * S + slot) * Hkv + kv_head) * D);
    };
    RowAttention row;
    row.call = &call;
    row.q = &call["q"].data[static_cast<size_t>(at * D)];
    row.depth = D;
    row.head = head;
    row.first = left < 0 ? 0 : std::max<int64_t>(length - 1 - left, 0);
    row.last = length - 1;
    row.k = [&](int64_t key) { return &k.data[offset(key)]; };
    row.v = [&](int64_t key) { return &v.data[offset(key)]; };
    const double lse = row(&o.data[static_cast<size_t>(at * D)]);
    if (call.has("lse")) call["lse"]({head, b}) = lse;
  }
}

}  // namespace rooftile::ops
