// SPDX-License-Identifier: Apache-2.0
// The contract of an operator as a page of text and as one JSON object, both read from its OpDef.
#pragma once

#include <string>

#include "rooftile/ops/op_def.h"

namespace rooftile::cli {

// "row", or "sm90 (raw, unproved)".
std::string kernel_words(const KernelDef& kernel);
std::string op_page(const OpDef& op);
std::string op_page_json(const OpDef& op);

}  // namespace rooftile::cli
