// SPDX-License-Identifier: Apache-2.0
// Reference of embedding.
#include "rooftile/ops/op_def.h"

namespace rooftile::ops {

void embedding_ref(RefCall& call) {
  const NdArray& ids = call["ids"];
  const NdArray& table = call["table"];
  NdArray& out = call["out"];
  for (int64_t t = 0; t < call.dim("T"); ++t) {
    const int64_t id = static_cast<int64_t>(ids({t}));
    const bool inside = id >= 0 && id < call.dim("V");
    for (int64_t h = 0; h < call.dim("H"); ++h) out({t, h}) = inside ? table({id, h}) : 0.0;
  }
}

}  // namespace rooftile::ops
