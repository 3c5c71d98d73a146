// SPDX-License-Identifier: Apache-2.0
// The kernels of act(gate) * up for x = [gate | up]: rows in blocks of columns on a GPU, whole rows
// on a CPU. An operator gives its tile programs.
#pragma once

#include <functional>

#include "rooftile/ops/op_def.h"

namespace rooftile::ops {

using TileProgram = std::function<void(dsl::Kernel&, const Config&)>;

KernelDef gated_blocks(TileProgram build);  // with the tile parameter "BH"
KernelDef gated_rows(TileProgram build);

}  // namespace rooftile::ops
