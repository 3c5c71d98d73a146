// SPDX-License-Identifier: Apache-2.0
// Where the operands of matrix products lie, in shared memory and in registers, and the products.
//
// Sums: element by element, k ascending, each product exact and each sum rounded to f32 (integers:
// exact). The hardware adds in another order and with other intermediate widths; both are within
// the bound that operators derive for f32 accumulation.
#pragma once

#include <cstdint>
#include <vector>

#include "rooftile/base/dtype.h"

namespace rooftile::emulate {

// A wgmma descriptor, field by field; bytes.
struct MatrixDesc {
  uint32_t start = 0, leading = 0, stride = 0;
  int swizzle = 0;  // lanes::Swizzle
  int base_offset = 0;
};
MatrixDesc decode_desc(uint64_t bits);

// The shared addresses of the 16-byte chunks of an operand of `rows` (M or N) by 32 bytes of K.
// K-major: chunk 2r + c is bytes [16c, 16c + 16) of row r. MN-major (16-bit elements): chunk
// j * 16 + k is elements [8j, 8j + 8) of column k.
std::vector<uint32_t> operand_chunks(const MatrixDesc& desc, int rows, bool mn_major);

// Elements in 32 bytes of K.
constexpr int k_extent(DType dtype) { return 32 / size_bytes(dtype); }

// `count` elements of `dtype` as floats (integers too: they are exact).
void decode_elements(const uint8_t* from, int count, DType dtype, float* out);

// acc[m][n] += sum over k of a[m][k] * b[k][n]; rows of n.
void multiply_add(float* acc, const float* a, const float* b, int m, int n, int k);
// The same in 32-bit integers that wrap, of operands that are integers.
void multiply_add(int32_t* acc, const float* a, const float* b, int m, int n, int k);

// Register fragments: which element lane and register hold.
struct Place {
  int row, col;
};
// Accumulator i of a lane in a 16-row product.
constexpr Place accumulator_place(int lane, int i) {
  return {lane / 4 + 8 * (i / 2 % 2), 8 * (i / 4) + 2 * (lane % 4) + i % 2};
}
// The first element in register j of a lane's A fragment, of elements of `size` bytes.
constexpr Place a_place(int lane, int j, int size) {
  return {lane / 4 + 8 * (j % 2), (lane % 4 + 4 * (j / 2)) * (4 / size)};
}
// The first element in register j of a lane's B fragment: row is k, col is n.
constexpr Place b_place(int lane, int j, int size) {
  return {(lane % 4 + 4 * j) * (4 / size), lane / 4};
}

}  // namespace rooftile::emulate
