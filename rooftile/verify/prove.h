// SPDX-License-Identifier: Apache-2.0
// Proving kernels: from sources to proofs, in worker processes, remembered.
//
// A prover runs in a child of this process: it may crash, or run longer than it is given, and what
// it had not answered is then unknown. Children are forked, so that they have whatever the caller
// made (an operator of its own, a mutated program) and answer back in text alone; nothing of
// them touches the caller. Results come in the order of the jobs and depend on the kernels alone.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "rooftile/base/diag.h"
#include "rooftile/compile/kernel.h"
#include "rooftile/verify/proof.h"

namespace rooftile::verify {

struct ProofJob {
  // Made in the child: generating code is part of what may fail.
  std::function<Result<KernelSource>()> source;
  std::string op, kernel, config;  // empty: of no OpDef
  std::string schedule, target;    // as people call them
  std::vector<Waiver> waivers;
};

struct ProveOptions {
  int workers = 0;            // 0: as many as there are processors
  double part_seconds = 120;  // a part that takes longer is stopped; many times what any needs
  bool cache = true;
  std::string cache_dir;  // "": the folder of compiled kernels
};

// `sink` gets the number of a job and its proof, in order.
void prove_all(const std::vector<ProofJob>& jobs, const ProveOptions& options,
               const std::function<void(size_t, KernelProof)>& sink);

// One kernel. The second time in a process, and where the disk knows, without proving.
KernelProof prove(const KernelSource& source, const ProveOptions& options = {});

}  // namespace rooftile::verify
