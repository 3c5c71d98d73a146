// SPDX-License-Identifier: Apache-2.0
// The kernels of act(gate) * up for x = [gate | up]: rows in blocks of columns on a GPU, whole rows
// on a CPU. An operator gives its tile programs.
#pragma once

#include "rooftile/ops/op_def.h"

namespace rooftile::ops {

KernelDef gated_blocks(decltype(KernelDef::build) build);  // with the tile parameter "BH"
KernelDef gated_rows(decltype(KernelDef::build) build);

}  // namespace rooftile::ops
