// SPDX-License-Identifier: Apache-2.0
#include "rooftile/runtime/cuda/tensor_map.h"

#include <bit>
#include <cstring>

namespace rooftile::cuda {

namespace {

constexpr int kNoMapType = -1;

// f8 goes as bytes: the engine only moves them, and a zero is a zero.
constexpr int map_type(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return abi::kMapF32;
    case DType::kBf16:
      return abi::kMapBf16;
    case DType::kF16:
      return abi::kMapF16;
    case DType::kF8E4M3:
    case DType::kF8E5M2:
    case DType::kI8:
    case DType::kU8:
      return abi::kMapU8;
    case DType::kI32:
      return abi::kMapI32;
    case DType::kU32:
      return abi::kMapU32;
    case DType::kI64:
      return abi::kMapI64;
    case DType::kBool:
      return kNoMapType;
  }
  return kNoMapType;
}

uint64_t element_bytes(abi::TensorMapType type) {
  switch (type) {
    case abi::kMapU8:
      return 1;
    case abi::kMapF16:
    case abi::kMapBf16:
      return 2;
    case abi::kMapI64:
      return 8;
    default:
      return 4;
  }
}

uint64_t swizzle_span(abi::TensorMapSwizzle swizzle) {
  return swizzle == abi::kSwizzle32 ? 32 : swizzle == abi::kSwizzle64 ? 64 : 128;
}

Diag refused(std::string_view name, std::string message, std::string found, std::string expected,
             std::string fix = "") {
  return {.code = ErrorCode::kTensorMap,
          .subject = "tensor copy engine",
          .message = std::move(message),
          .argument = std::string(name),
          .found = std::move(found),
          .expected = std::move(expected),
          .fix = std::move(fix)};
}

std::string dim(uint32_t i) { return "dimension " + std::to_string(i) + " from the innermost"; }

// ---- the cache -------------------------------------------------------------------------------

// Two ways a set: the operands of one launch that fall into the same set do not throw each other
// out. 18 KB a thread, touched as far as it is used. Plain words, all zero at first: a thread
// starts with untouched pages.
constexpr size_t kSets = 32, kWays = 2;

using LayoutWords = std::array<uint64_t, sizeof(TensorMapLayout) / sizeof(uint64_t)>;

struct Slot {
  const Driver* driver;  // null: free
  uint64_t address;
  std::array<uint64_t, kMaxMapRank> sizes;
  std::array<uint64_t, kMaxMapRank - 1> strides_bytes;
  LayoutWords layout;
  uint64_t map[16];
};
struct Set {
  Slot ways[kWays];
  uint8_t next;  // the way to be replaced
};
thread_local Set cache[kSets];

size_t set_of(uint64_t address, uint64_t inner_size, uint64_t outer_size,
              const TensorMapLayout& layout) {
  uint64_t h = address >> 4;
  h ^= inner_size * 0x9e3779b97f4a7c15 + outer_size * 0xc2b2ae3d27d4eb4f;
  h ^= uint64_t{layout.box[0]} << 20 ^ uint64_t { layout.box[1] } << 31;
  return (h * 0x9e3779b97f4a7c15) >> (64 - 5);
}
static_assert(kSets == 1 << 5);

bool same_layout(const Slot& slot, const TensorMapLayout& layout) {
  const auto words = std::bit_cast<LayoutWords>(layout);
  uint64_t different = 0;
  for (size_t i = 0; i < words.size(); ++i) different |= words[i] ^ slot.layout[i];
  return different == 0;
}

bool matches(const Slot& slot, const TensorMapSpec& spec) {
  return slot.address == spec.address && slot.sizes == spec.sizes &&
         slot.strides_bytes == spec.strides_bytes && same_layout(slot, spec.layout);
}

// The same for a tensor that has the layout's rank, without making its spec. The stride of a
// dimension of one element does not count: it follows from the others.
bool matches(const Slot& slot, const TensorView& tensor, const TensorMapLayout& layout) {
  if (slot.address != reinterpret_cast<uint64_t>(tensor.data) || !same_layout(slot, layout))
    return false;
  const auto bytes = static_cast<uint64_t>(size_bytes(tensor.dtype));
  for (uint32_t i = 0; i < layout.rank; ++i) {
    const uint32_t axis = layout.rank - 1 - i;
    const auto size = static_cast<uint64_t>(tensor.shape[axis]);
    if (slot.sizes[i] != size) return false;
    if (i > 0 && size != 1 &&
        slot.strides_bytes[i - 1] != static_cast<uint64_t>(tensor.strides[axis]) * bytes)
      return false;
  }
  return true;
}

[[gnu::noinline]] Status make(const Device& device, const TensorMapSpec& spec,
                              std::string_view name, Set& set, abi::TensorMap* map) {
  RT_RETURN_IF_ERROR(check_tensor_map(spec, name));
  const ContextGuard current(device);
  const abi::Result error = device.api().TensorMapEncodeTiled(
      map, spec.layout.type, spec.layout.rank, reinterpret_cast<void*>(spec.address),
      spec.sizes.data(), spec.strides_bytes.data(), spec.layout.box.data(),
      spec.layout.element_strides.data(), abi::kInterleaveNone, spec.layout.swizzle, spec.layout.l2,
      spec.layout.fill);
  if (error != abi::kSuccess)
    return device.failed(error, "making the tensor map of `" + std::string(name) + "`");
  Slot& slot = set.ways[set.next];
  set.next = static_cast<uint8_t>((set.next + 1) % kWays);
  slot.driver = &device.driver();
  slot.address = spec.address;
  slot.sizes = spec.sizes;
  slot.strides_bytes = spec.strides_bytes;
  slot.layout = std::bit_cast<LayoutWords>(spec.layout);
  std::memcpy(slot.map, map, sizeof slot.map);
  return {};
}

}  // namespace

