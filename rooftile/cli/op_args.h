// SPDX-License-Identifier: Apache-2.0
// Operators and cases as they are typed on the command line.
#pragma once

#include <string>
#include <vector>

#include "rooftile/base/diag.h"
#include "rooftile/ops/op_def.h"

namespace rooftile::cli {

// The operator of that name; RT-M003 with the nearest names otherwise.
Result<const OpDef*> op_named(const std::string& name);
// Those named, or all if none is.
Result<std::vector<const OpDef*>> ops_named(const std::vector<std::string>& names);

}  // namespace rooftile::cli
