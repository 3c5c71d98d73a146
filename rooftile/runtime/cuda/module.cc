// SPDX-License-Identifier: Apache-2.0
#include "rooftile/runtime/cuda/module.h"

#include <algorithm>
#include <map>

#include "rooftile/base/hash.h"
#include "rooftile/runtime/cuda/driver_error.h"
#include "rooftile/runtime/cuda/gpu_state.h"
#include "rooftile/runtime/cuda/stream.h"

namespace rooftile::cuda {

namespace {

// What a block has without asking: up to here no attribute is needed.
constexpr int64_t kSmemWithoutOptIn = 48 << 10;
// Clusters of more blocks are not portable and need an attribute.
constexpr uint64_t kPortableCluster = 8;

Diag load_failed(const Driver& driver, abi::Result error, const std::string& label) {
  Diag diag = driver_error(driver.api(), error, label, "loading the kernel's code");
  if (diag.code == ErrorCode::kDriver) diag.code = ErrorCode::kLoad;
  diag.when = "driver for CUDA " + cuda_version_text(driver.version());
  return diag;
}

}  // namespace

// ---- Kernel ----------------------------------------------------------------------------------

std::string Kernel::description() const {
  return spec_.name + (spec_.schedule.empty() ? "" : ", schedule " + spec_.schedule);
}

Status Kernel::set_attributes(const Device& device) const {
  const abi::Api& api = device.api();
  int max_threads = 0;
  abi::Result error =
      api.KernelGetAttribute(&max_threads, abi::kFuncMaxThreadsPerBlock, handle_, device.handle());
  if (error != abi::kSuccess)
    return device.failed(error, "reading the kernel's attributes", description());
  max_threads_.store(static_cast<uint32_t>(max_threads), std::memory_order_relaxed);
  int static_bytes = 0;
  error =
      api.KernelGetAttribute(&static_bytes, abi::kFuncStaticSmemBytes, handle_, device.handle());
  if (error != abi::kSuccess)
    return device.failed(error, "reading the kernel's attributes", description());
  const int64_t smem_static = static_bytes, smem = smem_static + spec_.dynamic_smem_bytes;
  if (smem > device.info().smem_per_block_bytes)
    return Diag{.code = ErrorCode::kLaunch,
                .subject = description(),
                .message = "the kernel asks for more shared memory than a block can have",
                .found = std::to_string(smem_static) + " static + " +
                         std::to_string(spec_.dynamic_smem_bytes) + " dynamic bytes",
                .expected = "at most " + std::to_string(device.info().smem_per_block_bytes) +
                            " bytes on " + device.info().name,
                .fix = "fewer stages or smaller tiles in the schedule"};
  // All that is left, so that kernels which share the entry function do not lower each other's.
  if (smem > kSmemWithoutOptIn)
    error =
        api.KernelSetAttribute(abi::kFuncMaxDynamicSmemBytes,
                               static_cast<int>(device.info().smem_per_block_bytes - smem_static),
                               handle_, device.handle());
  if (error == abi::kSuccess && spec_.cluster.count() > kPortableCluster)
    error = api.KernelSetAttribute(abi::kFuncNonPortableCluster, 1, handle_, device.handle());
  if (error == abi::kSuccess) return {};
  return device.failed(error, "setting the kernel's attributes", description());
}

Status Kernel::prepare(const Device& device, abi::Stream stream) const {
  if (function(device) != nullptr) return {};
  if (&device.driver() != &module_->driver())
    return Diag{.subject = description(), .message = "the device belongs to another driver"};
  RT_RETURN_IF_ERROR(
      refuse_in_capture(device, stream, "making kernel " + spec_.name + " ready on the device"));
  std::lock_guard lock(module_->mutex_);
  if (function(device) != nullptr) return {};
  const ContextGuard current(device);
  const CaptureShield shield(device);
  RT_RETURN_IF_ERROR(set_attributes(device));
  abi::Function made = nullptr;
  abi::Result error = current.result();
  if (error == abi::kSuccess) error = device.api().KernelGetFunction(&made, handle_);
  // With lazy loading the code would otherwise come with the first launch, which may be captured.
  if (error == abi::kSuccess && device.api().FuncLoad != nullptr)
    error = device.api().FuncLoad(made);
  if (error != abi::kSuccess)
    return device.failed(error, "bringing the kernel there", description());
  functions_[static_cast<size_t>(device.ordinal())].store(made, std::memory_order_release);
  return {};
}

Result<int> Kernel::blocks_per_sm(const Device& device, uint32_t threads,
                                  uint32_t smem_bytes) const {
  RT_RETURN_IF_ERROR(prepare(device));
  const ContextGuard current(device);
  int blocks = 0;
  const abi::Result error = device.api().OccupancyMaxActiveBlocksPerMultiprocessor(
      &blocks, function(device), static_cast<int>(threads), smem_bytes);
  if (error != abi::kSuccess)
    return device.failed(error, "asking for the kernel's occupancy", description());
  return blocks;
}

// ---- Module ----------------------------------------------------------------------------------

Result<const Module*> Module::load(const Device& device, std::string_view cubin,
                                   const std::string& label, abi::Stream stream) {
  using Key = std::pair<const Driver*, std::string>;
  static std::mutex mutex;
  static std::map<Key, std::unique_ptr<Module>>& loaded =
      *new std::map<Key, std::unique_ptr<Module>>;  // never destroyed: see the header
  const Driver& driver = device.driver();
  Key key(&driver, sha256_hex(cubin));
  std::lock_guard lock(mutex);
  if (const auto known = loaded.find(key); known != loaded.end()) return known->second.get();

  RT_RETURN_IF_ERROR(refuse_in_capture(device, stream, "loading a kernel"));
  const ContextGuard current(device);
  const CaptureShield shield(device);
  std::unique_ptr<Module> made(new Module);
  made->driver_ = &driver;
  made->label_ = label;
  // The driver reads from the start of an ELF file what it is and how long; it copies all it needs.
  const abi::Result error = driver.api().LibraryLoadData(&made->handle_, cubin.data(), nullptr,
                                                         nullptr, 0, nullptr, nullptr, 0);
  if (error != abi::kSuccess) return load_failed(driver, error, label);
  return (loaded[std::move(key)] = std::move(made)).get();
}

Result<const Kernel*> Module::kernel(const KernelSpec& spec) const {
  std::lock_guard lock(mutex_);
  const auto known = std::find_if(kernels_.begin(), kernels_.end(),
                                  [&](const auto& kernel) { return kernel->spec() == spec; });
  if (known != kernels_.end()) return known->get();
  abi::Kernel handle = nullptr;
  const abi::Result error = driver_->api().LibraryGetKernel(&handle, handle_, spec.name.c_str());
  if (error == abi::kNotFound)
    return Diag{.code = ErrorCode::kLoad,
                .subject = label_,
                .message = "the compiled code has no kernel `" + spec.name + "`"};
  if (error != abi::kSuccess)
    return driver_error(driver_->api(), error, label_, "looking up kernel " + spec.name);
  kernels_.push_back(std::unique_ptr<Kernel>(new Kernel(*this, spec, handle)));
  return kernels_.back().get();
}

}  // namespace rooftile::cuda
