// SPDX-License-Identifier: Apache-2.0
// CUDA text of the kernels that measure a Hopper GPU's ceilings: products over shared memory alone,
// multiply-adds over registers alone, streams through memory, and nothing at all.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rooftile::bench {

// extern "C" void <symbol>(float* out, int iterations): one block of `threads` a multiprocessor.
struct DevicePeakKernel {
  std::string dtype, mechanism, symbol;
  double flops_per_iteration = 0;  // of a block
  uint32_t threads = 256, smem_bytes = 0;
};
std::vector<DevicePeakKernel> device_peak_kernels();

// Streams: rt_read(const void* from, i64 bytes, u32* out), rt_copy(void* to, const void* from,
// i64 bytes): blocks of kStreamThreads; `bytes` a multiple of kStreamChunk. And rt_empty().
inline constexpr uint32_t kStreamThreads = 512;
inline constexpr int64_t kStreamChunk = int64_t{kStreamThreads} * 16 * 4;

std::string ceiling_kernels_text();  // all of them, one text

}  // namespace rooftile::bench
