// SPDX-License-Identifier: Apache-2.0
// The functions that the `meaning` column of lanes/pure_ops.def names.
//
// Casts give the bits of their operand back in a form that turns into whatever type is asked for,
// because the column does not say it.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "rooftile/base/float_convert.h"

namespace rooftile::emulate {

template <class T>
requires std::is_integral_v<T> T lane_floor_div(T a, T b) {
  if (b == 0) return 0;
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(a));
    return static_cast<T>(a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0));
  } else {
    return a / b;
  }
}
template <class T>
requires std::is_integral_v<T> T lane_floor_mod(T a, T b) {
  if (b == 0) return 0;
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return 0;
    const T rest = a % b;
    return rest != 0 && (rest < 0) != (b < 0) ? static_cast<T>(rest + b) : rest;
  } else {
    return a % b;
  }
}

template <class T>
T lane_min(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return a < b || std::isnan(a) ? a : b;
  return b < a ? b : a;
}
template <class T>
T lane_max(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return a > b || std::isnan(a) ? a : b;
  return a < b ? b : a;
}

template <class T, class By>
requires std::is_integral_v<T> &&(sizeof(By) == 4) T lane_shl(T a, By b) {
  const uint32_t by = static_cast<uint32_t>(b) & (8 * sizeof(T) - 1);
  return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) << by);
}
template <class T, class By>
requires std::is_integral_v<T> &&(sizeof(By) == 4) T lane_shr(T a, By b) {
  return a >> (static_cast<uint32_t>(b) & (8 * sizeof(T) - 1));
}

inline uint32_t lane_mul_hi(uint32_t a, uint32_t b) {
  return static_cast<uint32_t>((static_cast<uint64_t>(a) * b) >> 32);
}

// Byte i of the result is byte (c >> 4i) & 7 of {a, b}; bit 3 of the nibble replicates its sign.
inline uint32_t lane_prmt(uint32_t a, uint32_t b, uint32_t c) {
  const uint64_t both = (static_cast<uint64_t>(b) << 32) | a;
  uint32_t out = 0;
  for (int i = 0; i < 4; ++i) {
    const uint32_t nibble = (c >> (4 * i)) & 0xf;
    uint32_t byte = static_cast<uint32_t>(both >> (8 * (nibble & 7))) & 0xff;
    if ((nibble & 8) != 0) byte = (byte & 0x80) != 0 ? 0xff : 0;
    out |= byte << (8 * i);
  }
  return out;
}

template <class From>
struct LaneCast {
  From value;
  template <class To>
  explicit operator To() const {
    if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
      if (std::isnan(value)) return 0;
      // The bounds as floats: the upper one rounds up to a power of two, which is out of range.
      constexpr From kLow = static_cast<From>(std::numeric_limits<To>::min());
      constexpr From kHigh = static_cast<From>(std::numeric_limits<To>::max());
      if (value <= kLow) return std::numeric_limits<To>::min();
      if (value >= kHigh) return std::numeric_limits<To>::max();
    }
    return static_cast<To>(value);
  }
};
template <class From>
LaneCast<From> lane_cast(From a) {
  return {a};
}

template <class From>
struct LaneBits {
  From value;
  template <class To>
  explicit operator To() const {
    static_assert(sizeof(To) == sizeof(From));
    return std::bit_cast<To>(value);
  }
};
template <class From>
LaneBits<From> lane_bits(From a) {
  return {a};
}

inline uint32_t lane_pack_bf16(float low, float high) {
  return f32_to_bf16(low) | (static_cast<uint32_t>(f32_to_bf16(high)) << 16);
}
inline float lane_low_bf16(uint32_t a) { return bf16_to_f32(static_cast<uint16_t>(a)); }
inline float lane_high_bf16(uint32_t a) { return bf16_to_f32(static_cast<uint16_t>(a >> 16)); }
inline uint32_t lane_pack_f16(float low, float high) {
  return f32_to_f16(low) | (static_cast<uint32_t>(f32_to_f16(high)) << 16);
}
inline float lane_low_f16(uint32_t a) { return f16_to_f32(static_cast<uint16_t>(a)); }
inline float lane_high_f16(uint32_t a) { return f16_to_f32(static_cast<uint16_t>(a >> 16)); }
inline uint32_t lane_to_e4m3(float a) { return f32_to_e4m3(a); }
inline float lane_from_e4m3(uint32_t a) { return e4m3_to_f32(static_cast<uint8_t>(a)); }
inline uint32_t lane_to_e5m2(float a) { return f32_to_e5m2(a); }
inline float lane_from_e5m2(uint32_t a) { return e5m2_to_f32(static_cast<uint8_t>(a)); }

// The 64 bits of a wgmma matrix descriptor (PTX ISA, "Matrix Descriptor Format"). `swizzle` is
// lanes::Swizzle: none, 32, 64, 128 bytes; the hardware counts 0, 3, 2, 1.
inline uint64_t lane_matrix_desc(uint32_t start, uint32_t leading, uint32_t stride,
                                 uint32_t swizzle) {
  const auto field = [](uint32_t bytes) { return static_cast<uint64_t>((bytes & 0x3ffff) >> 4); };
  return field(start) | (field(leading) << 16) | (field(stride) << 32) |
         (static_cast<uint64_t>((4 - swizzle) & 3) << 62);
}

}  // namespace rooftile::emulate
