// SPDX-License-Identifier: Apache-2.0
// The emulator: runs an L2 kernel on the CPU, adversarially, and reports what the hardware may do
// wrong with it.
//
// Warps advance in a seeded random order; asynchronous operations land late, in pieces and in any
// order that the PTX memory model admits. Every access to memory is checked against what its
// thread has been told by barriers, fences and waits (happens-before, kept as vector clocks), so a
// missing synchronisation is reported whether or not this run's order made the numbers wrong.
// The faults are the RT-E codes of base/error_codes.h; docs/emulator.md describes the model.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "rooftile/base/diag.h"
#include "rooftile/base/dtype.h"
#include "rooftile/lanes/lanes.h"

namespace rooftile::emulate {

struct TensorArg {
  void* data = nullptr;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;  // elements
  bool initialised = true;       // false: reading what no thread has written is a fault
};

struct Launch {
  std::map<std::string, TensorArg, std::less<>> tensors;
  std::map<std::string, int64_t, std::less<>> ints;   // dims and integer scalars, by name
  std::map<std::string, double, std::less<>> floats;  // attributes
  uint64_t seed = 0;  // of the schedule; equal seeds give equal runs
  int sms = 4;        // "SMS" of the grid, and the most clusters that are resident at once
  int64_t max_statements = int64_t{1} << 32;  // of all warps together; beyond it: no progress
  // One cluster alone, by its number along x, then y, then z: of a grid that is too large to be run
  // whole. -1: all.
  int64_t only_cluster = -1;
};

struct Stats {
  int64_t statements = 0;  // executed, of all warps
  int64_t turns = 0;       // times that the scheduler chose a warp
  int64_t copies = 0;      // asynchronous copies issued
  int64_t products = 0;    // wgmma of a warpgroup, mma of a warp
  int64_t ctas = 0;
  bool too_long = false;  // stopped at max_statements
  // By tensor that held nothing before: the first element that is not written ("y[3, 1]").
  std::map<std::string, std::string> unwritten;
  // By tensor: an element that is stored again, which is no fault where the two are in order.
  std::map<std::string, std::string> rewritten;
};

// Runs the whole grid. Outputs are written in place; on a fault they hold what had been written.
// Strides and dims that the program names and `launch` does not are taken from the tensors.
Status run(const lanes::Program& program, const Launch& launch, Stats* stats = nullptr);

}  // namespace rooftile::emulate
