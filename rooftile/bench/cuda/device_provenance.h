// SPDX-License-Identifier: Apache-2.0
// What a measurement on a GPU was made with: the device, its state before and after, the driver and
// the libraries.
#pragma once

#include <optional>
#include <string>

#include "rooftile/bench/cuda/gpu_conditions.h"

namespace rooftile::bench {

struct DeviceProvenance {
  std::string name;      // "NVIDIA H200"
  std::string driver;    // "580.159.03", "" if NVML does not tell
  std::string cuda;      // what the driver supports: "13.0"
  std::string nvrtc;     // that compiled the kernel; "" on the library route
  std::string cublaslt;  // "" if it is not there
  std::optional<GpuConditions> before, after;
};

DeviceProvenance device_provenance(const cuda::Device& device);

}  // namespace rooftile::bench
