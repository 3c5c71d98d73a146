// SPDX-License-Identifier: Apache-2.0
// Cubins loaded into the driver, and their kernels made ready on devices.
//
// A module is loaded once in a process, by its content, and serves all devices; it is never
// unloaded, because captured graphs may call its code. A kernel is made ready on a device once:
// attributes are set and the code is brought there, so that a launch does neither. Both are refused
// on a stream that is being captured (RT-R007). Safe from any thread.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "rooftile/base/diag.h"
#include "rooftile/runtime/cuda/device.h"

namespace rooftile::cuda {

struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;
  bool operator==(const Dim3&) const = default;
  uint64_t count() const { return uint64_t{x} * y * z; }
};

// What a launcher knows of a kernel ahead of launching it.
struct KernelSpec {
  std::string name;                 // of the entry function, as in the cubin
  uint32_t dynamic_smem_bytes = 0;  // the most that a launch will ask for
  Dim3 cluster;                     // the largest; more than 8 blocks need leave beforehand
  std::string schedule;             // for messages
  bool operator==(const KernelSpec&) const = default;
};

class Module;

class Kernel {
 public:
  const KernelSpec& spec() const { return spec_; }
  std::string description() const;  // "name, schedule ..."
  const Module& module() const { return *module_; }

  // The handle to launch on `device`; null until prepare() has been there. Costs one load.
  abi::Function function(const Device& device) const {
    return functions_[static_cast<size_t>(device.ordinal())].load(std::memory_order_acquire);
  }
  uint32_t max_threads() const { return max_threads_.load(std::memory_order_relaxed); }

  // Makes it ready on `device`; again costs one load. `stream`: where it will be launched, to see
  // whether that is being captured. RT-R009 if the kernel asks for more than the device has.
  Status prepare(const Device& device, abi::Stream stream = nullptr) const;

  // How many blocks of it an SM holds at once.
  Result<int> blocks_per_sm(const Device& device, uint32_t threads, uint32_t smem_bytes) const;

 private:
  friend class Module;
  Kernel(const Module& module, KernelSpec spec, abi::Kernel handle)
      : module_(&module), spec_(std::move(spec)), handle_(handle) {}
  Status set_attributes(const Device& device) const;

  const Module* module_;
  KernelSpec spec_;
  abi::Kernel handle_;
  mutable std::atomic<uint32_t> max_threads_ = 0;  // a block's most; the same on all devices
  mutable std::array<std::atomic<abi::Function>, kMaxDevices> functions_{};
};

class Module {
 public:
  // Loads the cubin, or finds it loaded. `label`: what it is, for messages. RT-R001 if the driver
  // does not take it.
  static Result<const Module*> load(const Device& device, std::string_view cubin,
                                    const std::string& label, abi::Stream stream = nullptr);

  // RT-R001 if the module has no such kernel. Lives as long as the process.
  Result<const Kernel*> kernel(const KernelSpec& spec) const;

  const Driver& driver() const { return *driver_; }
  const std::string& label() const { return label_; }

 private:
  friend class Kernel;
  Module() = default;
  const Driver* driver_ = nullptr;
  std::string label_;
  abi::Library handle_ = nullptr;
  mutable std::mutex mutex_;  // of kernels_, and of making kernels ready
  mutable std::vector<std::unique_ptr<Kernel>> kernels_;
};

}  // namespace rooftile::cuda
