// SPDX-License-Identifier: Apache-2.0
// Element types: one table of their names, sizes and DLPack codes, read by every layer.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace rooftile {

enum class DType : uint8_t {
  kF32,
  kBf16,
  kF16,
  kF8E4M3,
  kF8E5M2,
  kI8,
  kU8,
  kI32,
  kU32,
  kI64,
  kBool
};

struct DTypeInfo {
  DType dtype;
  std::string_view name;
  int size_bytes;
  uint8_t dlpack_code;  // DLPack: int 0, uint 1, float 2, bfloat 4, bool 6, e4m3fn 10, e5m2 12
  uint8_t dlpack_bits;
  bool is_float;
};

inline constexpr std::array<DTypeInfo, 11> kDTypes = {{
    {DType::kF32, "f32", 4, 2, 32, true},
    {DType::kBf16, "bf16", 2, 4, 16, true},
    {DType::kF16, "f16", 2, 2, 16, true},
    {DType::kF8E4M3, "f8e4m3", 1, 10, 8, true},
    {DType::kF8E5M2, "f8e5m2", 1, 12, 8, true},
    {DType::kI8, "i8", 1, 0, 8, false},
    {DType::kU8, "u8", 1, 1, 8, false},
    {DType::kI32, "i32", 4, 0, 32, false},
    {DType::kU32, "u32", 4, 1, 32, false},
    {DType::kI64, "i64", 8, 0, 64, false},
    {DType::kBool, "bool", 1, 6, 8, false},
}};

constexpr const DTypeInfo& info(DType dtype) { return kDTypes[static_cast<size_t>(dtype)]; }
constexpr std::string_view name(DType dtype) { return info(dtype).name; }
constexpr int size_bytes(DType dtype) { return info(dtype).size_bytes; }
constexpr bool is_float(DType dtype) { return info(dtype).is_float; }
constexpr bool is_narrow_float(DType dtype) { return is_float(dtype) && dtype != DType::kF32; }

constexpr std::optional<DType> dtype_from_name(std::string_view text) {
  for (const DTypeInfo& entry : kDTypes)
    if (entry.name == text) return entry.dtype;
  return std::nullopt;
}

}  // namespace rooftile
