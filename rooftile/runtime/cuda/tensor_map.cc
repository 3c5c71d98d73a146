// SPDX-License-Identifier: Apache-2.0
#include "rooftile/runtime/cuda/tensor_map.h"

#include <cstring>

namespace rooftile::cuda {

namespace {

struct MapType {
  DType dtype;
  abi::TensorMapType type;
};

// f8 goes as bytes: the engine only moves them, and a zero is a zero.
constexpr std::array<MapType, 10> kMapTypes = {{{DType::kF32, abi::kMapF32},
                                                {DType::kBf16, abi::kMapBf16},
                                                {DType::kF16, abi::kMapF16},
                                                {DType::kF8E4M3, abi::kMapU8},
                                                {DType::kF8E5M2, abi::kMapU8},
                                                {DType::kI8, abi::kMapU8},
                                                {DType::kU8, abi::kMapU8},
                                                {DType::kI32, abi::kMapI32},
                                                {DType::kU32, abi::kMapU32},
                                                {DType::kI64, abi::kMapI64}}};

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
// out. 18 KB a thread, touched as far as it is used.
constexpr size_t kSets = 32, kWays = 2;

struct Slot {
  const Driver* driver;  // null: free
  TensorMapSpec spec;
  uint64_t map[16];
};
struct Set {
  Slot ways[kWays];
  uint8_t next;  // the way to be replaced
};
thread_local Set cache[kSets];

size_t set_of(const TensorMapSpec& spec) {
  uint64_t h = spec.address >> 4;
  h ^= spec.sizes[0] * 0x9e3779b97f4a7c15 + spec.sizes[1] * 0xc2b2ae3d27d4eb4f;
  h ^= uint64_t{spec.box[0]} << 20 ^ uint64_t { spec.box[1] } << 31;
  return (h * 0x9e3779b97f4a7c15) >> (64 - 5);
}
static_assert(kSets == 1 << 5);

bool same(const TensorMapSpec& a, const TensorMapSpec& b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

[[gnu::noinline]] Status make(const Device& device, const TensorMapSpec& spec,
                              std::string_view name, Set& set, abi::TensorMap* map) {
  RT_RETURN_IF_ERROR(check_tensor_map(spec, name));
  const ContextGuard current(device);
  const abi::Result error = device.api().TensorMapEncodeTiled(
      map, spec.type, spec.rank, reinterpret_cast<void*>(spec.address), spec.sizes.data(),
      spec.strides_bytes.data(), spec.box.data(), spec.element_strides.data(), abi::kInterleaveNone,
      spec.swizzle, spec.l2, spec.fill);
  if (error != abi::kSuccess)
    return device.failed(error, "making the tensor map of `" + std::string(name) + "`");
  Slot& slot = set.ways[set.next];
  set.next = static_cast<uint8_t>((set.next + 1) % kWays);
  slot.driver = &device.driver();
  slot.spec = spec;
  std::memcpy(slot.map, map, sizeof slot.map);
  return {};
}

}  // namespace

Status spec_of(const TensorView& tensor, std::span<const uint32_t> box,
               abi::TensorMapSwizzle swizzle, std::string_view name, TensorMapSpec* spec) {
  const auto rank = static_cast<uint32_t>(tensor.rank);
  if (rank < 1 || rank > kMaxMapRank || box.size() != rank)
    return refused(name, "the tensor has a rank that the engine or the box does not have",
                   "rank " + std::to_string(rank) + ", a box of rank " + std::to_string(box.size()),
                   "the same rank, 1 to 5");
  const MapType* type = nullptr;
  for (const MapType& candidate : kMapTypes)
    if (candidate.dtype == tensor.dtype) type = &candidate;
  if (type == nullptr)
    return refused(name, "the engine does not move this dtype",
                   std::string(rooftile::name(tensor.dtype)), "a number of 1, 2, 4 or 8 bytes");
  if (tensor.shape[rank - 1] != 1 && tensor.strides[rank - 1] != 1)
    return refused(name, "the innermost dimension is not contiguous",
                   "stride " + std::to_string(tensor.strides[rank - 1]), "stride 1",
                   "pass a tensor whose last dimension is contiguous, or a copy of it");
  *spec = {};
  spec->address = reinterpret_cast<uint64_t>(tensor.data);
  spec->rank = rank;
  spec->type = type->type;
  spec->swizzle = swizzle;
  const auto bytes = static_cast<uint64_t>(size_bytes(tensor.dtype));
  uint64_t compact_bytes = bytes;
  for (uint32_t i = 0; i < rank; ++i) {
    const uint32_t axis = rank - 1 - i;
    const auto size = static_cast<uint64_t>(tensor.shape[axis]);
    spec->sizes[i] = size;
    spec->box[i] = box[axis];
    spec->element_strides[i] = 1;
    // A dimension of one element may carry any stride; the engine still wants a valid one.
    if (i > 0)
      spec->strides_bytes[i - 1] = size == 1 ? (compact_bytes + 15) / 16 * 16
                                             : static_cast<uint64_t>(tensor.strides[axis]) * bytes;
    compact_bytes = i > 0 ? spec->strides_bytes[i - 1] * size : bytes * size;
  }
  return {};
}

Status check_tensor_map(const TensorMapSpec& spec, std::string_view name) {
  constexpr uint64_t kMaxSize = uint64_t{1} << 32, kMaxStride = uint64_t{1} << 40;
  constexpr uint32_t kMaxBox = 256, kMaxElementStride = 8;
  if (spec.rank < 1 || spec.rank > kMaxMapRank)
    return refused(name, "the engine does not have this rank", std::to_string(spec.rank), "1 to 5");
  if (spec.address % 16 != 0)
    return refused(name, "the data pointer is not aligned for the engine",
                   "address % 16 = " + std::to_string(spec.address % 16), "a multiple of 16 bytes",
                   "do not cut the tensor at an odd offset, or pass a copy");
  for (uint32_t i = 0; i < spec.rank; ++i) {
    if (spec.sizes[i] < 1 || spec.sizes[i] > kMaxSize)
      return refused(name, "a size is outside the engine's range",
                     std::to_string(spec.sizes[i]) + ", " + dim(i), "1 to 2^32 elements");
    if (spec.box[i] < 1 || spec.box[i] > kMaxBox)
      return refused(name, "a side of the box is outside the engine's range",
                     std::to_string(spec.box[i]) + ", " + dim(i), "1 to 256 elements",
                     "smaller tiles in the schedule, or several boxes for one tile");
    if (spec.element_strides[i] < 1 || spec.element_strides[i] > kMaxElementStride)
      return refused(name, "an element stride is outside the engine's range",
                     std::to_string(spec.element_strides[i]) + ", " + dim(i), "1 to 8");
  }
  for (uint32_t i = 0; i + 1 < spec.rank; ++i)
    if (spec.strides_bytes[i] % 16 != 0 || spec.strides_bytes[i] == 0 ||
        spec.strides_bytes[i] >= kMaxStride)
      return refused(name, "a stride is none that the engine takes",
                     std::to_string(spec.strides_bytes[i]) + " bytes, " + dim(i + 1),
                     "a multiple of 16 bytes, from 16 to below 2^40",
                     "pad the rows of the tensor to a multiple of 16 bytes");
  const uint64_t inner_bytes = spec.box[0] * element_bytes(spec.type);
  if (inner_bytes % 16 != 0)
    return refused(name, "the rows of the box are not whole chunks of the engine",
                   std::to_string(inner_bytes) + " bytes", "a multiple of 16 bytes");
  if (spec.swizzle != abi::kSwizzleNone && inner_bytes > swizzle_span(spec.swizzle))
    return refused(name, "the rows of the box are wider than the swizzle",
                   std::to_string(inner_bytes) + " bytes",
                   "at most " + std::to_string(swizzle_span(spec.swizzle)) + " bytes",
                   "several boxes for one tile, side by side");
  if (spec.fill == abi::kFillNan && spec.type != abi::kMapF16 && spec.type != abi::kMapBf16 &&
      spec.type != abi::kMapF32)
    return refused(name, "only floating-point tensors can be filled with NaN",
                   "map type " + std::to_string(spec.type), "f16, bf16 or f32");
  return {};
}

Status tensor_map(const Device& device, const TensorMapSpec& spec, std::string_view name,
                  abi::TensorMap* map) {
  Set& set = cache[set_of(spec)];
  for (const Slot& slot : set.ways)
    if (slot.driver == &device.driver() && same(slot.spec, spec)) {
      std::memcpy(map, slot.map, sizeof slot.map);
      return {};
    }
  return make(device, spec, name, set, map);
}

}  // namespace rooftile::cuda
