// SPDX-License-Identifier: Apache-2.0
// HostTensor: memory for one argument under test, built to catch what a wrong kernel does to it.
//
// The elements lie between two guard zones, and a padded layout puts guard bytes between the rows
// too. Guards hold all-one bytes: NaN in every float type, so a read outside the tensor shows in
// the result, and any write to them is found by guard_damage(). Outputs are poisoned before a run,
// with another pattern each run: an element that holds the pattern of each run was never written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rooftile/base/dtype.h"
#include "rooftile/ops/op_def.h"
#include "rooftile/runtime/tensor_view.h"

namespace rooftile::check {

struct TensorLayout {
  bool padded = false;  // rows apart, data no better aligned than `align_bytes`
  int align_bytes = 0;  // what the contract asks of data and outer strides; 0: the element size
  bool unit_inner_stride = true;  // false: a padded layout also spreads the innermost dimension
};

enum class Poison : uint8_t { kFirst, kSecond };

class HostTensor {
 public:
  HostTensor() = default;
  HostTensor(DType dtype, std::vector<int64_t> shape, const TensorLayout& layout = {});

  HostTensor clone() const;  // the same layout, bytes and all

  DType dtype() const { return dtype_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  int64_t numel() const { return numel_; }
  int64_t size_bytes() const { return numel_ * rooftile::size_bytes(dtype_); }
  TensorView view() const;
  void* data() const { return data_; }
  // All of its memory, guard zones included, and where in it the first element lies: for a copy
  // elsewhere that is laid out alike.
  std::span<std::byte> memory() const { return {memory_.get(), static_cast<size_t>(total_bytes_)}; }
  int64_t data_offset() const { return data_offset_; }

  void store(const NdArray& values);  // rounds to the dtype; same shape
  NdArray load() const;
  void poison(Poison pattern);
  std::vector<std::byte> elements()
      const;  // the elements' bytes in row-major order, without padding

  // Where a byte outside the elements was changed, in words; nullopt if none was.
  std::optional<std::string> guard_damage() const;

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  void allocate();
  template <class Fn>
  void for_each_row(const Fn& fn) const;  // fn(index of the row's first element, its address)

  DType dtype_ = DType::kF32;
  std::vector<int64_t> shape_, strides_;
  int64_t numel_ = 0;
  int64_t span_bytes_ = 0;   // from the first element to the end of the last
  int64_t data_offset_ = 0;  // of the first element in the memory
  int64_t total_bytes_ = 0;
  std::unique_ptr<std::byte, Free> memory_;
  std::byte* data_ = nullptr;
};

// The values of `values` after a round trip through `dtype`.
void quantize(NdArray& values, DType dtype);

// The row-major position of the first element that holds poison in both runs; -1 if every element
// was written.
int64_t first_unwritten(DType dtype, const std::vector<std::byte>& after_first,
                        const std::vector<std::byte>& after_second);

}  // namespace rooftile::check
