// SPDX-License-Identifier: Apache-2.0
// Which proofs a kernel gets: a list of parts, each a call of one prover with the obligations that
// it owes. An obligation that is owed and not answered is unknown; so a prover that is missing, or
// overlooks something, shows.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "rooftile/compile/kernel.h"
#include "rooftile/verify/proof.h"

namespace rooftile::verify {

struct ProofPart {
  std::string name;  // "tile", "placed", ...
  int variant = -1, phase = -1;
  std::vector<Kind> owes;
  std::function<std::vector<Finding>()> prove;
};

// In the order in which they are reported. The parts refer to `source`, which must outlive them.
// Variant 0 of a raw kernel has none: nobody proves it.
std::vector<ProofPart> parts_of(const KernelSource& source);

// Runs one part; what it owes and does not answer is unknown.
std::vector<Obligation> run_part(const ProofPart& part);
// The part's obligations, all unknown for `reason`: its prover crashed or was stopped.
std::vector<Obligation> unanswered(const ProofPart& part, const std::string& reason);

// SHA-256 of all that is compiled: the texts of kernel and launcher.
std::string code_hash(const KernelSource& source);
// Hash of the sources of provers, lowerings and what they stand on: another version answers anew.
std::string_view prover_version();

// All parts, in this process.
KernelProof prove_here(const KernelSource& source);

}  // namespace rooftile::verify
