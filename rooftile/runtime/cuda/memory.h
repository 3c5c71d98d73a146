// SPDX-License-Identifier: Apache-2.0
// Memory of a device and pinned memory of the host, and copies between them.
//
// Sizes are in bytes. Copies and fills are asynchronous: they run on the stream in its order, and
// the host memory of a copy must stay as it is until that part of the stream has ended. Allocating
// and freeing is refused on a stream that is being captured (RT-R007) and harms no capture
// elsewhere.
#pragma once

#include <cstdint>
#include <utility>

#include "rooftile/base/diag.h"
#include "rooftile/runtime/cuda/device.h"

namespace rooftile::cuda {

// Owns a block of device memory, aligned to 256 bytes; move-only. The end of its scope waits for
// nothing: whoever used it on a stream waits for that stream first.
class DeviceBuffer {
 public:
  // `stream`: where the block will be used, to see whether that is being captured. Zero bytes: a
  // null block. RT-R003 without memory, RT-R007.
  static Result<DeviceBuffer> allocate(const Device& device, int64_t bytes,
                                       abi::Stream stream = nullptr);
  // For work that this thread is capturing: the graph will use the block, so that it must outlive
  // it. The thread's capture mode allows it for a moment, which is what PyTorch's allocator does.
  static Result<DeviceBuffer> allocate_for_graph(const Device& device, int64_t bytes);
  DeviceBuffer(DeviceBuffer&& other) noexcept { *this = std::move(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(address_, other.address_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~DeviceBuffer();
  void* data() const { return reinterpret_cast<void*>(address_); }
  int64_t bytes() const { return bytes_; }
  const Device& device() const { return *device_; }

 private:
  DeviceBuffer() = default;
  const Device* device_ = nullptr;
  abi::DevicePtr address_ = 0;
  int64_t bytes_ = 0;
};

// Owns page-locked host memory, from which copies are fast and truly asynchronous; move-only.
class PinnedBuffer {
 public:
  static Result<PinnedBuffer> allocate(const Device& device, int64_t bytes,
                                       abi::Stream stream = nullptr);
  PinnedBuffer(PinnedBuffer&& other) noexcept { *this = std::move(other); }
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~PinnedBuffer();
  void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  PinnedBuffer() = default;
  const Device* device_ = nullptr;
  void* data_ = nullptr;
  int64_t bytes_ = 0;
};

Status copy_to_device(const Device& device, void* to, const void* from, int64_t bytes,
                      abi::Stream stream);
Status copy_to_host(const Device& device, void* to, const void* from, int64_t bytes,
                    abi::Stream stream);
Status copy_on_device(const Device& device, void* to, const void* from, int64_t bytes,
                      abi::Stream stream);
Status fill(const Device& device, void* to, uint8_t value, int64_t bytes, abi::Stream stream);

}  // namespace rooftile::cuda
