// SPDX-License-Identifier: Apache-2.0
// Interleaved timing on a GPU, by the device's own clock.
//
// A contestant's calls are captured into a graph, often enough that starting it vanishes, and going
// through all copies of the arguments, so that no call finds its data in the L2 cache. Every round
// launches each contestant's graph once between two events. Where copies do not help (calls that
// touch little of their arguments), the cache is swept before each call and the call alone is
// timed.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "rooftile/base/diag.h"
#include "rooftile/bench/timer.h"
#include "rooftile/runtime/cuda/stream.h"

namespace rooftile::bench {

struct DeviceContestant {
  std::string name;
  // Gives one call on this copy of the arguments to the stream. Allocates and waits for nothing.
  std::function<Status(size_t set)> enqueue;
};

struct DeviceRaceOptions {
  TimingOptions timing;  // sweep_bytes counts for nothing here
  size_t sets = 1;
  // Empties the L2 cache, on the stream; empty: sets are rotated instead.
  std::function<Status()> sweep;
};

// The first Diag of any contestant ends the race.
Result<Race> device_race(const cuda::Device& device, cuda::abi::Stream stream,
                         const std::vector<DeviceContestant>& contestants,
                         const DeviceRaceOptions& options);

}  // namespace rooftile::bench
