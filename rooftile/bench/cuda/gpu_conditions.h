// SPDX-License-Identifier: Apache-2.0
// What a GPU was doing while it was measured: clocks, power, temperature, read from NVML, the
// driver's management library. Optional: without the library measurements are made all the same,
// and say nothing of it.
#pragma once

#include <optional>
#include <string>

#include "rooftile/runtime/cuda/device.h"

namespace rooftile::bench {

struct GpuConditions {
  int sm_mhz = 0, memory_mhz = 0;
  double power_w = 0, power_limit_w = 0;
  int temperature_c = 0;
};

std::optional<GpuConditions> gpu_conditions(const cuda::Device& device);
std::string gpu_driver_version();  // "580.159.03"; "" without NVML

}  // namespace rooftile::bench
