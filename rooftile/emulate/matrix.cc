// SPDX-License-Identifier: Apache-2.0
// Compiled with optimisation whatever the build type: this is where emulated kernels spend time.
#include "rooftile/emulate/matrix.h"

#include <cstring>

#include "rooftile/base/float_convert.h"
#include "rooftile/emulate/global_memory.h"

namespace rooftile::emulate {

MatrixDesc decode_desc(uint64_t bits) {
  const auto field = [&](int first) { return static_cast<uint32_t>(bits >> first & 0x3fff) << 4; };
  MatrixDesc out;
  out.start = field(0);
  out.leading = field(16);
  out.stride = field(32);
  out.base_offset = static_cast<int>(bits >> 49 & 7);
  out.swizzle = (4 - static_cast<int>(bits >> 62)) & 3;
  return out;
}

// The canonical layouts of PTX, "Shared Memory Matrix Layout": core matrices of 8 rows of 16 bytes,
// side by side within the span of the swizzle.
std::vector<uint32_t> operand_chunks(const MatrixDesc& desc, int rows, bool mn_major) {
  const uint32_t span = 16u << desc.swizzle;
  const bool plain = desc.swizzle == 0;
  std::vector<uint32_t> out;
  const auto add = [&](uint32_t offset) {
    out.push_back(swizzled(static_cast<lanes::Swizzle>(desc.swizzle), desc.start + offset));
  };
  if (!mn_major) {
    out.reserve(static_cast<size_t>(2 * rows));
    for (uint32_t r = 0; r < static_cast<uint32_t>(rows); ++r)
      for (uint32_t c = 0; c < 2; ++c)
        add(r % 8 * span + r / 8 * desc.stride + c * (plain ? desc.leading : 16));
    return out;
  }
  out.reserve(static_cast<size_t>(2 * rows));
  const uint32_t chunks = span / 16;
  for (uint32_t j = 0; j < static_cast<uint32_t>(rows / 8); ++j)
    for (uint32_t k = 0; k < 16; ++k)
      add(plain ? k % 8 * 16 + k / 8 * desc.leading + j * desc.stride
                : j % chunks * 16 + j / chunks * desc.leading + k % 8 * span + k / 8 * desc.stride);
  return out;
}

void decode_elements(const uint8_t* from, int count, DType dtype, float* out) {
  switch (dtype) {
    case DType::kBf16:
      for (int i = 0; i < count; ++i) {
        uint16_t bits;
        std::memcpy(&bits, from + 2 * i, 2);
        out[i] = bf16_to_f32(bits);
      }
      return;
    case DType::kI8:
      for (int i = 0; i < count; ++i) out[i] = static_cast<int8_t>(from[i]);
      return;
    case DType::kU8:
      for (int i = 0; i < count; ++i) out[i] = from[i];
      return;
    default:
      for (int i = 0; i < count; ++i) out[i] = static_cast<float>(load_element(from, dtype, i));
  }
}

void multiply_add(float* acc, const float* a, const float* b, int m, int n, int k) {
  for (int row = 0; row < m; ++row) {
    float* sum = acc + row * n;
    for (int i = 0; i < k; ++i) {
      const float x = a[row * k + i];
      const float* y = b + i * n;
      for (int col = 0; col < n; ++col) sum[col] += x * y[col];
    }
  }
}

void multiply_add(int32_t* acc, const float* a, const float* b, int m, int n, int k) {
  for (int row = 0; row < m; ++row)
    for (int i = 0; i < k; ++i)
      for (int col = 0; col < n; ++col)
        acc[row * n + col] = static_cast<int32_t>(
            static_cast<uint32_t>(acc[row * n + col]) +
            static_cast<uint32_t>(static_cast<int32_t>(a[row * k + i] * b[i * n + col])));
}

}  // namespace rooftile::emulate
