// SPDX-License-Identifier: Apache-2.0
// Facts that bear on a question: those that share an atom with it, or with facts that do. Where
// many facts are known, few of them decide most questions, and the others lead the search astray.
#pragma once

#include <vector>

#include "rooftile/verify/arith/terms.h"

namespace rooftile::verify::arith {

// In their order. Atoms that nearly every fact has do not connect.
std::vector<Formula> relevant(const AtomTable& atoms, const std::vector<Formula>& facts,
                              const Formula& question);

}  // namespace rooftile::verify::arith
