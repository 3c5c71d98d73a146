// SPDX-License-Identifier: Apache-2.0
// out = x + y: what stands before the norm when the residual addition is not fused into it. Not an
// operator of the library; the report alone measures it.
#pragma once

#include "rooftile/ops/op_def.h"

namespace rooftile::report {

OpDef residual_add();

}  // namespace rooftile::report
