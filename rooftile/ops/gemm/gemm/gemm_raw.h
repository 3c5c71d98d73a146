// SPDX-License-Identifier: Apache-2.0
// The raw route of gemm: gemm/raw/gemm_tile_sm90.cu for many rows and gemm_swap_sm90.cu for few,
// their schedules and what they take. The yardsticks of the tile route; they go when that reaches
// them.
#pragma once

#include "rooftile/ops/op_def.h"

namespace rooftile::ops {

KernelDef gemm_raw_few_rows();
KernelDef gemm_raw_tiles();

}  // namespace rooftile::ops
