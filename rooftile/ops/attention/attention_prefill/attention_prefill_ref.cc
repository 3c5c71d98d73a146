// SPDX-License-Identifier: Apache-2.0
// Float64 reference of attention_prefill.
#include <algorithm>

#include "rooftile/ops/attention/attention_reference.h"

namespace rooftile::ops {
namespace {

struct Span {
  int64_t q_begin, q_len, k_begin, k_len;
};

void attend(RefCall& call, const Span& seq, int64_t head, int64_t i) {
  const int64_t D = call.dim("D"), Hq = call.dim("Hq"), Hkv = call.dim("Hkv");
  const int64_t kv_head = head / (Hq / Hkv);
  const auto left = static_cast<int64_t>(call.attr("window_left"));
  const auto right =
      call.config.flag("causal") != 0 ? 0 : static_cast<int64_t>(call.attr("window_right"));
  const int64_t at = i + seq.k_len - seq.q_len;  // the query's position among the keys
  const NdArray &k = call["k"], &v = call["v"];
  RowAttention row;
  row.call = &call;
  row.q = &call["q"].data[static_cast<size_t>(((seq.q_begin + i) * Hq + head) * D)];
  row.depth = D;
  row.head = head;
  row.first = left < 0 ? 0 : std::max<int64_t>(at - left, 0);
  row.last = right < 0 ? seq.k_len - 1 : std::min(at + right, seq.k_len - 1);
  row.k = [&](int64_t key) {
    return &k.data[static_cast<size_t>(((seq.k_begin + key) * Hkv + kv_head) * D)];
  };
  row.v = [&](int64_t key) {
    return &v.data[static_cast<size_t>(((seq.k_begin + key) * Hkv + kv_head) * D)];
  };
  const double lse = row(&call["o"].data[static_cast<size_t>(((seq.q_begin + i) * Hq + head) * D)]);
  if (call.has("lse")) call["lse"]({head, seq.q_begin + i}) = lse;
}

}  // namespace

void attention_prefill_ref(RefCall& call) {
  std::vector<Span> sequences = {{0, call.dim("Tq"), 0, call.dim("Tk")}};
  if (call.has("cu_q")) {
    sequences.clear();
    const NdArray &cu_q = call["cu_q"], &cu_k = call["cu_k"];
    for (size_t b = 0; b + 1 < cu_q.data.size(); ++b)
      sequences.push_back({static_cast<int64_t>(cu_q.data[b]),
                           static_cast<int64_t>(cu_q.data[b + 1] - cu_q.data[b]),
                           static_cast<int64_t>(cu_k.data[b]),
                           static_cast<int64_t>(cu_k.data[b + 1] - cu_k.data[b])});
  }
  const int64_t heads = call.dim("Hq");
  for (const Span& seq : sequences) {
#pragma omp parallel for schedule(dynamic, 16) if (heads * seq.q_len * seq.k_len > 10000)
    for (int64_t at = 0; at < heads * seq.q_len; ++at)
      attend(call, seq, at / seq.q_len, at % seq.q_len);
  }
}

}  // namespace rooftile::ops
