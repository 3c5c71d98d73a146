// SPDX-License-Identifier: Apache-2.0
// The targets that a command line may name, and what each means.
//
//   cpu             this machine; cpu-avx2, cpu-generic, cpu-noamx: less of it
//   sm90            a Hopper GPU; compiling for it needs none
//   sm90-emulated   the same kernels, run by the emulator on this machine
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "rooftile/base/diag.h"
#include "rooftile/compile/target.h"

namespace rooftile::check {

std::vector<std::string> target_names();
Result<TargetInfo> target_named(std::string_view name);

// Whether the emulator runs what is generated for it.
bool is_emulated(std::string_view name);

}  // namespace rooftile::check
