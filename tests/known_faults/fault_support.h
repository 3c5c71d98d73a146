// SPDX-License-Identifier: Apache-2.0
// Memory for tests of known faults: faults that other libraries were reported to have, each with an
// id (kf-...) that names the class of mistake. The tests build the reported input and call the
// operator as a user would.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <initializer_list>
#include <limits>
#include <random>
#include <vector>

#include "rooftile/api.h"
#include "rooftile/base/float_convert.h"

#define ASSERT_OK(expression)                          \
  do {                                                 \
    const ::rooftile::Status rt_status = (expression); \
    ASSERT_TRUE(rt_status.ok()) << rt_status.str();    \
  } while (false)

namespace rooftile::faults {

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// `count` elements of `dtype`, all set to a value that no test computes.
class Buffer {
 public:
  static constexpr double kGuard = 97;

  Buffer(DType dtype, int64_t count, double fill = kGuard)
      : dtype_(dtype), bytes_(static_cast<size_t>(count * size_bytes(dtype)) + 64) {
    for (int64_t i = 0; i < count; ++i) set(i, fill);
  }
  DType dtype() const { return dtype_; }
  double operator[](int64_t i) const { return load_element(bytes_.data(), dtype_, i); }
  void set(int64_t i, double value) { store_element(bytes_.data(), dtype_, i, value); }
  int64_t count() const { return static_cast<int64_t>(bytes_.size() - 64) / size_bytes(dtype_); }

  // Compact from element `offset` on, or with the given strides.
  TensorView view(int64_t offset, std::initializer_list<int64_t> shape,
                  std::initializer_list<int64_t> strides = {}) {
    TensorView view(bytes_.data() + offset * size_bytes(dtype_), dtype_, shape);
    size_t axis = 0;
    for (int64_t stride : strides) view.strides[axis++] = stride;
    return view;
  }

  // Sets every element from `value(i)`.
  template <class Fn>
  Buffer& fill(const Fn& value) {
    for (int64_t i = 0; i < count(); ++i) set(i, value(i));
    return *this;
  }

 private:
  DType dtype_;
  std::vector<unsigned char> bytes_;
};

inline Buffer from(DType dtype, const std::vector<double>& values) {
  Buffer buffer(dtype, static_cast<int64_t>(values.size()));
  for (size_t i = 0; i < values.size(); ++i) buffer.set(static_cast<int64_t>(i), values[i]);
  return buffer;
}

// Normal numbers, the same in every run.
inline Buffer normal(DType dtype, int64_t count, uint64_t seed, double mean = 0,
                     double deviation = 1) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> draw(mean, deviation);
  Buffer buffer(dtype, count);
  buffer.fill([&](int64_t) { return draw(random); });
  return buffer;
}

// Address space without memory behind it until a page is touched: for offsets past 2^32 elements.
class SparseMemory {
 public:
  explicit SparseMemory(int64_t bytes);
  ~SparseMemory();
  SparseMemory(const SparseMemory&) = delete;
  SparseMemory& operator=(const SparseMemory&) = delete;
  bool ok() const { return base_ != nullptr; }
  void* base() const { return base_; }

 private:
  void* base_ = nullptr;
  size_t bytes_;
};

// Elements that end exactly where a page that must not be touched begins.
class PageEnd {
 public:
  PageEnd(DType dtype, int64_t count);
  ~PageEnd();
  PageEnd(const PageEnd&) = delete;
  PageEnd& operator=(const PageEnd&) = delete;
  void* data() const { return data_; }
  void set(int64_t i, double value) { store_element(data_, dtype_, i, value); }
  double operator[](int64_t i) const { return load_element(data_, dtype_, i); }

 private:
  DType dtype_;
  void* base_ = nullptr;
  size_t mapped_ = 0;
  void* data_ = nullptr;
};

}  // namespace rooftile::faults
