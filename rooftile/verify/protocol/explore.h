// SPDX-License-Identifier: Apache-2.0
// Every state that a kernel's protocol can reach, whatever the trip counts.
//
// One order of ready warps is run; decisions are the only branching. That is enough, since
//   - mbarriers: an arrival, or bytes, that come earlier or later count in the same phase, and a
//     wait passes for the same phase: checked at every step (barriers.cc), not assumed;
//   - named barriers and the cluster's: a warp that arrives again knows that those before have met,
//     checked likewise; a warp that waits is released by the hardware, and misses nothing;
//   - setmaxnreg only ever takes from what was given back, and nobody asks for what is left;
//   - copies and products end at any time after their issue and before somebody knows: whether an
//     access may meet one is asked of knowledge, not of time;
//   - lanes that part and meet again are run side by side; nothing is said to be ordered by it.
// Where that fails, the exploration refuses: atomics on shared memory, loops that poll.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rooftile/verify/protocol/machine.h"

namespace rooftile::verify::protocol {

struct Exploration {
  bool complete = false;  // every state was seen, and none is wrong
  size_t states = 0;
  std::string unknown;  // why not
  bool faulty = false;
  Fault fault{Kind::kNoDeadlock, "", -1, -1};
  std::string place;
  std::vector<std::string> waits;                  // of a deadlock
  std::vector<std::pair<AtomId, bool>> decisions;  // that lead there, in order
  std::optional<Env> call;                         // that answers them so
  std::map<std::pair<int, int64_t>, BarrierUse> barriers;
};

// A call that answers decisions so; nullopt: none is known.
using FindCall = std::function<std::optional<Env>(const std::vector<std::pair<AtomId, bool>>&)>;

// A fault to which no call leads (conditions that exclude each other are both answered yes) is not
// the last word: the exploration goes on for one that has a call.
Exploration explore(const Flat& flat, Terms& terms, const FindCall& find_call,
                    size_t most_states = 20000);

}  // namespace rooftile::verify::protocol
