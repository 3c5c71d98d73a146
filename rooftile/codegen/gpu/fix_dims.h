// SPDX-License-Identifier: Apache-2.0
// Dims that a schedule fixes: constants of the program, and part of its contract.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "rooftile/base/diag.h"
#include "rooftile/ir/ir.h"

namespace rooftile::codegen {

// Replaces each dim by its value everywhere; extents of tensors become constants, which the
// launcher then checks. RT-P001 for a name that no tensor's shape binds.
Result<ir::Program> fix_dims(const ir::Program& program,
                             const std::map<std::string, int64_t>& dims);

}  // namespace rooftile::codegen
