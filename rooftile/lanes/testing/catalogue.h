// SPDX-License-Identifier: Apache-2.0
// Programs that hold every instruction and every pure operation, in their variants. They verify and
// compile; they are not meant to run.
#pragma once

#include <vector>

#include "rooftile/lanes/lanes.h"

namespace rooftile::lanes::testing {

// One kernel a group of related instructions.
std::vector<Program> instruction_catalogue();

// A wgmma of every kind (dtypes, sources of A, transposes, known and unknown `keep`) in three
// widths.
Program product_catalogue();
// The plainest wgmma of every dtype in every width.
Program product_widths();

// Every pure operation on every type that it takes.
Program pure_catalogue();

}  // namespace rooftile::lanes::testing
