// SPDX-License-Identifier: Apache-2.0
#include "rooftile/runtime/cuda/memory.h"

#include "rooftile/runtime/cuda/stream.h"

namespace rooftile::cuda {

namespace {

abi::DevicePtr address_of(const void* pointer) {
  return static_cast<abi::DevicePtr>(reinterpret_cast<uintptr_t>(pointer));
}

// "allocating 1.5 GB of device memory"
std::string allocating(int64_t bytes, std::string_view where) {
  std::string amount = bytes < (int64_t{1} << 20) ? std::to_string(bytes) + " bytes"
                                                  : std::to_string(bytes >> 20) + " MiB";
  return "allocating " + amount + " of " + std::string(where) + " memory";
}

// Says how much there is, where there was too little.
Diag allocation_failed(const Device& device, abi::Result error, int64_t bytes,
                       std::string_view where) {
  std::string when;
  if (error == abi::kOutOfMemory && where == "device")
    if (const auto memory = device.memory(); memory.ok())
      when = std::to_string(memory->free_bytes >> 20) + " of " +
             std::to_string(memory->total_bytes >> 20) + " MiB free";
  return device.failed(error, allocating(bytes, where), "", std::move(when));
}

template <class Call>
Status on_device(const Device& device, std::string_view doing, int64_t bytes, const Call& call) {
  if (bytes == 0) return {};
  const ContextGuard current(device);
  abi::Result error = current.result();
  if (error == abi::kSuccess) error = call(device.api());
  if (error == abi::kSuccess) return {};
  return device.failed(error, doing, "", std::to_string(bytes) + " bytes");
}

}  // namespace

// ---- DeviceBuffer ----------------------------------------------------------------------------

Result<DeviceBuffer> DeviceBuffer::allocate(const Device& device, int64_t bytes,
                                            abi::Stream stream) {
  if (bytes > 0) RT_RETURN_IF_ERROR(refuse_in_capture(device, stream, "allocating device memory"));
  return allocate_for_graph(device, bytes);
}

Result<DeviceBuffer> DeviceBuffer::allocate_for_graph(const Device& device, int64_t bytes) {
  DeviceBuffer out;
  out.device_ = &device;
  if (bytes == 0) return out;
  const ContextGuard current(device);
  const CaptureShield shield(device);
  abi::Result error = current.result();
  if (error == abi::kSuccess)
    error = device.api().MemAlloc(&out.address_, static_cast<size_t>(bytes));
  if (error != abi::kSuccess) return allocation_failed(device, error, bytes, "device");
  out.bytes_ = bytes;
  return out;
}

DeviceBuffer::~DeviceBuffer() {
  if (address_ == 0) return;
  const ContextGuard current(*device_);
  const CaptureShield shield(*device_);
  device_->api().MemFree(address_);
}

// ---- PinnedBuffer ----------------------------------------------------------------------------

Result<PinnedBuffer> PinnedBuffer::allocate(const Device& device, int64_t bytes,
                                            abi::Stream stream) {
  PinnedBuffer out;
  out.device_ = &device;
  if (bytes == 0) return out;
  RT_RETURN_IF_ERROR(refuse_in_capture(device, stream, "allocating pinned memory"));
  const ContextGuard current(device);
  const CaptureShield shield(device);
  abi::Result error = current.result();
  if (error == abi::kSuccess)
    error = device.api().MemHostAlloc(&out.data_, static_cast<size_t>(bytes), 0);
  if (error != abi::kSuccess) return allocation_failed(device, error, bytes, "pinned host");
  out.bytes_ = bytes;
  return out;
}

PinnedBuffer::~PinnedBuffer() {
  if (data_ == nullptr) return;
  const ContextGuard current(*device_);
  const CaptureShield shield(*device_);
  device_->api().MemFreeHost(data_);
}

// ---- copies ----------------------------------------------------------------------------------

Status copy_to_device(const Device& device, void* to, const void* from, int64_t bytes,
                      abi::Stream stream) {
  return on_device(device, "copying to the device", bytes, [&](const abi::Api& api) {
    return api.MemcpyHtoDAsync(address_of(to), from, static_cast<size_t>(bytes), stream);
  });
}

Status copy_to_host(const Device& device, void* to, const void* from, int64_t bytes,
                    abi::Stream stream) {
  return on_device(device, "copying to the host", bytes, [&](const abi::Api& api) {
    return api.MemcpyDtoHAsync(to, address_of(from), static_cast<size_t>(bytes), stream);
  });
}

Status copy_on_device(const Device& device, void* to, const void* from, int64_t bytes,
                      abi::Stream stream) {
  return on_device(device, "copying on the device", bytes, [&](const abi::Api& api) {
    return api.MemcpyDtoDAsync(address_of(to), address_of(from), static_cast<size_t>(bytes),
                               stream);
  });
}

Status fill(const Device& device, void* to, uint8_t value, int64_t bytes, abi::Stream stream) {
  return on_device(device, "filling device memory", bytes, [&](const abi::Api& api) {
    return api.MemsetD8Async(address_of(to), value, static_cast<size_t>(bytes), stream);
  });
}

}  // namespace rooftile::cuda
