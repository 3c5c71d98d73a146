// SPDX-License-Identifier: Apache-2.0
// The statistic that rms_norm and add_rms_norm share.
#pragma once

#include "rooftile/ops/op_def.h"

namespace rooftile::ops {

// 1 / sqrt(mean(x^2) + eps) over the last axis of `x`, in f32; finite for every finite row, NaN if
// x holds a NaN. `extent` is the length of that axis. [.., 1]
dsl::Tile reciprocal_rms(dsl::Kernel& k, const dsl::Tile& x, const dsl::Index& extent,
                         const dsl::Tile& eps);

}  // namespace rooftile::ops
