// SPDX-License-Identifier: Apache-2.0
// Writes rooftile/ops.h: for each operator an options struct and a typed function, from its OpDef
// alone. The build runs it (tools/write_ops_header.cc), so that adding an operator touches one
// folder.
#pragma once

#include <string>
#include <vector>

#include "rooftile/ops/op_def.h"

namespace rooftile {

std::string ops_header(const std::vector<OpDef>& ops);

}  // namespace rooftile
