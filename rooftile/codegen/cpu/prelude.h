// SPDX-License-Identifier: Apache-2.0
// The text that every generated CPU kernel starts with: vector types, loads, stores, conversions
// and functions. One prelude per instruction set; all define the same names, so emitters never ask
// which one is in use.
#pragma once

#include <string>

#include "rooftile/compile/target.h"

namespace rooftile::codegen {

std::string cpu_prelude(const TargetInfo& target);

}  // namespace rooftile::codegen
