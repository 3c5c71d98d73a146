// SPDX-License-Identifier: Apache-2.0
// Where a generated kernel runs: on this processor, on a GPU, or in the emulator. An executor turns
// a KernelSource into an Implementation that judge() can run on arguments of the host.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "rooftile/base/diag.h"
#include "rooftile/check/judge.h"
#include "rooftile/compile/kernel.h"

namespace rooftile::check {

class Executor {
 public:
  virtual ~Executor() = default;
  // Compiles what has to be compiled. RT-T001 where there is no compiler.
  virtual Result<Implementation> prepare(KernelSource source) = 0;
  // False: there is nothing to compile ahead.
  virtual bool compiles() const { return true; }
  // Larger calls would take minutes; 0: no limit.
  virtual double max_flops() const { return 0; }
};

std::unique_ptr<Executor> host_executor();

// The first GPU, on a stream of its own. RT-R004 with the reason if there is none that can be used.
Result<std::unique_ptr<Executor>> device_executor();

// Every run under another schedule of the emulator, derived from `seed`: runs that must be equal
// are then equal whatever the order of events.
std::unique_ptr<Executor> emulator_executor(uint64_t seed);

// By the name of a target (targets.h).
Result<std::unique_ptr<Executor>> executor_for(const std::string& target, uint64_t seed);

}  // namespace rooftile::check
