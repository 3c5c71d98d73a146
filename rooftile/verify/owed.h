// SPDX-License-Identifier: Apache-2.0
// Which kinds of obligation a program owes, read off what it does: who stores owes bounds, who
// waits owes that the wait ends. A prover that says nothing of a kind owed is thereby caught.
#pragma once

#include <vector>

#include "rooftile/codegen/gpu/placed.h"
#include "rooftile/ir/ir.h"
#include "rooftile/lanes/lanes.h"
#include "rooftile/verify/verdict.h"

namespace rooftile::verify {

std::vector<Kind> owed_by_tiles(const ir::Program& program);
std::vector<Kind> owed_by_placed(const codegen::Placed& placed);
std::vector<Kind> owed_by_addresses(const lanes::Program& kernel);  // verify/lanes answers
std::vector<Kind> owed_by_protocol(const lanes::Program& kernel);   // verify/protocol answers
std::vector<Kind> owed_by_cpu();
std::vector<Kind> owed_by_contract();

}  // namespace rooftile::verify
