// SPDX-License-Identifier: Apache-2.0
// How an operator is called, as JSON: tensors, attributes and flags in the order of a call, with
// their shapes, dtypes, defaults and meanings. What other languages build their functions from, and
// the first part of `rooftile ops OP --json`.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "rooftile/ops/op_def.h"

namespace rooftile {

nlohmann::ordered_json op_signature(const OpDef& op);

// "(0, 1]": the values that an attribute admits; "" where all are.
std::string range_text(const AttrDef& attr);

}  // namespace rooftile
