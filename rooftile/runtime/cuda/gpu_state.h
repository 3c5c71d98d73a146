// SPDX-License-Identifier: Apache-2.0
// What there is of GPUs on this machine and why each is not used: what `rooftile doctor` says, and
// whoever has to explain a missing GPU.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "rooftile/base/diag.h"
#include "rooftile/runtime/cuda/device.h"

namespace rooftile::cuda {

struct GpuState {
  struct Gpu {
    DeviceInfo info;
    std::vector<std::string> why_not;  // empty: usable
  };
  std::string driver_path;
  std::optional<Diag> no_driver;  // why there is no driver, or no device at all
  int driver_version = 0;         // 13000
  std::vector<Gpu> gpus;

  bool any_usable() const;
};

// Looks anew at each call; makes no context.
GpuState gpu_state();

// "13.0" of 13000
std::string cuda_version_text(int version);

// Why code made by NVRTC of that major version does not run with this driver; "" if it does.
std::string why_code_too_new(int nvrtc_major, int driver_version);

}  // namespace rooftile::cuda
