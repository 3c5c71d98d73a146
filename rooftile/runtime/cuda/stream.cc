// SPDX-License-Identifier: Apache-2.0
#include "rooftile/runtime/cuda/stream.h"

namespace rooftile::cuda {

bool is_capturing(const Device& device, abi::Stream stream) {
  const ContextGuard current(device);
  abi::CaptureStatus status = abi::kCaptureNone;
  const abi::Result result = device.api().StreamIsCapturing(stream, &status);
  if (result == abi::kCaptureImplicit) return true;
  return result == abi::kSuccess && status != abi::kCaptureNone;
}

uint64_t capture_id(const Device& device, abi::Stream stream) {
  if (device.api().StreamGetCaptureInfo == nullptr) return 0;
  const ContextGuard current(device);
  abi::CaptureStatus status = abi::kCaptureNone;
  uint64_t id = 0;
  const abi::Result result =
      device.api().StreamGetCaptureInfo(stream, &status, &id, nullptr, nullptr, nullptr, nullptr);
  return result == abi::kSuccess && status == abi::kCaptureActive ? id : 0;
}

Status refuse_in_capture(const Device& device, abi::Stream stream, std::string_view what) {
  if (!is_capturing(device, stream)) return {};
  return Diag{.code = ErrorCode::kCapture,
              .subject = "GPU " + std::to_string(device.ordinal()),
              .message = std::string(what) + " is not possible while the stream is being captured",
              .fix =
                  "do it before the capture begins: run the function once, with the same shapes, "
                  "outside it"};
}

Status synchronize(const Device& device, abi::Stream stream) {
  const ContextGuard current(device);
  abi::Result error = current.result();
  if (error == abi::kSuccess) error = device.api().StreamSynchronize(stream);
  if (error == abi::kSuccess) return {};
  return device.failed(error, "waiting for a stream");
}

// ---- Stream ----------------------------------------------------------------------------------

Result<Stream> Stream::create(const Device& device, int priority) {
  Stream out;
  out.device_ = &device;
  const ContextGuard current(device);
  const CaptureShield shield(device);
  abi::Result error = current.result();
  if (error == abi::kSuccess)
    error = device.api().StreamCreateWithPriority(&out.handle_, abi::kStreamNonBlocking, priority);
  if (error != abi::kSuccess) return device.failed(error, "making a stream");
  return out;
}

Stream::~Stream() {
  if (handle_ == nullptr) return;
  const ContextGuard current(*device_);
  device_->api().StreamDestroy(handle_);
}

// ---- Event -----------------------------------------------------------------------------------

Result<Event> Event::create(const Device& device, Timing timing) {
  Event out;
  out.device_ = &device;
  const ContextGuard current(device);
  abi::Result error = current.result();
  if (error == abi::kSuccess)
    error = device.api().EventCreate(&out.handle_,
                                     timing == Timing::kOn ? 0u : abi::kEventDisableTiming);
  if (error != abi::kSuccess) return device.failed(error, "making an event");
  return out;
}

Event::~Event() {
  if (handle_ == nullptr) return;
  const ContextGuard current(*device_);
  device_->api().EventDestroy(handle_);
}

Status Event::record(abi::Stream stream) {
  const ContextGuard current(*device_);
  const abi::Result error = device_->api().EventRecord(handle_, stream);
  if (error == abi::kSuccess) return {};
  return device_->failed(error, "recording an event");
}

Status Event::synchronize() const {
  const ContextGuard current(*device_);
  const abi::Result error = device_->api().EventSynchronize(handle_);
  if (error == abi::kSuccess) return {};
  return device_->failed(error, "waiting for an event");
}

Status Event::make_wait(abi::Stream stream) const {
  const ContextGuard current(*device_);
  const abi::Result error = device_->api().StreamWaitEvent(stream, handle_, 0);
  if (error == abi::kSuccess) return {};
  return device_->failed(error, "making a stream wait");
}

Result<bool> Event::done() const {
  const ContextGuard current(*device_);
  const abi::Result error = device_->api().EventQuery(handle_);
  if (error == abi::kSuccess) return true;
  if (error == abi::kNotReady) return false;
  return device_->failed(error, "asking for an event");
}

Result<float> Event::ms_since(const Event& start) const {
  float ms = 0;
  const ContextGuard current(*device_);
  const abi::Result error = device_->api().EventElapsedTime(&ms, start.handle_, handle_);
  if (error == abi::kSuccess) return ms;
  if (error == abi::kInvalidHandle || error == abi::kNotReady)
    return Diag{.code = ErrorCode::kDriver,
                .subject = "event",
                .message = "the time between two events cannot be told",
                .found = error == abi::kNotReady ? "an event that has not happened yet"
                                                 : "an event without timing, or never recorded",
                .fix = "make both with Event::Timing::kOn, record them, and wait for the second"};
  return device_->failed(error, "reading the time between two events");
}

}  // namespace rooftile::cuda
