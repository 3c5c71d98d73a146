// SPDX-License-Identifier: Apache-2.0
#include "rooftile/runtime/cpu/pack.h"

#include <gtest/gtest.h>

#include <vector>

#include "rooftile/base/float_convert.h"

namespace rooftile {
namespace {

// Packs an operand whose element (n, k) is a running number, and compares every element with the
// definition.
template <class T>
void expect_packed(DType dtype, int64_t num_n, int64_t num_k, int64_t row_pad, bool n_major,
                   int64_t batch = 1) {
  const int64_t rows = n_major ? num_n : num_k, columns = n_major ? num_k : num_n;
  const int64_t pitch = columns + row_pad;
  std::vector<T> data(static_cast<size_t>(batch * rows * pitch));
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<T>(i * 7 + 1);
  TensorView view(data.data(), dtype, {batch, rows, columns});
  view.strides = {rows * pitch, pitch, 1};
  Result<PackedTensor> packed = pack_operand(view, n_major);
  ASSERT_TRUE(packed.ok()) << packed.diag().str();

  const int64_t group = pack_group(dtype);
  const int64_t blocks = (num_n + 31) / 32, words = ((num_k + group - 1) / group + 15) / 16 * 16;
  const TensorView& out = packed->view();
  ASSERT_EQ(out.rank, 4);
  EXPECT_EQ((std::vector<int64_t>(out.shape.begin(), out.shape.begin() + 4)),
            (std::vector<int64_t>{batch, blocks, words, 32 * group}));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(out.data) % 64, 0u);
  const T* at = static_cast<const T*>(out.data);
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t n = 0; n < blocks * 32; n += 32)
      for (int64_t k = 0; k < words * group; k += group)
        for (int64_t column = n; column < n + 32; ++column)
          for (int64_t row = k; row < k + group; ++row, ++at) {
            const bool inside = column < num_n && row < num_k;
            const int64_t offset =
                b * rows * pitch + (n_major ? column * pitch + row : row * pitch + column);
            ASSERT_EQ(*at, inside ? data[static_cast<size_t>(offset)] : T{})
                << "b=" << b << " n=" << column << " k=" << row;
          }
}

TEST(Pack, EveryElementOfEveryDType) {
  for (bool n_major : {true, false})
    for (int64_t num_n : {1, 32, 40, 64})
      for (int64_t num_k : {1, 3, 8, 37}) {
        expect_packed<uint32_t>(DType::kF32, num_n, num_k, 0, n_major);
        expect_packed<uint16_t>(DType::kBf16, num_n, num_k, 5, n_major);
        expect_packed<uint8_t>(DType::kI8, num_n, num_k, 3, n_major, 2);
      }
}

TEST(Pack, FollowsStridesInBothDimensions) {
  std::vector<uint16_t> data(64 * 64);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<uint16_t>(i);
  TensorView view(data.data(), DType::kF16, {32, 6});
  view.strides = {2, 64};
  Result<PackedTensor> packed = pack_operand(view, true);
  ASSERT_TRUE(packed.ok());
  const auto* out = static_cast<const uint16_t*>(packed->view().data);
  EXPECT_EQ(out[(1 * 32 + 5) * 2 + 1], data[5 * 2 + 3 * 64]);  // n = 5, k = 3
}

TEST(Pack, WidensF16) {
  std::vector<uint16_t> data(3 * 5);
  for (size_t i = 0; i < data.size(); ++i) data[i] = f32_to_f16(static_cast<float>(i) * 0.25f - 1);
  Result<PackedTensor> packed =
      pack_operand(TensorView(data.data(), DType::kF16, {3, 5}), true, DType::kF32);
  ASSERT_TRUE(packed.ok());
  EXPECT_EQ(packed->view().dtype, DType::kF32);
  const auto* out = static_cast<const float*>(packed->view().data);
  EXPECT_EQ(out[4 * 32 + 2], 14 * 0.25f - 1);  // k = 4, n = 2
  EXPECT_EQ(
      pack_operand(TensorView(data.data(), DType::kBf16, {3, 5}), true, DType::kF32).diag().code,
      ErrorCode::kDType);
}

TEST(Pack, EmptyOperandsAndRefusals) {
  EXPECT_TRUE(pack_operand(TensorView(nullptr, DType::kF32, {0, 8}), true).ok());
  EXPECT_TRUE(pack_operand(TensorView(nullptr, DType::kF32, {0, 4, 8}), true).ok());
  float value = 0;
  EXPECT_EQ(pack_operand(TensorView(&value, DType::kF32, {1}), true).diag().code, ErrorCode::kRank);
  EXPECT_EQ(pack_operand(TensorView(&value, DType::kI32, {1, 1}), true).diag().code,
            ErrorCode::kDType);
  EXPECT_EQ(pack_operand(TensorView(nullptr, DType::kF32, {1, 1}), true).diag().code,
            ErrorCode::kNullPointer);
}

}  // namespace
}  // namespace rooftile
