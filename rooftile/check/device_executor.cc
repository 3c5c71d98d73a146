// SPDX-License-Identifier: Apache-2.0
#include "rooftile/check/device_arguments.h"
#include "rooftile/check/executor.h"
#include "rooftile/runtime/cuda/stream.h"

namespace rooftile::check {
namespace {

class DeviceExecutor : public Executor {
 public:
  DeviceExecutor(const cuda::Device& device, cuda::Stream stream)
      : device_(device), stream_(std::move(stream)) {}

  Result<Implementation> prepare(KernelSource source) override {
    auto kernel = compile(std::move(source));
    if (!kernel) return kernel.status();
    return Implementation(
        [this, kernel = *kernel](Arguments& arguments) { return run(*kernel, arguments); });
  }

 private:
  // The device's copy is made anew each time: padding and guards must be as the host has them.
  Status run(const CompiledKernel& kernel, Arguments& arguments) {
    auto there = DeviceArguments::allocate(device_, arguments);
    if (!there) return there.status();
    RT_RETURN_IF_ERROR(there->upload(arguments, stream_.get()));
    auto call = BoundCall::bind(kernel, there->views(), there->attrs());
    if (!call) return call.status();
    const StreamScope on(stream_.get());
    RT_RETURN_IF_ERROR(call->call());
    return there->download(arguments, stream_.get());
  }

  const cuda::Device& device_;
  cuda::Stream stream_;
};

}  // namespace

Result<std::unique_ptr<Executor>> device_executor() {
  auto device = cuda::device(0);
  if (!device) return device.status();
  auto stream = cuda::Stream::create(**device);
  if (!stream) return stream.status();
  return std::unique_ptr<Executor>(std::make_unique<DeviceExecutor>(**device, std::move(*stream)));
}

}  // namespace rooftile::check
