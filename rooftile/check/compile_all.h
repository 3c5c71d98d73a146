// SPDX-License-Identifier: Apache-2.0
// Compiling many kernels at once, on all cores, ahead of their use. What cannot be compiled shows
// where it is used.
#pragma once

#include <vector>

#include "rooftile/compile/kernel.h"

namespace rooftile::check {

void compile_all(std::vector<KernelSource> sources);

}  // namespace rooftile::check
