// SPDX-License-Identifier: Apache-2.0
// Tensor maps: the descriptors by which the tensor copy engine (TMA) finds boxes of a tensor.
//
// A map is a pure function of its TensorMapSpec, so a cached one never goes stale: not when memory
// is freed and another tensor comes to lie at the same address. The cache is a few fixed slots of
// each thread, compared in full, without lock or allocation. Making a map touches neither stream
// nor device: it is allowed during capture.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "rooftile/base/diag.h"
#include "rooftile/runtime/cuda/device.h"
#include "rooftile/runtime/tensor_view.h"

namespace rooftile::cuda {

inline constexpr uint32_t kMaxMapRank = 5;

// What a kernel fixes about a tensor it reads or writes through a map: a constant of its schedule.
// Dimensions run from the innermost, which is contiguous; what lies beyond `rank` is zero.
struct TensorMapLayout {
  uint32_t rank = 0;
  abi::TensorMapType type = abi::kMapU8;
  abi::TensorMapSwizzle swizzle = abi::kSwizzleNone;
  abi::TensorMapL2 l2 = abi::kL2Bytes256;
  abi::TensorMapFill fill = abi::kFillZero;             // what is read outside the tensor
  std::array<uint32_t, kMaxMapRank> box{};              // elements of one copy; at most 256 a side
  std::array<uint32_t, kMaxMapRank> element_strides{};  // 1: every element of the box
  uint32_t reserved = 0;                                // no padding: compared as bytes
  bool operator==(const TensorMapLayout&) const = default;
};

// All that a map depends on.
struct TensorMapSpec {
  uint64_t address = 0;                       // of the device; a multiple of 16
  std::array<uint64_t, kMaxMapRank> sizes{};  // elements
  std::array<uint64_t, kMaxMapRank - 1>
      strides_bytes{};  // of dimensions 1, 2, ...; multiples of 16
  TensorMapLayout layout;
  bool operator==(const TensorMapSpec&) const = default;
};
static_assert(sizeof(TensorMapSpec) == 144 &&
              std::has_unique_object_representations_v<TensorMapSpec>);

// The layout of a tensor of this dtype read in boxes, which are given in the tensor's order
// (outermost first). RT-R008 if the engine has no such rank or dtype. `name`: the argument, for
// messages.
Result<TensorMapLayout> layout_of(DType dtype, std::span<const uint32_t> box,
                                  abi::TensorMapSwizzle swizzle, std::string_view name);

// The spec of a tensor as it is. RT-R008 if rank or dtype are not the layout's, or the innermost
// stride is not 1.
Status spec_of(const TensorView& tensor, const TensorMapLayout& layout, std::string_view name,
               TensorMapSpec* spec);

// Every precondition of the engine, each told by name and value. RT-R008.
Status check_tensor_map(const TensorMapSpec& spec, std::string_view name);

// The map, from this thread's cache or made. RT-R008 if a precondition fails, RT-R005. The form
// that takes a tensor is the one for launchers: on a hit it compares the tensor with the cache as
// it is.
Status tensor_map(const Device& device, const TensorView& tensor, const TensorMapLayout& layout,
                  std::string_view name, abi::TensorMap* map);
Status tensor_map(const Device& device, const TensorMapSpec& spec, std::string_view name,
                  abi::TensorMap* map);

}  // namespace rooftile::cuda
