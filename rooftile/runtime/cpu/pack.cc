// SPDX-License-Identifier: Apache-2.0
#include "rooftile/runtime/cpu/pack.h"

#include <algorithm>
#include <cstdlib>

#include "rooftile/base/float_convert.h"

namespace rooftile {
namespace {

constexpr int64_t kPackAlign = 64;  // a cache line, and a vector register of AVX-512

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// One operand of a batch: strides in elements, along N and along K.
struct Operand {
  const void* data;
  int64_t num_n, num_k, stride_n, stride_k;
};

int64_t padded_words(int64_t num_k, int64_t group) {
  return ceil_div(ceil_div(num_k, group), kPackWordAlign) * kPackWordAlign;
}

// What becomes of an element on the way: nothing, or f16 widened to f32.
struct Copy {
  template <class T>
  T operator()(T value) const {
    return value;
  }
};
struct Widen {
  float operator()(uint16_t value) const { return f16_to_f32(value); }
};

// Columns [n0, n0 + 32) of the operand: [words][32][G] into `out`.
template <int64_t G, class In, class Out, class Convert>
void pack_panel(const Operand& b, int64_t n0, Out* out, Convert convert) {
  const In* in = static_cast<const In*>(b.data) + n0 * b.stride_n;
  const int64_t columns = std::min(kPackColumns, b.num_n - n0);
  const int64_t whole_words = columns == kPackColumns ? b.num_k / G : 0;
  for (int64_t word = 0; word < whole_words; ++word) {
    const In* from = in + word * G * b.stride_k;
    if (b.stride_k == 1) {  // [N, K] in memory: G neighbours move together
      for (int64_t n = 0; n < kPackColumns; ++n)
        for (int64_t i = 0; i < G; ++i) *out++ = convert(from[n * b.stride_n + i]);
    } else if (b.stride_n == 1) {  // [K, N]: G rows interleave
      for (int64_t n = 0; n < kPackColumns; ++n)
        for (int64_t i = 0; i < G; ++i) *out++ = convert(from[n + i * b.stride_k]);
    } else {
      for (int64_t n = 0; n < kPackColumns; ++n)
        for (int64_t i = 0; i < G; ++i) *out++ = convert(from[n * b.stride_n + i * b.stride_k]);
    }
  }
  for (int64_t k = whole_words * G; k < padded_words(b.num_k, G) * G; k += G)
    for (int64_t n = 0; n < kPackColumns; ++n)
      for (int64_t i = 0; i < G; ++i)
        *out++ = n < columns && k + i < b.num_k ? convert(in[n * b.stride_n + (k + i) * b.stride_k])
                                                : Out{};
}

template <int64_t G, class In, class Out, class Convert = Copy>
void pack_all(const std::vector<Operand>& batch, void* memory, Convert convert = {}) {
  const int64_t num_panels = ceil_div(batch[0].num_n, kPackColumns);
  const int64_t panel_elements = padded_words(batch[0].num_k, G) * kPackColumns * G;
  const int64_t work = static_cast<int64_t>(batch.size()) * num_panels;
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < work; ++i)
    pack_panel<G, In>(batch[static_cast<size_t>(i / num_panels)], i % num_panels * kPackColumns,
                      static_cast<Out*>(memory) + i * panel_elements, convert);
}

// Every matrix of the leading dimensions, outermost first.
std::vector<Operand> split_batch(const TensorView& logical, bool n_major) {
  const auto rank = static_cast<size_t>(logical.rank);
  const size_t n_axis = n_major ? rank - 2 : rank - 1, k_axis = n_major ? rank - 1 : rank - 2;
  int64_t count = 1;
  for (size_t i = 0; i + 2 < rank; ++i) count *= logical.shape[i];
  std::vector<Operand> batch;
  for (int64_t index = 0; index < count; ++index) {
    int64_t offset = 0, rest = index;
    for (size_t i = rank - 2; i-- > 0;) {
      offset += rest % logical.shape[i] * logical.strides[i];
      rest /= logical.shape[i];
    }
    batch.push_back({static_cast<const char*>(logical.data) + offset * size_bytes(logical.dtype),
                     logical.shape[n_axis], logical.shape[k_axis], logical.strides[n_axis],
                     logical.strides[k_axis]});
  }
  return batch;
}

Status check_operand(const TensorView& logical, DType packed) {
  Diag diag;
  diag.subject = "pack_operand";
  if (logical.rank < 2 || logical.rank > kMaxRank - 2) {
    diag.code = ErrorCode::kRank;
    diag.message = "an operand of a product has rank 2, or more with batch dimensions";
    diag.found = "rank " + std::to_string(logical.rank);
    diag.expected = "rank 2 to " + std::to_string(kMaxRank - 2);
    return diag;
  }
  if (size_bytes(logical.dtype) == 8 || logical.dtype == DType::kI32 ||
      logical.dtype == DType::kU32 || logical.dtype == DType::kBool) {
    diag.code = ErrorCode::kDType;
    diag.message = "no product takes an operand of this dtype";
    diag.found = std::string(name(logical.dtype));
    diag.expected = "f32, bf16, f16, i8, u8 or an 8-bit float";
    return diag;
  }
  if (packed != logical.dtype && !(logical.dtype == DType::kF16 && packed == DType::kF32)) {
    diag.code = ErrorCode::kDType;
    diag.message = "an operand cannot be packed into another dtype, but for f16 into f32";
    diag.found = std::string(name(logical.dtype)) + " into " + std::string(name(packed));
    return diag;
  }
  if (logical.device != DeviceKind::kCpu) {
    diag.code = ErrorCode::kDevice;
    diag.message = "the operand is not in host memory";
    diag.fix = "copy it to the CPU first";
    return diag;
  }
  for (int i = 0; i < logical.rank; ++i)
    if (logical.shape[static_cast<size_t>(i)] < 0) {
      diag.code = ErrorCode::kExtent;
      diag.message = "the operand has a negative extent";
      return diag;
    }
  if (!logical.data && logical.numel() > 0) {
    diag.code = ErrorCode::kNullPointer;
    diag.message = "the operand has a null data pointer";
    return diag;
  }
  return {};
}

}  // namespace

