// SPDX-License-Identifier: Apache-2.0
// Scratch memory of kernels on a device, kept between calls so that a call in steady state
// allocates nothing.
//
// Kernels of one stream run one after the other, so they share one block a stream. A graph runs
// whenever it is launched, beside anything: calls that are captured have a block of their capture
// (and of their stream in it), which nothing else ever uses. It is allocated during the capture,
// and lives as long as the process, since nobody says when the graph has gone.
#pragma once

#include <cstdint>

#include "rooftile/base/diag.h"
#include "rooftile/runtime/cuda/device.h"

namespace rooftile::cuda {

// What a kernel may expect of its scratch memory.
enum class GpuWorkspace : uint8_t {
  kScratch,  // nothing
  kZeroed,   // zeros, which it leaves as it found them: counters and tickets
};

// At least `bytes`, aligned to 256, for work that is given to `stream` now. RT-R003 without memory.
Result<char*> device_workspace(const Device& device, abi::Stream stream, GpuWorkspace kind,
                               int64_t bytes);

}  // namespace rooftile::cuda
