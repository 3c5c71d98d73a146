// SPDX-License-Identifier: Apache-2.0
// Weights rearranged once, ahead of many products: the form that a Schedule calls
// OperandForm::kPrepacked.
//
// The operand is B of a product, logically [K, N]. Packed it is [ceil(N/32)][ceil(K/g)][32][g], g
// elements filling four bytes (g = 1 f32, 2 bf16 and f16, 4 i8 and u8): one step of a dot-product
// instruction for 32 columns lies in 128 adjacent bytes. K and N are padded with zeros. Leading
// dimensions (batch) stay outermost.
#pragma once

#include <memory>
#include <vector>

#include "rooftile/base/diag.h"
#include "rooftile/runtime/tensor_view.h"

namespace rooftile {

inline constexpr int64_t kPackColumns = 32;
constexpr int64_t pack_group(DType dtype) { return 4 / size_bytes(dtype); }

// Owns the packed bytes; move-only. The view is valid as long as this lives.
class PackedTensor {
 public:
  const TensorView& view() const { return view_; }
  int64_t bytes() const { return view_.numel() * size_bytes(view_.dtype); }

 private:
  friend Result<PackedTensor> pack_operand(const TensorView& logical, bool n_major);
  struct Free {
    void operator()(void* memory) const;
  };
  std::unique_ptr<void, Free> memory_;
  TensorView view_;
};

// The packed shape of an operand whose last two extents are [N, K] (n_major) or [K, N].
std::vector<int64_t> packed_shape(const TensorView& logical, bool n_major);

// Packs with all threads. Any strides; f32, bf16, f16, i8, u8; rank 2 or more.
// RT-C003, RT-C004, RT-C008, RT-C009 for what cannot be packed, RT-R003 without memory.
Result<PackedTensor> pack_operand(const TensorView& logical, bool n_major);

}  // namespace rooftile
