// SPDX-License-Identifier: Apache-2.0
// Float64 reference of gated_mlp, with its two factors for whoever bounds their errors.
#pragma once

#include "rooftile/ops/op_def.h"

namespace rooftile::ops {

struct GatePair {
  NdArray activated;  // act(x Wg^T), [M, I]
  NdArray up;         // x Wu^T, [M, I]
};
GatePair gate_and_up_f64(const RefCall& call);

void gated_mlp_ref(RefCall& call);

}  // namespace rooftile::ops
