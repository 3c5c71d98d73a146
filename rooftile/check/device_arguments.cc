// SPDX-License-Identifier: Apache-2.0
#include "rooftile/check/device_arguments.h"

#include <cstddef>

#include "rooftile/runtime/cuda/stream.h"

namespace rooftile::check {

Result<DeviceArguments> DeviceArguments::allocate(const cuda::Device& device,
                                                  const Arguments& arguments) {
  DeviceArguments out(device);
  out.attrs_ = arguments.attrs;
  for (const auto& [name, tensor] : arguments.tensors) {
    auto buffer =
        cuda::DeviceBuffer::allocate(device, static_cast<int64_t>(tensor.memory().size()));
    if (!buffer) return buffer.status();
    TensorView view = tensor.view();
    view.data = static_cast<std::byte*>(buffer->data()) + tensor.data_offset();
    view.device = DeviceKind::kCuda;
    view.device_id = device.ordinal();
    out.buffers_.emplace(name, std::move(*buffer));
    out.views_.emplace(name, view);
  }
  for (const auto& [output, input] : arguments.aliases)
    out.views_.insert_or_assign(output, out.views_.find(input)->second);
  return out;
}

Status DeviceArguments::upload(const Arguments& from, cuda::abi::Stream stream) {
  for (const auto& [name, tensor] : from.tensors)
    RT_RETURN_IF_ERROR(cuda::copy_to_device(*device_, buffers_.find(name)->second.data(),
                                            tensor.memory().data(),
                                            static_cast<int64_t>(tensor.memory().size()), stream));
  return {};
}

Status DeviceArguments::download(Arguments& to, cuda::abi::Stream stream) const {
  for (const auto& [name, tensor] : to.tensors)
    RT_RETURN_IF_ERROR(cuda::copy_to_host(*device_, tensor.memory().data(),
                                          buffers_.find(name)->second.data(),
                                          static_cast<int64_t>(tensor.memory().size()), stream));
  return cuda::synchronize(*device_, stream);
}

Status DeviceArguments::copy_from(const DeviceArguments& other, cuda::abi::Stream stream) {
  for (const auto& [name, buffer] : buffers_)
    RT_RETURN_IF_ERROR(cuda::copy_on_device(
        *device_, buffer.data(), other.buffers_.find(name)->second.data(), buffer.bytes(), stream));
  return {};
}

}  // namespace rooftile::check
