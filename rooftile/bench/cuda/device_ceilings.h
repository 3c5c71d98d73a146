// SPDX-License-Identifier: Apache-2.0
// The ceilings of a GPU, measured: peak rate of products by dtype and of multiply-adds, bandwidth
// of reading and copying, cost of a launch inside a graph. Kept like those of the processor
// (roofline.h), under the device's name.
#pragma once

#include <functional>

#include "rooftile/base/diag.h"
#include "rooftile/bench/roofline.h"
#include "rooftile/runtime/cuda/memory.h"
#include "rooftile/runtime/cuda/module.h"

namespace rooftile::bench {

// Measured once in a process at most, and kept; then from the cache.
Result<Ceilings> device_ceilings(const cuda::Device& device);
// Measured now, whatever the cache holds, and kept.
Result<Ceilings> calibrate_device(const cuda::Device& device);

// A kernel of ceiling_kernels.h, loaded.
Result<const cuda::Kernel*> ceiling_kernel(const cuda::Device& device, const std::string& symbol,
                                           uint32_t smem_bytes = 0);

// Reads twice as much memory as the L2 cache holds, so that nothing else is left in it.
class L2Sweep {
 public:
  static Result<L2Sweep> make(const cuda::Device& device, cuda::abi::Stream stream);
  Status run() const;
  int64_t bytes() const { return memory_.bytes(); }

 private:
  L2Sweep(const cuda::Kernel& kernel, cuda::DeviceBuffer memory, cuda::abi::Stream stream)
      : kernel_(&kernel), memory_(std::move(memory)), stream_(stream) {}
  const cuda::Kernel* kernel_;
  cuda::DeviceBuffer memory_;
  cuda::abi::Stream stream_;
};

// The first word of a device's name that tells it apart, in lower case: "NVIDIA H200" is h200.
std::string short_device_name(const std::string& name);

}  // namespace rooftile::bench
