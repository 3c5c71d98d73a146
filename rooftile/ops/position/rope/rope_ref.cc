// SPDX-License-Identifier: Apache-2.0
// Float64 reference of rope.
#include "rooftile/ops/op_def.h"

namespace rooftile::ops {

static void rotate_heads(const RefCall& call, NdArray& heads) {
  const NdArray& table = call["cos_sin"];
  const NdArray& positions = call["positions"];
  const int64_t half = call.dim("R") / 2;
  const bool interleaved = call.config.flag("interleaved") != 0;
  for (int64_t t = 0; t < heads.shape[0]; ++t) {
    const int64_t position = static_cast<int64_t>(positions({t}));
    for (int64_t head = 0; head < heads.shape[1]; ++head)
      for (int64_t i = 0; i < half; ++i) {
        double& a = heads({t, head, interleaved ? 2 * i : i});
        double& b = heads({t, head, interleaved ? 2 * i + 1 : i + half});
        const double cos = table({position, i}), sin = table({position, half + i});
        const double rotated_a = a * cos - b * sin;
        b = b * cos + a * sin;
        a = rotated_a;
      }
  }
}

void rope_ref(RefCall& call) {
  rotate_heads(call, call["q"]);
  if (call.has("k")) rotate_heads(call, call["k"]);
}

}  // namespace rooftile::ops
