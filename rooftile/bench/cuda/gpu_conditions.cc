// SPDX-License-Identifier: Apache-2.0
#include "rooftile/bench/cuda/gpu_conditions.h"

#include <dlfcn.h>

namespace rooftile::bench {
namespace {

// NVML's documented entry points; every one returns 0 for success.
using Handle = struct NvmlDeviceImpl*;
struct Nvml {
  int (*init)() = nullptr;
  int (*driver_version)(char* text, unsigned bytes) = nullptr;
  int (*by_pci)(const char* id, Handle* device) = nullptr;
  int (*clock)(Handle device, int which, unsigned* mhz) = nullptr;
  int (*power)(Handle device, unsigned* milliwatts) = nullptr;
  int (*power_limit)(Handle device, unsigned* milliwatts) = nullptr;
  int (*temperature)(Handle device, int sensor, unsigned* celsius) = nullptr;
};
enum : int { kClockSm = 1, kClockMemory = 2 };
enum : int { kSensorGpu = 0 };

template <class Function>
bool bind(void* library, const char* symbol, Function*& to) {
  to = reinterpret_cast<Function*>(dlsym(library, symbol));
  return to != nullptr;
}

// Null if it is not there or does not work.
const Nvml* nvml() {
  static const Nvml* const loaded = []() -> const Nvml* {
    void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return nullptr;
    static Nvml api;
    const bool complete = bind(library, "nvmlInit_v2", api.init) &&
                          bind(library, "nvmlSystemGetDriverVersion", api.driver_version) &&
                          bind(library, "nvmlDeviceGetHandleByPciBusId_v2", api.by_pci) &&
                          bind(library, "nvmlDeviceGetClockInfo", api.clock) &&
                          bind(library, "nvmlDeviceGetPowerUsage", api.power) &&
                          bind(library, "nvmlDeviceGetEnforcedPowerLimit", api.power_limit) &&
                          bind(library, "nvmlDeviceGetTemperature", api.temperature);
    return complete && api.init() == 0 ? &api : nullptr;
  }();
  return loaded;
}

}  // namespace

std::optional<GpuConditions> gpu_conditions(const cuda::Device& device) {
  const Nvml* api = nvml();
  Handle handle = nullptr;
  // The driver writes "0000:1b:00"; NVML wants the function, too.
  if (api == nullptr || api->by_pci((device.info().pci + ".0").c_str(), &handle) != 0)
    return std::nullopt;
  // What the device does not tell stays 0.
  unsigned sm = 0, memory = 0, power = 0, limit = 0, celsius = 0;
  api->clock(handle, kClockSm, &sm);
  api->clock(handle, kClockMemory, &memory);
  api->power(handle, &power);
  api->power_limit(handle, &limit);
  api->temperature(handle, kSensorGpu, &celsius);
  return GpuConditions{static_cast<int>(sm), static_cast<int>(memory), power / 1e3, limit / 1e3,
                       static_cast<int>(celsius)};
}

std::string gpu_driver_version() {
  const Nvml* api = nvml();
  char text[96] = "";
  if (api == nullptr || api->driver_version(text, sizeof text) != 0) return "";
  return text;
}

}  // namespace rooftile::bench