void PackedTensor::Free::operator()(void* memory) const { std::free(memory); }

std::vector<int64_t> packed_shape(const TensorView& logical, bool n_major, DType packed) {
  const auto rank = static_cast<size_t>(logical.rank);
  std::vector<int64_t> shape(logical.shape.begin(), logical.shape.begin() + logical.rank - 2);
  const int64_t num_n = logical.shape[n_major ? rank - 2 : rank - 1];
  const int64_t num_k = logical.shape[n_major ? rank - 1 : rank - 2];
  const int64_t group = pack_group(packed);
  shape.insert(shape.end(),
               {ceil_div(num_n, kPackColumns), padded_words(num_k, group), kPackColumns * group});
  return shape;
}

Result<PackedTensor> pack_operand(const TensorView& logical, bool n_major, DType packed) {
  RT_RETURN_IF_ERROR(check_operand(logical, packed));
  PackedTensor out;
  out.view_ = TensorView(nullptr, packed, packed_shape(logical, n_major, packed));
  const int64_t bytes = out.bytes();
  void* memory = nullptr;
  if (posix_memalign(&memory, kPackAlign, static_cast<size_t>(std::max(bytes, kPackAlign))) != 0) {
    Diag diag;
    diag.code = ErrorCode::kOutOfMemory;
    diag.subject = "pack_operand";
    diag.message = "no memory for the packed operand";
    diag.found = std::to_string(bytes) + " bytes wanted";
    return diag;
  }
  out.memory_.reset(memory);
  out.view_.data = memory;
  if (bytes == 0) return out;
  const std::vector<Operand> batch = split_batch(logical, n_major);
  if (packed != logical.dtype)
    pack_all<1, uint16_t, float>(batch, memory, Widen{});
  else if (size_bytes(packed) == 4)
    pack_all<1, uint32_t, uint32_t>(batch, memory);
  else if (size_bytes(packed) == 2)
    pack_all<2, uint16_t, uint16_t>(batch, memory);
  else
    pack_all<4, uint8_t, uint8_t>(batch, memory);
  return out;
}

}  // namespace rooftile
