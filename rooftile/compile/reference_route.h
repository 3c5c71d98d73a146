// SPDX-License-Identifier: Apache-2.0
// The reference route of a call: the operator's float64 loops over the caller's tensors. The
// contract is checked by the same generated launcher as on the tile route, over a kernel that does
// nothing.
#pragma once

#include "rooftile/base/diag.h"

namespace rooftile {

class OpDef;
struct OpArgs;

// Outputs are rounded once, to their dtypes. Needs the system compiler for the checks (RT-T001
// without).
Status call_reference(const OpDef& op, const OpArgs& args);

}  // namespace rooftile
