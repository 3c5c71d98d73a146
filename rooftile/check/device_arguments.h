// SPDX-License-Identifier: Apache-2.0
// The arguments of a call in the memory of a GPU: byte for byte what the HostTensors hold, guard
// zones, padding and poison included. What a kernel did there, wrong writes too, comes back with
// download(), so that the checks are those of the host.
#pragma once

#include <map>
#include <string>

#include "rooftile/base/diag.h"
#include "rooftile/check/invoke.h"
#include "rooftile/runtime/cuda/memory.h"

namespace rooftile::check {

class DeviceArguments {
 public:
  // Room for all tensors of `arguments`, whose layouts it takes over; nothing is copied yet.
  static Result<DeviceArguments> allocate(const cuda::Device& device, const Arguments& arguments);

  // Both expect arguments of the same layouts. The copies run on `stream`; the host memory must
  // stay until they have ended.
  Status upload(const Arguments& from, cuda::abi::Stream stream);
  Status download(Arguments& to, cuda::abi::Stream stream) const;  // waits for the stream
  Status copy_from(const DeviceArguments& other, cuda::abi::Stream stream);

  // On the device, by name; an output in place has its input's view.
  const Views& views() const { return views_; }
  const std::map<std::string, double, std::less<>>& attrs() const { return attrs_; }

 private:
  explicit DeviceArguments(const cuda::Device& device) : device_(&device) {}

  const cuda::Device* device_;
  std::map<std::string, cuda::DeviceBuffer, std::less<>> buffers_;
  Views views_;
  std::map<std::string, double, std::less<>> attrs_;
};

}  // namespace rooftile::check
