// SPDX-License-Identifier: Apache-2.0
// Which kinds of obligation an instruction owes to prove_lanes, read off what it does.
#pragma once

#include <vector>

#include "rooftile/lanes/lanes.h"
#include "rooftile/verify/verdict.h"

namespace rooftile::verify {

std::vector<Kind> owed_by_instruction(const lanes::Instr& instr);

}  // namespace rooftile::verify
