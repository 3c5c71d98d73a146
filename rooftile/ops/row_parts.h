// SPDX-License-Identifier: Apache-2.0
// The kernel of a row operator over x [T, V] that takes few long rows in parts.
#pragma once

#include "rooftile/ops/op_def.h"

namespace rooftile::ops {

// `build` has the tile parameter "BV", columns of a part.
KernelDef row_parts(decltype(KernelDef::build) build);

}  // namespace rooftile::ops
