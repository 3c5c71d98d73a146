// SPDX-License-Identifier: Apache-2.0
// Launching a kernel: checked, and cheap. In steady state nothing is allocated, no lock is taken,
// and the driver is called twice: for the current context and for the launch.
#pragma once

#include <string>

#include "rooftile/base/diag.h"
#include "rooftile/runtime/cuda/module.h"

namespace rooftile::cuda {

// Text that is only made if something fails: what the launch was about, as in "x [16, 4096] bf16".
struct LazyText {
  std::string (*write)(const void* data) = nullptr;
  const void* data = nullptr;
  std::string str() const { return write != nullptr ? write(data) : ""; }
};

struct LaunchConfig {
  Dim3 grid;   // in blocks; a multiple of the cluster
  Dim3 block;  // in threads
  Dim3 cluster;
  uint32_t dynamic_smem_bytes = 0;
  abi::Stream stream = nullptr;  // of the device; null: its legacy default stream
  // The kernel may begin while the one before it on the stream still runs; it waits for that one's
  // results itself (griddepcontrol.wait).
  bool dependent_launch = false;
  bool cooperative = false;  // all blocks run at once
  LazyText shapes;           // for messages
};

// Gives the kernel to the stream and returns; `arguments` are pointers to the values of the
// kernel's parameters in their order, read before this returns. Allowed while the stream is being
// captured, except for a kernel that is not yet ready on the device (RT-R007). RT-R009 if the
// configuration is not one that the kernel and the device admit; RT-R005 or RT-R006 from the
// driver. The error names the kernel, its schedule and the shapes.
Status launch(const Kernel& kernel, const Device& device, const LaunchConfig& config,
              void** arguments);

// How many clusters of this configuration the device runs at once.
Result<int> max_active_clusters(const Kernel& kernel, const Device& device,
                                const LaunchConfig& config);

}  // namespace rooftile::cuda
