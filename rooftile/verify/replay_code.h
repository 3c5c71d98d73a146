// SPDX-License-Identifier: Apache-2.0
// A counterexample of a kernel's code, run in the emulator: the very variant and phase, with the
// sizes, strides and elements of the counterexample, and where the grid is too large, the very
// cluster. Needs no operator and no reference: what is shown is a fault, or an element of an output
// that nobody writes.
#pragma once

#include "rooftile/compile/kernel.h"
#include "rooftile/verify/proof.h"
#include "rooftile/verify/replay_call.h"

namespace rooftile::verify {

// `seeds`: orders of events that are tried.
Replay replay_code(const KernelSource& source, size_t variant, size_t phase, const Finding& finding,
                   int seeds = 8);

// What is refuted, run by whoever can: the interpreter for tile programs, the emulator for code.
Replay replay_finding(const KernelSource& source, const Obligation& obligation);

// Fills in `replayed` and `replay` of the counterexamples. Of many alike, the first few.
void replay_refuted(const KernelSource& source, std::vector<Obligation>& obligations);

}  // namespace rooftile::verify
