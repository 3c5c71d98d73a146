// SPDX-License-Identifier: Apache-2.0
#include "rooftile/runtime/cuda/gpu_state.h"

#include <algorithm>

namespace rooftile::cuda {

bool GpuState::any_usable() const {
  return std::any_of(gpus.begin(), gpus.end(), [](const Gpu& gpu) { return gpu.why_not.empty(); });
}

GpuState gpu_state() {
  GpuState out;
  out.driver_path = driver_path();
  Result<const Driver*> opened = driver();
  if (!opened.ok()) {
    out.no_driver = opened.diag();
    return out;
  }
  out.driver_version = (*opened)->version();
  for (int i = 0; i < (*opened)->num_devices(); ++i) {
    Result<DeviceInfo> info = device_info(**opened, i);
    if (info.ok())
      out.gpus.push_back({*info, why_unusable(*info)});
    else
      out.gpus.push_back({{.ordinal = i}, {info.diag().message + ": " + info.diag().found}});
  }
  return out;
}

std::string cuda_version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string why_code_too_new(int nvrtc_major, int driver_version) {
  // Drivers run the code of every toolkit of their own major version and of earlier ones.
  if (nvrtc_major <= driver_version / 1000) return "";
  return "the driver supports CUDA " + cuda_version_text(driver_version) +
         ", and code made by NVRTC " + std::to_string(nvrtc_major) + " needs " +
         std::to_string(nvrtc_major) + ".0: update the driver";
}

}  // namespace rooftile::cuda
