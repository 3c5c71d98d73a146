// SPDX-License-Identifier: Apache-2.0
// Calls a generated launcher from C++: tensor views and scalars in, Status out. Builds the DLPack
// and TVM-FFI structs on the stack; allocates nothing unless the launcher reports an error.
#pragma once

#include <span>

#include "rooftile/base/diag.h"
#include "rooftile/runtime/ffi_abi.h"
#include "rooftile/runtime/tensor_view.h"

namespace rooftile {

// A float or integer attribute.
struct Scalar {
  Scalar(double value) : is_float(true), number(value) {}     // NOLINT: implicit by intent
  Scalar(int64_t value) : is_float(false), integer(value) {}  // NOLINT: implicit by intent
  Scalar(int value) : Scalar(static_cast<int64_t>(value)) {}  // NOLINT: implicit by intent
  bool is_float;
  double number = 0;
  int64_t integer = 0;
};

inline constexpr size_t kMaxTensorArgs = 32;
inline constexpr size_t kMaxScalarArgs = 32;

// Whether views of nothing (TensorView()) are passed on, or left out as absent optional arguments.
enum class Absent : uint8_t { kPass, kLeaveOut };

// The CUDA stream on which this thread's calls of GPU kernels run, while the scope lasts. Null: the
// legacy default stream, which is also what holds without a scope. Not owned.
class StreamScope {
 public:
  explicit StreamScope(void* stream);
  ~StreamScope();
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

 private:
  void* before_;
};

// Runs the launcher on the calling thread with this thread's workspace. Every violation that the
// launcher finds comes back with its code and texts; then nothing has been written.
Status invoke(TVMFFISafeCall launch, std::span<const TensorView> tensors,
              std::span<const Scalar> scalars, Absent absent = Absent::kPass);

// The same for a caller who keeps the TVM-FFI arguments of a launcher ready.
Status invoke(TVMFFISafeCall launch, std::span<const TVMFFIAny> args);

}  // namespace rooftile
