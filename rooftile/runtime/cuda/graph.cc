// SPDX-License-Identifier: Apache-2.0
#include "rooftile/runtime/cuda/graph.h"

#include "rooftile/runtime/cuda/stream.h"

namespace rooftile::cuda {

// ---- Graph -----------------------------------------------------------------------------------

Graph::~Graph() {
  if (handle_ != nullptr) device_->api().GraphDestroy(handle_);
}

Result<size_t> Graph::num_nodes() const {
  size_t count = 0;
  const abi::Result error = device_->api().GraphGetNodes(handle_, nullptr, &count);
  if (error != abi::kSuccess) return device_->failed(error, "counting the nodes of a graph");
  return count;
}

// ---- Capture ---------------------------------------------------------------------------------

Result<Capture> Capture::begin(const Device& device, abi::Stream stream) {
  if (stream == nullptr)
    return Diag{.code = ErrorCode::kCapture,
                .subject = "GPU " + std::to_string(device.ordinal()),
                .message = "the default stream cannot be captured",
                .fix = "use a stream of your own"};
  RT_RETURN_IF_ERROR(refuse_in_capture(device, stream, "beginning a capture"));
  const ContextGuard current(device);
  const abi::Result error = device.api().StreamBeginCapture(stream, abi::kCaptureThreadLocal);
  if (error != abi::kSuccess) return device.failed(error, "beginning a capture");
  Capture out;
  out.device_ = &device;
  out.stream_ = stream;
  return out;
}

Capture::~Capture() {
  if (device_ == nullptr) return;
  const ContextGuard current(*device_);
  abi::Graph unwanted = nullptr;
  device_->api().StreamEndCapture(stream_, &unwanted);
  if (unwanted != nullptr) device_->api().GraphDestroy(unwanted);
}

Result<Graph> Capture::end() {
  const Device* device = std::exchange(device_, nullptr);
  if (device == nullptr)
    return Diag{.code = ErrorCode::kCapture,
                .subject = "stream capture",
                .message = "the capture has ended already"};
  const ContextGuard current(*device);
  Graph out;
  out.device_ = device;
  const abi::Result error = device->api().StreamEndCapture(stream_, &out.handle_);
  if (error != abi::kSuccess) return device->failed(error, "ending a capture");
  return out;
}

// ---- GraphExec -------------------------------------------------------------------------------

Result<GraphExec> GraphExec::instantiate(const Graph& graph) {
  const Device& device = graph.device();
  const ContextGuard current(device);
  const CaptureShield shield(device);
  GraphExec out;
  out.device_ = &device;
  const abi::Result error = device.api().GraphInstantiateWithFlags(&out.handle_, graph.get(), 0);
  if (error != abi::kSuccess) return device.failed(error, "making a graph ready to launch");
  return out;
}

GraphExec::~GraphExec() {
  if (handle_ != nullptr) device_->api().GraphExecDestroy(handle_);
}

Status GraphExec::launch(abi::Stream stream) const {
  const ContextGuard current(*device_);
  const abi::Result error = device_->api().GraphLaunch(handle_, stream);
  if (error == abi::kSuccess) return {};
  return device_->failed(error, "launching a graph");
}

Status GraphExec::update(const Graph& graph) {
  const ContextGuard current(*device_);
  abi::GraphExecUpdateInfo info{};
  const abi::Result error = device_->api().GraphExecUpdate(handle_, graph.get(), &info);
  if (error == abi::kSuccess) return {};
  Diag diag = device_->failed(error, "updating a graph");
  if (error == abi::kGraphExecUpdateFailure) {
    diag.when = "update result " + std::to_string(info.result);
    diag.fix = "the work has changed, not only its arguments: instantiate the new graph";
  }
  return diag;
}

}  // namespace rooftile::cuda
