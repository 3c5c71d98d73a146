// SPDX-License-Identifier: Apache-2.0
// What calls by name and calls from other languages share: values that arrive untyped become the
// attributes and flags of an operator, or the Diag that says what was wrong with them.
#pragma once

#include "rooftile/api.h"
#include "rooftile/ops/op_def.h"

namespace rooftile {

Scalar default_value(const AttrDef& attr);

// RT-C002 for a value of the wrong kind. Ranges are for the launcher to check.
Result<Scalar> attribute_value(const OpDef& op, const AttrDef& attr, const NamedValue& value);

// A flag, or a choice by name or position. RT-C002; RT-C015 for a name that is none of its values.
Result<int64_t> flag_value(const OpDef& op, const FlagDef& flag, const NamedValue& value);

}  // namespace rooftile