Result<TensorMapLayout> layout_of(DType dtype, std::span<const uint32_t> box,
                                  abi::TensorMapSwizzle swizzle, std::string_view name) {
  if (box.empty() || box.size() > kMaxMapRank)
    return refused(name, "the engine does not have this rank", std::to_string(box.size()),
                   "1 to 5");
  const int type = map_type(dtype);
  if (type == kNoMapType)
    return refused(name, "the engine does not move this dtype", std::string(rooftile::name(dtype)),
                   "a number of 1, 2, 4 or 8 bytes");
  TensorMapLayout out;
  out.rank = static_cast<uint32_t>(box.size());
  out.type = static_cast<abi::TensorMapType>(type);
  out.swizzle = swizzle;
  for (uint32_t i = 0; i < out.rank; ++i) {
    out.box[i] = box[out.rank - 1 - i];
    out.element_strides[i] = 1;
  }
  return out;
}

Status spec_of(const TensorView& tensor, const TensorMapLayout& layout, std::string_view name,
               TensorMapSpec* spec) {
  const auto rank = static_cast<uint32_t>(tensor.rank);
  if (rank != layout.rank || rank < 1 || rank > kMaxMapRank)
    return refused(name, "the tensor's rank is not the map's", "rank " + std::to_string(rank),
                   "rank " + std::to_string(layout.rank));
  if (map_type(tensor.dtype) != layout.type)
    return refused(name, "the tensor's dtype is not the map's",
                   std::string(rooftile::name(tensor.dtype)),
                   "a dtype of map type " + std::to_string(layout.type));
  if (tensor.shape[rank - 1] != 1 && tensor.strides[rank - 1] != 1)
    return refused(name, "the innermost dimension is not contiguous",
                   "stride " + std::to_string(tensor.strides[rank - 1]), "stride 1",
                   "pass a tensor whose last dimension is contiguous, or a copy of it");
  spec->address = reinterpret_cast<uint64_t>(tensor.data);
  spec->layout = layout;
  const auto bytes = static_cast<uint64_t>(size_bytes(tensor.dtype));
  spec->sizes[0] = static_cast<uint64_t>(tensor.shape[rank - 1]);
  uint64_t compact_bytes = bytes * spec->sizes[0];
  for (uint32_t i = 1; i < kMaxMapRank; ++i) {
    uint64_t size = 0, stride_bytes = 0;
    if (i < rank) {
      const uint32_t axis = rank - 1 - i;
      size = static_cast<uint64_t>(tensor.shape[axis]);
      // A dimension of one element may carry any stride; the engine still wants a valid one.
      stride_bytes = size == 1 ? (compact_bytes + 15) / 16 * 16
                               : static_cast<uint64_t>(tensor.strides[axis]) * bytes;
      compact_bytes = stride_bytes * size;
    }
    spec->sizes[i] = size;
    spec->strides_bytes[i - 1] = stride_bytes;
  }
  return {};
}

