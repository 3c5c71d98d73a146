// SPDX-License-Identifier: Apache-2.0
// One GPU: what it is, whether Rooftile can use it, and its context.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "rooftile/base/diag.h"
#include "rooftile/runtime/cuda/driver.h"

namespace rooftile::cuda {

class Kernel;

struct DeviceInfo {
  int ordinal = 0;
  std::string name;
  std::string pci;  // "0000:1b:00"
  int cc_major = 0, cc_minor = 0;
  int num_sms = 0;
  int64_t memory_bytes = 0;
  int64_t smem_per_block_bytes = 0;  // the most a block can opt in to: 232448 on Hopper
  int64_t smem_per_sm_bytes = 0;
  int64_t l2_bytes = 0;
  int clock_khz = 0;         // the SM's peak; 0 where the driver does not tell
  int memory_clock_khz = 0;  // the memory's peak; 0 where the driver does not tell
  int memory_bus_bits = 0;
  int max_grid_x = 0, max_grid_y = 0, max_grid_z = 0;
  bool compute_prohibited = false;  // set so by `nvidia-smi -c`
  bool cluster_launch = false, tensor_maps = false;
};

// What the driver says of a device; makes no context. RT-R005.
Result<DeviceInfo> device_info(const Driver& driver, int ordinal);

// Every reason why Rooftile's kernels do not run on it; empty: they do.
std::vector<std::string> why_unusable(const DeviceInfo& info);

class Device {
 public:
  const Driver& driver() const { return *driver_; }
  const abi::Api& api() const { return driver_->api(); }
  const DeviceInfo& info() const { return info_; }
  int ordinal() const { return info_.ordinal; }
  abi::Context context() const { return context_; }
  abi::DeviceHandle handle() const { return handle_; }

  // Waits for all work of the device. RT-R006 if any of it failed.
  Status synchronize() const;

  struct MemoryState {
    int64_t free_bytes = 0, total_bytes = 0;
  };
  Result<MemoryState> memory() const;

  // Whether a failure has ended the use of this device in this process; once true, it stays.
  bool lost() const { return lost_.load(std::memory_order_relaxed); }

  // Makes the readable error of a failed call, and notes a failure that is for good. `subject` "":
  // the device; then the last kernel launched is named, which may be the one to blame.
  Diag failed(abi::Result error, std::string_view doing, std::string subject = "",
              std::string when = "") const;

  // The kernel launched last, from whatever thread; a hint for error messages alone.
  void note_launch(const Kernel* kernel) const {
    last_kernel_.store(kernel, std::memory_order_relaxed);
  }

 private:
  friend class Driver;
  static Result<const Device*> make(const Driver& driver, int ordinal);
  Device() = default;

  const Driver* driver_ = nullptr;
  DeviceInfo info_;
  abi::DeviceHandle handle_ = 0;
  abi::Context context_ = nullptr;
  mutable std::atomic<bool> lost_ = false;
  mutable std::atomic<const Kernel*> last_kernel_ = nullptr;
};

// Makes a device's context current for a scope, and puts back what was. Costs one call where it is
// current already.
class ContextGuard {
 public:
  explicit ContextGuard(const Device& device) : api_(device.api()) {
    result_ = api_.CtxGetCurrent(&before_);
    if (result_ != abi::kSuccess || before_ == device.context()) return;
    result_ = api_.CtxSetCurrent(device.context());
    changed_ = result_ == abi::kSuccess;
  }
  ~ContextGuard() {
    if (changed_) api_.CtxSetCurrent(before_);
  }
  ContextGuard(const ContextGuard&) = delete;
  ContextGuard& operator=(const ContextGuard&) = delete;
  abi::Result result() const { return result_; }

 private:
  const abi::Api& api_;
  abi::Context before_ = nullptr;
  abi::Result result_ = abi::kSuccess;
  bool changed_ = false;
};

}  // namespace rooftile::cuda
