// SPDX-License-Identifier: Apache-2.0
#include "rooftile/runtime/cuda/driver.h"

#include <dlfcn.h>

#include <map>

#include "rooftile/base/env.h"
#include "rooftile/runtime/cuda/device.h"
#include "rooftile/runtime/cuda/driver_error.h"
#include "rooftile/runtime/cuda/gpu_state.h"

namespace rooftile::cuda {

namespace {

constexpr const char* kDefaultPath = "libcuda.so.1";

Diag no_gpu(std::string subject, std::string message, std::string found, std::string fix) {
  return {.code = ErrorCode::kNoGpu,
          .subject = std::move(subject),
          .message = std::move(message),
          .found = std::move(found),
          .fix = std::move(fix)};
}

// What cuInit's failures mean to the person in front of the machine.
std::string init_fix(abi::Result error) {
  switch (error) {
    case abi::kNoDevice: {
      const auto visible = env_value(EnvVar::kVisibleGpus);
      return visible ? "CUDA_VISIBLE_DEVICES is '" + *visible + "'; unset it to see all GPUs"
                     : "check that `nvidia-smi` lists a GPU here; a container needs `--gpus all`";
    }
    case abi::kStubLibrary:
      return "this is the toolkit's stub for linking, not a driver: take its folder (lib64/stubs) "
             "out "
             "of LD_LIBRARY_PATH";
    case abi::kSystemDriverMismatch:
      return "the library and the kernel module are of different driver versions: restart the "
             "machine "
             "after the update, or give the container the host's driver";
    case abi::kSystemNotReady:
      return "the fabric manager is not running (`systemctl status nvidia-fabricmanager`)";
    case abi::kCompatNotSupported:
      return "the compat package of the driver does not support this GPU: update the driver itself";
    default:
      return "look at `nvidia-smi` and the kernel log (`dmesg | grep -i nvrm`)";
  }
}

}  // namespace

Status Driver::bind(void* library) {
  const auto get = reinterpret_cast<abi::GetProcAddress>(dlsym(library, "cuGetProcAddress_v2"));
  if (get == nullptr)
    return no_gpu(path_, "the library is no CUDA driver of version 12.0 or later",
                  "it has no cuGetProcAddress_v2", "update the NVIDIA driver (580 or later)");
  std::string missing;
  const auto look_up = [&](const char* symbol, int version) {
    void* function = nullptr;
    int status = 0;
    const abi::Result result = get(symbol, &function, version, abi::kProcLegacyStream, &status);
    if (result == abi::kSuccess && function != nullptr) return function;
    if (version <= abi::kInterfaceVersion && missing.empty()) missing = symbol;
    return static_cast<void*>(nullptr);
  };
#define RT_BIND(field, version, parameters) \
  api_.field = reinterpret_cast<decltype(api_.field)>(look_up("cu" #field, version));
  RT_CUDA_ENTRY_POINTS(RT_BIND)
#undef RT_BIND
  if (missing.empty()) return {};
  return no_gpu(path_, "the CUDA driver is too old", "it has no " + missing + " of CUDA 12.0",
                "update the NVIDIA driver (580 or later)");
}

Status Driver::initialise() {
  const abi::Result initialised = api_.Init(0);
  if (initialised != abi::kSuccess)
    return no_gpu(path_, "the CUDA driver cannot be initialised", error_text(api_, initialised),
                  init_fix(initialised));
  api_.DriverGetVersion(&version_);
  if (version_ < abi::kInterfaceVersion)
    return no_gpu(path_, "the CUDA driver is too old",
                  "it supports CUDA " + cuda_version_text(version_),
                  "update the NVIDIA driver (580 or later)");
  const abi::Result counted = api_.DeviceGetCount(&num_devices_);
  if (counted != abi::kSuccess || num_devices_ == 0)
    return no_gpu(path_, "the CUDA driver shows no device", error_text(api_, counted),
                  init_fix(abi::kNoDevice));
  if (num_devices_ > kMaxDevices) num_devices_ = kMaxDevices;
  return {};
}

Result<const Driver*> Driver::open(const std::string& path) {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<Driver>>& drivers =
      *new std::map<std::string, std::unique_ptr<Driver>>;  // never destroyed: see the header
  std::lock_guard lock(mutex);
  if (const auto known = drivers.find(path); known != drivers.end()) return known->second.get();

  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    return no_gpu(
        path, "the CUDA driver library cannot be loaded",
        reason != nullptr ? reason : "no reason given",
        path == kDefaultPath
            ? "install the NVIDIA driver (580 or later); a container needs `--gpus all`"
            : "ROOFTILE_CUDA_DRIVER must name a driver library; unset it for libcuda.so.1");
  }
  std::unique_ptr<Driver> opened(new Driver);
  opened->path_ = path;
  Status status = opened->bind(library);
  if (status.ok()) status = opened->initialise();
  if (!status.ok())
    return status.diag();  // the library stays loaded: unloading drivers is not safe
  return (drivers[path] = std::move(opened)).get();
}

Result<const Device*> Driver::device(int ordinal) const {
  if (ordinal < 0 || ordinal >= num_devices_)
    return no_gpu("device " + std::to_string(ordinal), "there is no such GPU",
                  std::to_string(num_devices_) + " visible", "");
  std::atomic<const Device*>& slot = devices_[static_cast<size_t>(ordinal)];
  if (const Device* ready = slot.load(std::memory_order_acquire)) return ready;
  std::lock_guard lock(mutex_);
  if (const Device* ready = slot.load(std::memory_order_acquire)) return ready;
  Result<const Device*> made = Device::make(*this, ordinal);
  if (made.ok()) slot.store(*made, std::memory_order_release);
  return made;
}

std::string driver_path() { return env_value(EnvVar::kCudaDriver).value_or(kDefaultPath); }

Result<const Driver*> driver() { return Driver::open(driver_path()); }

Result<const Device*> device(int ordinal) {
  Result<const Driver*> opened = driver();
  if (!opened.ok()) return opened.diag();
  return (*opened)->device(ordinal);
}

}  // namespace rooftile::cuda
