// SPDX-License-Identifier: Apache-2.0
// Schedule: how a tile program runs on a machine. A plain value: printable, comparable, storable,
// searchable.
//
// The algorithm (L0) says what; everything below says how. Labels refer to named nodes of the
// program. A name that the program does not have, or a wish that cannot be met, is an error
// (RT-P001, RT-P002): nothing falls back.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "rooftile/compile/schedule_gpu.h"

namespace rooftile {

// How a product is computed.
enum class MmaMechanism : uint8_t {
  kAuto,   // the best one the target has for the dtypes: amx, dot-product instructions, FMA
  kAmx,    // 16x16 tiles
  kLanes,  // register tile, A broadcast, columns of B in the lanes (FMA, vdpbf16ps, vpdpbusd)
};

// How an operand of a product gets into the form that the mechanism wants.
enum class OperandForm : uint8_t {
  kPack,       // copied (A) or packed (B) into scratch where it is used
  kDirect,     // used as it lies in memory (right operands, where the unit can: AMX bf16)
  kPrepacked,  // the caller passes it packed (rooftile/runtime/cpu/pack.h)
  kAhead,      // packed once for the whole tensor, in a phase before
};

struct Schedule {
  std::string name;                         // "cpu_large_m"; part of the kernel's name
  std::map<std::string, int64_t> tile;      // BM, BN, ...
  std::map<std::string, MmaMechanism> mma;  // label of a kMma -> mechanism (default kAuto)
  // label of a kLoad feeding a kMma -> form (default kPack)
  std::map<std::string, OperandForm> operand;
  std::vector<std::string> keep;       // labels: values stored in scratch, not recomputed
  std::vector<std::string> recompute;  // labels: values recomputed at each use
  // false: every value in a buffer, one loop nest a value (ladder rung 2)
  bool fuse = true;
  // outputs from this size on bypass the caches (0: never)
  int64_t nontemporal_bytes = int64_t{4} << 20;
  // A parallel dimension whose neighbours advance together, so many at a time: each iteration of
  // their serial loop is run for all of them before the next begins. What they read side by side
  // in memory is then read in order.
  std::map<std::string, int64_t> gang;
  int64_t grain = 1;  // indices of the parallel space handed out at once
  // parallel indices handed out one by one, first come first served
  bool dynamic = false;
  int prefetch_rows = 1;      // row kernels: prefetch this many indices ahead
  int prefetch_bytes = 4096;  // streamed operands of small products: distance
  int threads = 0;            // 0: all

  // Target sm90: everything above but name and tile is the CPU's and not looked at, the rest is
  // here.
  gpu::Plan gpu;
  // GPU: schedules for calls whose alignment this one does not admit, tried in order
  std::vector<Schedule> otherwise;

  std::string str() const;
  bool operator==(const Schedule&) const = default;
};

}  // namespace rooftile
