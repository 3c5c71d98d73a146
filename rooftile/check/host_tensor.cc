// SPDX-License-Identifier: Apache-2.0
#include "rooftile/check/host_tensor.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "rooftile/base/float_convert.h"

namespace rooftile::check {
namespace {

constexpr int64_t kGuardBytes = 4096;  // on either side; wider than any single vector or tile store
constexpr int64_t kHugePage = int64_t{2} << 20;
constexpr std::byte kGuardByte{0xff};
constexpr int64_t kParallelElements =
    1 << 20;  // below this, starting threads costs more than it saves

int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// All ones (NaN, -1), or the same with the sign cleared (NaN, the largest integer).
void fill_poison(std::byte* element, int bytes, Poison pattern) {
  std::memset(element, 0xff, static_cast<size_t>(bytes));
  if (pattern == Poison::kSecond) element[bytes - 1] = std::byte{0x7f};
}

}  // namespace

void HostTensor::Free::operator()(std::byte* memory) const { std::free(memory); }

HostTensor::HostTensor(DType dtype, std::vector<int64_t> shape, const TensorLayout& layout)
    : dtype_(dtype), shape_(std::move(shape)), strides_(shape_.size(), 1) {
  const int64_t item = rooftile::size_bytes(dtype_);
  const int64_t align = std::max<int64_t>(layout.align_bytes, item);
  numel_ = 1;
  for (int64_t extent : shape_) numel_ *= extent;

  int64_t stride = layout.padded && !layout.unit_inner_stride ? 2 : 1;
  int64_t last = 0;  // offset of the last element
  for (size_t axis = shape_.size(); axis-- > 0;) {
    strides_[axis] = stride;
    last += std::max<int64_t>(shape_[axis] - 1, 0) * stride;
    stride *= std::max<int64_t>(shape_[axis], 1);
    // Three alignment quanta between rows: neither a multiple of a cache line nor of a page.
    if (layout.padded) stride = round_up(stride * item, align) / item + 3 * align / item;
  }
  span_bytes_ = numel_ == 0 ? 0 : (last + 1) * item;

  // A padded tensor starts off the cache line.
  data_offset_ = kGuardBytes + (layout.padded ? align : 0);
  total_bytes_ = round_up(data_offset_ + span_bytes_ + kGuardBytes, 64);
  allocate();
  std::memset(memory_.get(), static_cast<int>(kGuardByte), static_cast<size_t>(total_bytes_));
}

void HostTensor::allocate() {
  const bool huge = total_bytes_ >= 2 * kHugePage;
  const int64_t alignment = huge ? kHugePage : 64;
  const auto bytes = static_cast<size_t>(round_up(total_bytes_, alignment));
  memory_.reset(static_cast<std::byte*>(std::aligned_alloc(static_cast<size_t>(alignment), bytes)));
  if (memory_ == nullptr) std::abort();  // a test machine without the memory for its own tensors
  if (huge) madvise(memory_.get(), bytes, MADV_HUGEPAGE);
  data_ = memory_.get() + data_offset_;
}

HostTensor HostTensor::clone() const {
  HostTensor copy;
  copy.dtype_ = dtype_;
  copy.shape_ = shape_;
  copy.strides_ = strides_;
  copy.numel_ = numel_;
  copy.span_bytes_ = span_bytes_;
  copy.data_offset_ = data_offset_;
  copy.total_bytes_ = total_bytes_;
  copy.allocate();
  std::memcpy(copy.memory_.get(), memory_.get(), static_cast<size_t>(total_bytes_));
  return copy;
}

TensorView HostTensor::view() const {
  TensorView view(data_, dtype_, shape_);
  for (size_t axis = 0; axis < strides_.size(); ++axis) view.strides[axis] = strides_[axis];
  return view;
}

template <class Fn>
void HostTensor::for_each_row(const Fn& fn) const {
  if (numel_ == 0) return;
  const int64_t row_length = shape_.empty() ? 1 : shape_.back();
  const int64_t rows = numel_ / row_length;
  const int64_t item = rooftile::size_bytes(dtype_);
#pragma omp parallel for schedule(static) if (numel_ >= kParallelElements)
  for (int64_t row = 0; row < rows; ++row) {
    int64_t offset = 0, rest = row;
    for (size_t axis = shape_.size(); axis-- > 1;) {
      offset += rest % shape_[axis - 1] * strides_[axis - 1];
      rest /= shape_[axis - 1];
    }
    fn(row * row_length, data_ + offset * item);
  }
}

void HostTensor::store(const NdArray& values) {
  const int64_t length = shape_.empty() ? 1 : shape_.back();
  const int64_t step = (shape_.empty() ? 1 : strides_.back()) * rooftile::size_bytes(dtype_);
  for_each_row([&](int64_t first, std::byte* row) {
    for (int64_t i = 0; i < length; ++i)
      store_element(row + i * step, dtype_, 0, values.data[static_cast<size_t>(first + i)]);
  });
}

NdArray HostTensor::load() const {
  NdArray out{shape_, std::vector<double>(static_cast<size_t>(numel_))};
  const int64_t length = shape_.empty() ? 1 : shape_.back();
  const int64_t step = (shape_.empty() ? 1 : strides_.back()) * rooftile::size_bytes(dtype_);
  for_each_row([&](int64_t first, const std::byte* row) {
    for (int64_t i = 0; i < length; ++i)
      out.data[static_cast<size_t>(first + i)] = load_element(row + i * step, dtype_, 0);
  });
  return out;
}

void HostTensor::poison(Poison pattern) {
  const int item = rooftile::size_bytes(dtype_);
  const int64_t length = shape_.empty() ? 1 : shape_.back();
  const int64_t step = (shape_.empty() ? 1 : strides_.back()) * item;
  for_each_row([&](int64_t, std::byte* row) {
    for (int64_t i = 0; i < length; ++i) fill_poison(row + i * step, item, pattern);
  });
}

std::vector<std::byte> HostTensor::elements() const {
  const size_t item = static_cast<size_t>(rooftile::size_bytes(dtype_));
  std::vector<std::byte> out(static_cast<size_t>(numel_) * item);
  const int64_t length = shape_.empty() ? 1 : shape_.back();
  const int64_t inner = shape_.empty() ? 1 : strides_.back();
  for_each_row([&](int64_t first, const std::byte* row) {
    std::byte* to = out.data() + static_cast<size_t>(first) * item;
    if (inner == 1) {
      std::memcpy(to, row, static_cast<size_t>(length) * item);
    } else {
      for (int64_t i = 0; i < length; ++i)
        std::memcpy(to + static_cast<size_t>(i) * item,
                    row + i * inner * static_cast<int64_t>(item), item);
    }
  });
  return out;
}

std::optional<std::string> HostTensor::guard_damage() const {
  const std::byte* begin = memory_.get();
  const std::byte* end = begin + total_bytes_;
  auto damaged = [](const std::byte* from, const std::byte* to) -> const std::byte* {
    const std::byte* at = std::find_if(from, to, [](std::byte b) { return b != kGuardByte; });
    return at == to ? nullptr : at;
  };
  if (const std::byte* at = damaged(begin, data_))
    return std::to_string(data_ - at) + " bytes before the first element";
  if (const std::byte* at = damaged(data_ + span_bytes_, end))
    return std::to_string(at - (data_ + span_bytes_) + 1) + " bytes after the last element";
  if (span_bytes_ == size_bytes() || numel_ == 0) return std::nullopt;

  // Padded: every byte of the span that belongs to no element.
  std::vector<bool> owned(static_cast<size_t>(span_bytes_), false);
  const int64_t item = rooftile::size_bytes(dtype_);
  for (int64_t element = 0; element < numel_; ++element) {
    int64_t offset = 0, rest = element;
    for (size_t axis = shape_.size(); axis-- > 0;) {
      offset += rest % shape_[axis] * strides_[axis];
      rest /= shape_[axis];
    }
    for (int64_t byte = 0; byte < item; ++byte)
      owned[static_cast<size_t>(offset * item + byte)] = true;
  }
  for (int64_t byte = 0; byte < span_bytes_; ++byte)
    if (!owned[static_cast<size_t>(byte)] && data_[byte] != kGuardByte)
      return "the padding between rows, " + std::to_string(byte) + " bytes into the tensor";
  return std::nullopt;
}

void quantize(NdArray& values, DType dtype) {
  const int64_t count = values.numel();
#pragma omp parallel for schedule(static) if (count >= kParallelElements)
  for (int64_t i = 0; i < count; ++i) {
    std::byte element[8];
    store_element(element, dtype, 0, values.data[static_cast<size_t>(i)]);
    values.data[static_cast<size_t>(i)] = load_element(element, dtype, 0);
  }
}

int64_t first_unwritten(DType dtype, const std::vector<std::byte>& after_first,
                        const std::vector<std::byte>& after_second) {
  const size_t item = static_cast<size_t>(size_bytes(dtype));
  std::byte first[8], second[8];
  fill_poison(first, static_cast<int>(item), Poison::kFirst);
  fill_poison(second, static_cast<int>(item), Poison::kSecond);
  for (size_t at = 0; at + item <= after_first.size(); at += item)
    if (std::memcmp(&after_first[at], first, item) == 0 &&
        std::memcmp(&after_second[at], second, item) == 0)
      return static_cast<int64_t>(at / item);
  return -1;
}

}  // namespace rooftile::check
