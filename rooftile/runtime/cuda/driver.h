// SPDX-License-Identifier: Apache-2.0
// The CUDA driver, loaded at run time, and the devices it shows.
//
// A Driver and its Devices live as long as the process: kernels of captured graphs and tensors of
// other libraries may outlast any owner, and at exit the driver may be gone before us. Everything
// here may be called from any thread.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "rooftile/base/diag.h"
#include "rooftile/runtime/cuda/driver_abi.h"

namespace rooftile::cuda {

class Device;

inline constexpr int kMaxDevices = 64;

class Driver {
 public:
  // Loads `path`, once in a process, and initialises it. RT-R004 with the reason if there is no
  // usable driver (no library, not a driver, too old, no device). A failure is not remembered.
  static Result<const Driver*> open(const std::string& path);

  const abi::Api& api() const { return api_; }
  const std::string& path() const { return path_; }
  int version() const { return version_; }  // 13000: the newest CUDA it supports
  int num_devices() const { return num_devices_; }

  // The device, made ready at its first use: its primary context is retained and never released.
  // RT-R004 if there is no such device or it cannot run Rooftile's kernels.
  Result<const Device*> device(int ordinal) const;

 private:
  Driver() = default;
  Status bind(void* library);
  Status initialise();

  abi::Api api_;
  std::string path_;
  int version_ = 0;
  int num_devices_ = 0;
  mutable std::mutex mutex_;
  mutable std::array<std::atomic<const Device*>, kMaxDevices> devices_{};
};

// The library that is used: ROOFTILE_CUDA_DRIVER, or libcuda.so.1.
std::string driver_path();

// The driver at driver_path().
Result<const Driver*> driver();

// Shorthand for driver() and its device.
Result<const Device*> device(int ordinal);

}  // namespace rooftile::cuda
