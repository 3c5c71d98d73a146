// SPDX-License-Identifier: Apache-2.0
// Streams, events, and what stream capture allows.
//
// Functions take a raw abi::Stream, so that a caller's own stream (torch's, say) works as well as
// one made here; null is the legacy default stream of the device. Owners are move-only and give
// back at the end of their scope; a failure there has nobody to go to and is dropped.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include "rooftile/base/diag.h"
#include "rooftile/runtime/cuda/device.h"

namespace rooftile::cuda {

// Whether work given to `stream` now goes into a graph instead of to the device. Null counts as
// capturing where a capture elsewhere forbids its use.
bool is_capturing(const Device& device, abi::Stream stream);

// Which capture that work goes into; 0: none, or a driver before 12.3 that does not tell. No other
// capture of the process has the same number.
uint64_t capture_id(const Device& device, abi::Stream stream);

// RT-R007 if `stream` is being captured. `what`: the thing that capture forbids, as in "loading a
// kernel".
Status refuse_in_capture(const Device& device, abi::Stream stream, std::string_view what);

// Lets this thread allocate and load while other threads capture in global mode, as they would
// otherwise lose their capture. Does not make it legal on a stream that is being captured.
class CaptureShield {
 public:
  explicit CaptureShield(const Device& device) : api_(device.api()) {
    set_ = api_.ThreadExchangeStreamCaptureMode(&mode_) == abi::kSuccess;
  }
  ~CaptureShield() {
    if (set_) api_.ThreadExchangeStreamCaptureMode(&mode_);
  }
  CaptureShield(const CaptureShield&) = delete;
  CaptureShield& operator=(const CaptureShield&) = delete;

 private:
  const abi::Api& api_;
  abi::CaptureMode mode_ = abi::kCaptureRelaxed;
  bool set_ = false;
};

// Waits until all work of `stream` has ended. RT-R006 if any of it failed.
Status synchronize(const Device& device, abi::Stream stream);

class Stream {
 public:
  // Does not synchronise with the default stream. `priority`: lower numbers go first. RT-R005.
  static Result<Stream> create(const Device& device, int priority = 0);
  Stream(Stream&& other) noexcept { *this = std::move(other); }
  Stream& operator=(Stream&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Stream();
  abi::Stream get() const { return handle_; }
  const Device& device() const { return *device_; }
  Status synchronize() const { return cuda::synchronize(*device_, handle_); }

 private:
  Stream() = default;
  const Device* device_ = nullptr;
  abi::Stream handle_ = nullptr;
};

class Event {
 public:
  enum class Timing : uint8_t { kOff, kOn };
  static Result<Event> create(const Device& device, Timing timing = Timing::kOff);
  Event(Event&& other) noexcept { *this = std::move(other); }
  Event& operator=(Event&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Event();
  abi::Event get() const { return handle_; }

  Status record(abi::Stream stream);
  Status synchronize() const;                  // waits for what was recorded; RT-R006 if it failed
  Status make_wait(abi::Stream stream) const;  // later work of `stream` waits for it
  Result<bool> done() const;
  // Milliseconds between two recorded events with timing, both done.
  Result<float> ms_since(const Event& start) const;

 private:
  Event() = default;
  const Device* device_ = nullptr;
  abi::Event handle_ = nullptr;
};

}  // namespace rooftile::cuda
