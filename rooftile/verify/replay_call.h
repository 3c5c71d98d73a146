// SPDX-License-Identifier: Apache-2.0
// A counterexample, run so that one sees it happen: the call is made (sizes from the proof, the
// rest as the contract admits) and the kernel runs in the emulator, against the operator's
// reference. What is wrong with a tile program alone is shown by the interpreter (tile/replay.h).
#pragma once

#include <string>

#include "rooftile/compile/kernel.h"
#include "rooftile/verify/verdict.h"

namespace rooftile::verify {

struct Replay {
  bool ran = false;    // else `what` says why not
  bool shown = false;  // the run broke
  std::string what;    // the emulator's error, or the wrong result, in words
};

// `source` is the kernel as it is, mistakes included. Sizes of `example` that the operator has are
// used where the emulator can run them in reasonable time, else those of `dims`.
Replay replay_in_emulator(const OpDef& op, const KernelSource& source, const Config& config,
                          const Env& dims, const Counterexample& example, int seeds = 4);

}  // namespace rooftile::verify
