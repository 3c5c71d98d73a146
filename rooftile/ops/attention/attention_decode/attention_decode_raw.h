// SPDX-License-Identifier: Apache-2.0
// The raw route of attention_decode: attention/raw/attention_decode_sm90.cu, its schedules and what
// it takes. The yardstick of the tile route; it goes when that reaches it.
#pragma once

#include "rooftile/ops/op_def.h"

namespace rooftile::ops {

KernelDef decode_raw_kernel();

}  // namespace rooftile::ops
