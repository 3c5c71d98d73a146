// SPDX-License-Identifier: Apache-2.0
#include "rooftile/runtime/cuda/device.h"

#include <array>
#include <cstdio>

#include "rooftile/runtime/cuda/driver_error.h"
#include "rooftile/runtime/cuda/module.h"

namespace rooftile::cuda {

namespace {

std::string device_name(int ordinal) { return "GPU " + std::to_string(ordinal); }

std::string joined(const std::vector<std::string>& reasons) {
  std::string out;
  for (const std::string& reason : reasons) out += (out.empty() ? "" : "; ") + reason;
  return out;
}

}  // namespace

Result<DeviceInfo> device_info(const Driver& driver, int ordinal) {
  const abi::Api& api = driver.api();
  abi::DeviceHandle handle = 0;
  if (const abi::Result error = api.DeviceGet(&handle, ordinal); error != abi::kSuccess)
    return driver_error(api, error, device_name(ordinal), "looking up the device");
  // What a driver does not know is zero: no reason to refuse a device by itself.
  const auto attribute = [&](abi::DeviceAttribute which) {
    int value = 0;
    return api.DeviceGetAttribute(&value, which, handle) == abi::kSuccess ? value : 0;
  };
  DeviceInfo info;
  info.ordinal = ordinal;
  std::array<char, 128> name{};
  if (api.DeviceGetName(name.data(), name.size() - 1, handle) == abi::kSuccess)
    info.name = name.data();
  std::array<char, 32> pci{};
  std::snprintf(pci.data(), pci.size(), "%04x:%02x:%02x", attribute(abi::kAttrPciDomain) & 0xffff,
                attribute(abi::kAttrPciBus) & 0xff, attribute(abi::kAttrPciDevice) & 0xff);
  info.pci = pci.data();
  size_t bytes = 0;
  if (api.DeviceTotalMem(&bytes, handle) == abi::kSuccess)
    info.memory_bytes = static_cast<int64_t>(bytes);
  info.cc_major = attribute(abi::kAttrCcMajor);
  info.cc_minor = attribute(abi::kAttrCcMinor);
  info.num_sms = attribute(abi::kAttrNumSms);
  info.smem_per_block_bytes = attribute(abi::kAttrSmemPerBlockOptin);
  info.smem_per_sm_bytes = attribute(abi::kAttrSmemPerSm);
  info.l2_bytes = attribute(abi::kAttrL2Bytes);
  info.clock_khz = attribute(abi::kAttrClockKhz);
  info.memory_clock_khz = attribute(abi::kAttrMemoryClockKhz);
  info.memory_bus_bits = attribute(abi::kAttrMemoryBusBits);
  info.max_grid_x = attribute(abi::kAttrMaxGridX);
  info.max_grid_y = attribute(abi::kAttrMaxGridY);
  info.max_grid_z = attribute(abi::kAttrMaxGridZ);
  info.compute_prohibited = attribute(abi::kAttrComputeMode) == abi::kComputeModeProhibited;
  info.cluster_launch = attribute(abi::kAttrClusterLaunch) != 0;
  info.tensor_maps = attribute(abi::kAttrTensorMapAccess) != 0;
  return info;
}

std::vector<std::string> why_unusable(const DeviceInfo& info) {
  std::vector<std::string> reasons;
  // sm_90a code runs on compute capability 9.0 alone, not on later ones either.
  if (info.cc_major != 9 || info.cc_minor != 0) {
    reasons.push_back("its compute capability is " + std::to_string(info.cc_major) + "." +
                      std::to_string(info.cc_minor) +
                      "; the kernels are for 9.0 (H100, H200, GH200)");
    return reasons;
  }
  if (info.compute_prohibited)
    reasons.push_back(
        "its compute mode is `prohibited` (an administrator can set: nvidia-smi -c 0)");
  if (!info.cluster_launch)
    reasons.push_back("the driver does not offer launches in clusters there");
  if (!info.tensor_maps)
    reasons.push_back("the driver does not offer the tensor copy engine there (some virtual GPUs)");
  return reasons;
}

Result<const Device*> Device::make(const Driver& driver, int ordinal) {
  Result<DeviceInfo> info = device_info(driver, ordinal);
  if (!info.ok()) return info.diag();
  if (const auto reasons = why_unusable(*info); !reasons.empty())
    return Diag{.code = ErrorCode::kNoGpu,
                .subject = device_name(ordinal) + " (" + info->name + ")",
                .message = "this GPU cannot be used",
                .found = joined(reasons),
                .fix = "use the CPU, or a Hopper GPU; `rooftile doctor` lists what is there"};
  std::unique_ptr<Device> made(new Device);
  made->driver_ = &driver;
  made->info_ = std::move(*info);
  const abi::Api& api = driver.api();
  abi::Result error = api.DeviceGet(&made->handle_, ordinal);
  if (error == abi::kSuccess) error = api.DevicePrimaryCtxRetain(&made->context_, made->handle_);
  if (error != abi::kSuccess)
    return driver_error(api, error, device_name(ordinal), "making the device's context");
  return made.release();
}

Status Device::synchronize() const {
  const ContextGuard current(*this);
  abi::Result error = current.result();
  if (error == abi::kSuccess) error = api().CtxSynchronize();
  if (error == abi::kSuccess) return {};
  return failed(error, "waiting for the device");
}

Result<Device::MemoryState> Device::memory() const {
  const ContextGuard current(*this);
  size_t free_bytes = 0, total_bytes = 0;
  abi::Result error = current.result();
  if (error == abi::kSuccess) error = api().MemGetInfo(&free_bytes, &total_bytes);
  if (error != abi::kSuccess) return failed(error, "asking for its free memory");
  return MemoryState{static_cast<int64_t>(free_bytes), static_cast<int64_t>(total_bytes)};
}

Diag Device::failed(abi::Result error, std::string_view doing, std::string subject,
                    std::string when) const {
  if (is_sticky(error)) lost_.store(true, std::memory_order_relaxed);
  const std::string device = device_name(ordinal()) + " (" + info_.name + ")";
  when += (when.empty() ? "" : ", ") + std::string("on ") + device;
  const Kernel* last = last_kernel_.load(std::memory_order_relaxed);
  if (last != nullptr && is_sticky(error)) when += "; launched last there: " + last->description();
  if (subject.empty()) subject = device;
  return driver_error(api(), error, std::move(subject), doing, std::move(when));
}

}  // namespace rooftile::cuda
