// SPDX-License-Identifier: Apache-2.0
// Non-owning views of tensors, in the caller's memory: what the C++ interface takes and DLPack
// carries.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>

#include "rooftile/base/dtype.h"

namespace rooftile {

inline constexpr int kMaxRank = 8;

enum class DeviceKind : int32_t { kCpu = 1, kCuda = 2 };  // DLPack's numbers

// Shape and strides count elements; strides may be anything the operator's contract admits.
struct TensorView {
  void* data = nullptr;
  DType dtype = DType::kF32;
  int rank = 0;
  std::array<int64_t, kMaxRank> shape{};
  std::array<int64_t, kMaxRank> strides{};
  DeviceKind device = DeviceKind::kCpu;
  int device_id = 0;

  TensorView() = default;
  // Compact, row-major.
  TensorView(void* data_, DType dtype_, std::initializer_list<int64_t> shape_)
      : TensorView(data_, dtype_, std::span<const int64_t>(shape_.begin(), shape_.size())) {}
  TensorView(void* data_, DType dtype_, std::span<const int64_t> shape_)
      : data(data_), dtype(dtype_) {
    rank = static_cast<int>(shape_.size());
    int64_t stride = 1;
    for (int i = rank - 1; i >= 0; --i) {
      shape[static_cast<size_t>(i)] = shape_[static_cast<size_t>(i)];
      strides[static_cast<size_t>(i)] = stride;
      stride *= shape_[static_cast<size_t>(i)];
    }
  }
  int64_t numel() const {
    int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= shape[static_cast<size_t>(i)];
    return n;
  }
  // false: an absent optional argument
  explicit operator bool() const { return data != nullptr || rank > 0; }
};

}  // namespace rooftile
