// SPDX-License-Identifier: Apache-2.0
// The raw route of cross_entropy: loss/raw/cross_entropy_sm90.cu and what it takes. The yardstick
// of the tile route; it goes when that reaches it.
#pragma once

#include "rooftile/ops/op_def.h"

namespace rooftile::ops {

KernelDef cross_entropy_raw_kernel();

}  // namespace rooftile::ops
