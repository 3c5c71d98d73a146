// SPDX-License-Identifier: Apache-2.0
// Weights rearranged once, ahead of many products: the form that a Schedule calls
// OperandForm::kPrepacked.
//
// The operand is B of a product, logically [K, N]. A word is four bytes: g neighbours of K (g = 1
// f32, 2 bf16 and f16, 4 i8 and u8), one step of a dot-product instruction for one column. Packed
// it is [ceil(N/32)][words][32 * g]: panels of 32 columns, each a row of 32 words for every word of
// K; words is ceil(K/g) rounded up to 16. K and N are padded with zeros. Batch dimensions stay
// outermost.
#pragma once

#include <memory>
#include <vector>

#include "rooftile/base/diag.h"
#include "rooftile/runtime/tensor_view.h"

namespace rooftile {

inline constexpr int64_t kPackColumns = 32;
inline constexpr int64_t kPackWordAlign = 16;  // a cache line, and the K of a 16-row matrix tile
constexpr int64_t pack_group(DType packed) { return 4 / size_bytes(packed); }

// Owns the packed bytes; move-only. The view is valid as long as this lives.
class PackedTensor {
 public:
  const TensorView& view() const { return view_; }
  int64_t bytes() const { return view_.numel() * size_bytes(view_.dtype); }

 private:
  friend Result<PackedTensor> pack_operand(const TensorView& logical, bool n_major, DType packed);
  struct Free {
    void operator()(void* memory) const;
  };
  std::unique_ptr<void, Free> memory_;
  TensorView view_;
};

// The packed shape of an operand whose last two extents are [N, K] (n_major) or [K, N].
std::vector<int64_t> packed_shape(const TensorView& logical, bool n_major, DType packed);

// Packs with all threads. Any strides; rank 2 or more; f32, bf16, f16, i8, u8 into the same dtype,
// and f16 into f32, exactly, for machines without f16 arithmetic. RT-C003, RT-C004, RT-C005,
// RT-C008, RT-C009 for what cannot be packed, RT-R003 without memory.
Result<PackedTensor> pack_operand(const TensorView& logical, bool n_major, DType packed);
inline Result<PackedTensor> pack_operand(const TensorView& logical, bool n_major) {
  return pack_operand(logical, n_major, logical.dtype);
}

}  // namespace rooftile
