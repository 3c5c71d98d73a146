// SPDX-License-Identifier: Apache-2.0
// The contract of a kernel as JSON: tensors, attributes, clauses, and what each variant asks of a
// call. What certificates state; read from the program, and from nothing else.
#pragma once

#include <nlohmann/json.hpp>

#include "rooftile/compile/kernel.h"

namespace rooftile::verify {

nlohmann::ordered_json contract_json(const KernelSource& source);

}  // namespace rooftile::verify