Status check_tensor_map(const TensorMapSpec& spec, std::string_view name) {
  const TensorMapLayout& layout = spec.layout;
  constexpr uint64_t kMaxSize = uint64_t{1} << 32, kMaxStride = uint64_t{1} << 40;
  constexpr uint32_t kMaxBox = 256, kMaxElementStride = 8;
  if (layout.rank < 1 || layout.rank > kMaxMapRank)
    return refused(name, "the engine does not have this rank", std::to_string(layout.rank),
                   "1 to 5");
  if (spec.address % 16 != 0)
    return refused(name, "the data pointer is not aligned for the engine",
                   "address % 16 = " + std::to_string(spec.address % 16), "a multiple of 16 bytes",
                   "do not cut the tensor at an odd offset, or pass a copy");
  for (uint32_t i = 0; i < layout.rank; ++i) {
    if (spec.sizes[i] < 1 || spec.sizes[i] > kMaxSize)
      return refused(name, "a size is outside the engine's range",
                     std::to_string(spec.sizes[i]) + ", " + dim(i), "1 to 2^32 elements");
    if (layout.box[i] < 1 || layout.box[i] > kMaxBox)
      return refused(name, "a side of the box is outside the engine's range",
                     std::to_string(layout.box[i]) + ", " + dim(i), "1 to 256 elements",
                     "smaller tiles in the schedule, or several boxes for one tile");
    if (layout.element_strides[i] < 1 || layout.element_strides[i] > kMaxElementStride)
      return refused(name, "an element stride is outside the engine's range",
                     std::to_string(layout.element_strides[i]) + ", " + dim(i), "1 to 8");
  }
  for (uint32_t i = 0; i + 1 < layout.rank; ++i)
    if (spec.strides_bytes[i] % 16 != 0 || spec.strides_bytes[i] == 0 ||
        spec.strides_bytes[i] >= kMaxStride)
      return refused(name, "a stride is none that the engine takes",
                     std::to_string(spec.strides_bytes[i]) + " bytes, " + dim(i + 1),
                     "a multiple of 16 bytes, from 16 to below 2^40",
                     "pad the rows of the tensor to a multiple of 16 bytes");
  const uint64_t inner_bytes = layout.box[0] * element_bytes(layout.type);
  if (inner_bytes % 16 != 0)
    return refused(name, "the rows of the box are not whole chunks of the engine",
                   std::to_string(inner_bytes) + " bytes", "a multiple of 16 bytes");
  if (layout.swizzle != abi::kSwizzleNone && inner_bytes > swizzle_span(layout.swizzle))
    return refused(name, "the rows of the box are wider than the swizzle",
                   std::to_string(inner_bytes) + " bytes",
                   "at most " + std::to_string(swizzle_span(layout.swizzle)) + " bytes",
                   "several boxes for one tile, side by side");
  if (layout.fill == abi::kFillNan && layout.type != abi::kMapF16 && layout.type != abi::kMapBf16 &&
      layout.type != abi::kMapF32)
    return refused(name, "only floating-point tensors can be filled with NaN",
                   "map type " + std::to_string(layout.type), "f16, bf16 or f32");
  return {};
}

Status tensor_map(const Device& device, const TensorMapSpec& spec, std::string_view name,
                  abi::TensorMap* map) {
  Set& set = cache[set_of(spec.address, spec.sizes[0], spec.sizes[1], spec.layout)];
  for (const Slot& slot : set.ways)
    if (slot.driver == &device.driver() && matches(slot, spec)) {
      std::memcpy(map, slot.map, sizeof slot.map);
      return {};
    }
  return make(device, spec, name, set, map);
}

Status tensor_map(const Device& device, const TensorView& tensor, const TensorMapLayout& layout,
                  std::string_view name, abi::TensorMap* map) {
  const auto rank = static_cast<uint32_t>(tensor.rank);
  if (rank == layout.rank && rank >= 1 && rank <= kMaxMapRank &&
      map_type(tensor.dtype) == layout.type && tensor.strides[rank - 1] == 1) [[likely]] {
    const auto inner = static_cast<uint64_t>(tensor.shape[rank - 1]);
    const uint64_t outer = rank > 1 ? static_cast<uint64_t>(tensor.shape[rank - 2]) : 0;
    const Set& set = cache[set_of(reinterpret_cast<uint64_t>(tensor.data), inner, outer, layout)];
    for (const Slot& slot : set.ways)
      if (slot.driver == &device.driver() && matches(slot, tensor, layout)) {
        std::memcpy(map, slot.map, sizeof slot.map);
        return {};
      }
  }
  TensorMapSpec spec;
  RT_RETURN_IF_ERROR(spec_of(tensor, layout, name, &spec));
  return tensor_map(device, spec, name, map);
}

}  // namespace rooftile::cuda
