// SPDX-License-Identifier: Apache-2.0
// Proof of a kernel's protocol: barriers, shared memory, proxies and running products.
//
// Looks at L2 alone. `facts` are what the launcher has checked of dims and attributes: they bound
// symbols. One finding a kind of obligation: all proved, or one refuted with the story and a call
// that leads there, or unknown with the reason.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "rooftile/lanes/lanes.h"
#include "rooftile/verify/verdict.h"

namespace rooftile::verify {

std::vector<Finding> prove_protocol(const lanes::Program& kernel, const std::vector<Expr>& facts);

// What the code makes of an mbarrier, for comparing with the schedule (lanes.matches).
struct DerivedBarrier {
  std::string alloc;
  int cta = 0;
  int slot = 0;
  int arrivals = 0;
  std::set<int64_t> bytes;  // expected in a phase; {0}: none, empty: no phase is ever over
};
struct ProtocolFacts {
  std::vector<DerivedBarrier> barriers;
  size_t states = 0;  // visited
};
struct ProtocolProof {
  std::vector<Finding> findings;
  ProtocolFacts derived;
};
ProtocolProof explore_protocol(const lanes::Program& kernel, const std::vector<Expr>& facts);

}  // namespace rooftile::verify
