// SPDX-License-Identifier: Apache-2.0
// Mutants: a kernel with one mistake, of the kinds that people and compilers make.
//
// The emulator's own test: of a right kernel it must report nothing, of each mutant something (or
// the numbers must be wrong), unless the mistake happens to do no harm there.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "rooftile/lanes/lanes.h"

namespace rooftile::emulate {

enum class Mutation {
  kDropProxyFence,    // fence.proxy.async is missing
  kDropProductFence,  // wgmma.fence
  kDropInitFence,     // fence.mbarrier_init
  kDropWait,          // a wait: of a barrier, a product, a copy
  kDropMeeting,       // a barrier of threads or of the cluster
  kDropCommit,        // of a group, or of copies to a barrier
  kLeaveOneMore,      // a wait leaves one group more in flight
  kOneArrivalMore,    // a barrier is told of an arrival that does not come
  kOneArrivalLess,
  kMoreBytes,  // a barrier expects more than is copied
  kFewerBytes,
  kWrongParity,
  kShallowRing,      // the last slot of a ring is the first
  kEarlyRelease,     // an arrival comes before the wait that should precede it
  kLocalArrival,     // an arrival at a peer's barrier comes at the thread's own
  kWrongMulticast,   // one CTA of the mask is another, or missing
  kDropGuard,        // an access is not guarded
  kLooseGuard,       // < became <=
  kLongLoop,         // one step more
  kShortLoop,        // one step less
  kWrongSwizzle,     // of a matrix descriptor, or a tensor map
  kGreedyRegisters,  // setmaxnreg asks for more than there is
  kDropRelease,      // a ticket tells of nothing
  kDropRewind,       // a ticket is not zero again
  kShiftedIndex,     // an access to a tensor is one off, in one dimension
  kNarrowIndex,      // a 64-bit index is computed in 32 bits
  kSwappedOperands,  // of a product: left for right, or rows for columns
  kFoldedLayout,     // two pieces of shared memory fall into one
  kDoubleWrite,      // two threads store one element
  kDropBranch,       // what only some should do, all do
};
std::string_view mutation_name(Mutation mutation);

struct Mutant {
  Mutation kind;
  std::string site;  // the statement, before the change
  lanes::Program program;
};

// Every mutation at every place of `program` where it applies.
std::vector<Mutant> mutants(const lanes::Program& program);

}  // namespace rooftile::emulate
