// SPDX-License-Identifier: Apache-2.0
#include "rooftile/runtime/call.h"

#include <array>
#include <string_view>

#include "rooftile/runtime/workspace.h"

namespace rooftile {
namespace {

ErrorCode code_from_text(std::string_view text) {
#define RT_MATCH(name, code, meaning) \
  if (text == (code)) return ErrorCode::name;
  RT_ERROR_CODES(RT_MATCH)
#undef RT_MATCH
  return ErrorCode::kInternal;
}

// The error of this thread's running call. A launcher raises at most one.
thread_local Diag raised;

void capture(const RtError* error) {
  raised = {};
  raised.code = code_from_text(error->code);
  raised.subject = error->subject;
  raised.message = error->message;
  raised.argument = error->argument;
  raised.found = error->found;
  raised.expected = error->expected;
  raised.when = error->when;
  raised.fix = error->fix;
}

thread_local void* current_stream = nullptr;
void* stream_of_thread(int32_t) { return current_stream; }

const RtHostApi kHostApi = {kRtHostApiMagic, &capture, &thread_workspace, &stream_of_thread};

DLTensor as_dlpack(const TensorView& view) {
  const DTypeInfo& dtype = info(view.dtype);
  DLTensor tensor{};
  tensor.data = view.data;
  tensor.device = {static_cast<int32_t>(view.device), view.device_id};
  tensor.ndim = view.rank;
  tensor.dtype = {dtype.dlpack_code, dtype.dlpack_bits, 1};
  // DLPack has no const; launchers only read the two arrays.
  tensor.shape = const_cast<int64_t*>(view.shape.data());
  tensor.strides = const_cast<int64_t*>(view.strides.data());
  return tensor;
}

Diag too_many(std::string_view what, size_t found, size_t limit) {
  Diag diag;
  diag.code = ErrorCode::kArgCount;
  diag.message = "too many " + std::string(what);
  diag.found = std::to_string(found);
  diag.expected = "at most " + std::to_string(limit);
  return diag;
}

}  // namespace

StreamScope::StreamScope(void* stream) : before_(current_stream) { current_stream = stream; }
StreamScope::~StreamScope() { current_stream = before_; }

Status invoke(TVMFFISafeCall launch, std::span<const TensorView> tensors,
              std::span<const Scalar> scalars, Absent absent) {
  if (tensors.size() > kMaxTensorArgs) return too_many("tensors", tensors.size(), kMaxTensorArgs);
  if (scalars.size() > kMaxScalarArgs) return too_many("scalars", scalars.size(), kMaxScalarArgs);
  // Left uninitialised: clearing 2 KiB would cost as much as the checks of a small launcher.
  std::array<DLTensor, kMaxTensorArgs> dlpack;
  std::array<TVMFFIAny, kMaxTensorArgs + kMaxScalarArgs> args;
  size_t count = 0;
  for (const TensorView& view : tensors) {
    if (absent == Absent::kLeaveOut && !view) continue;
    dlpack[count] = as_dlpack(view);
    args[count].type_index = abi::kDLTensorPtr;
    args[count].zero_padding = 0;
    args[count].v_ptr = &dlpack[count];
    ++count;
  }
  for (const Scalar& scalar : scalars) {
    args[count].type_index = scalar.is_float ? abi::kFloat : abi::kInt;
    args[count].zero_padding = 0;
    if (scalar.is_float)
      args[count].v_float64 = scalar.number;
    else
      args[count].v_int64 = scalar.integer;
    ++count;
  }
  return invoke(launch, std::span(args.data(), count));
}

Status invoke(TVMFFISafeCall launch, std::span<const TVMFFIAny> args) {
  TVMFFIAny result{};
  void* handle = const_cast<RtHostApi*>(&kHostApi);
  if (launch(handle, args.data(), static_cast<int32_t>(args.size()), &result) == 0) return {};
  return std::move(raised);
}

}  // namespace rooftile
