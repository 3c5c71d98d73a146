// SPDX-License-Identifier: Apache-2.0
// Findings in words: an error in the style of every other one, with the counterexample as shapes,
// place and story, and the line of the tile program.
#pragma once

#include <string>

#include "rooftile/base/diag.h"
#include "rooftile/verify/proof.h"

namespace rooftile::verify {

// RT-V006 for what is refuted, RT-V005 for what is unknown.
Diag diag_of(const KernelProof& proof, const Obligation& obligation);
// "variant 1, phase 0" or "".
std::string place_text(const Obligation& obligation);
// "M = 5, K = 64; cta.x = 2, tid = 17"
std::string when_text(const Counterexample& example);

}  // namespace rooftile::verify
