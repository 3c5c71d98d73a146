// SPDX-License-Identifier: Apache-2.0
// Conversions between f32 and the storage floats (bf16, f16, fp8), round to nearest even, in plain
// code.
//
// The reference for every vectorised conversion. bf16 and f16 overflow to infinity; fp8 saturates,
// infinities included (OCP FP8, saturating mode: e4m3fn has no infinity, max 448; e5m2 max 57344).
// NaN stays NaN.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "rooftile/base/dtype.h"

namespace rooftile {
namespace float_detail {

// A float of 1 sign, kExp exponent and kMan mantissa bits with the usual bias. Codes above
// kMaxFinite (sign apart) are infinity and NaN.
template <int kExp, int kMan, uint32_t kMaxFinite, uint32_t kOverflow, uint32_t kNan>
struct SmallFloat {
  static constexpr int kBias = (1 << (kExp - 1)) - 1;
  static constexpr uint32_t kSignBit = 1u << (kExp + kMan);

  static uint32_t encode(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const uint32_t sign = (bits >> 31) != 0 ? kSignBit : 0;
    const uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return sign | kNan;
    const int exponent = static_cast<int>(magnitude >> 23) - 127;
    // f32 denormals are far below half of the smallest value of any format here.
    if (exponent < 1 - kBias - kMan - 1) return sign;
    const bool normal = exponent >= 1 - kBias;
    const uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
    const int shift = 23 - kMan + (normal ? 0 : 1 - kBias - exponent);
    const uint32_t half = 1u << (shift - 1);
    const uint32_t rest = mantissa & ((1u << shift) - 1);
    uint32_t kept = mantissa >> shift;
    kept += rest > half || (rest == half && (kept & 1) != 0) ? 1 : 0;
    // The implicit bit and a carry out of the mantissa both add 1 to the exponent field.
    const uint32_t code =
        normal ? (static_cast<uint32_t>(exponent + kBias - 1) << kMan) + kept : kept;
    return sign | (code > kMaxFinite ? kOverflow : code);
  }

  static float decode(uint32_t code) {
    const uint32_t sign = (code & kSignBit) != 0 ? 0x80000000u : 0;
    const uint32_t magnitude = code & (kSignBit - 1);
    const uint32_t mantissa = magnitude & ((1u << kMan) - 1);
    if (magnitude > kMaxFinite) {
      const bool infinite = kOverflow > kMaxFinite && magnitude == kOverflow;
      return std::bit_cast<float>(sign | (infinite ? 0x7f800000u : 0x7fc00000u));
    }
    const uint32_t exponent = magnitude >> kMan;
    if (exponent == 0) {
      // 2^(1 - bias - man): one unit in the last place of the denormals.
      const float unit = std::bit_cast<float>(static_cast<uint32_t>(127 + 1 - kBias - kMan) << 23);
      const float value = static_cast<float>(mantissa) * unit;
      return sign != 0 ? -value : value;
    }
    return std::bit_cast<float>(sign | ((exponent + 127u - static_cast<uint32_t>(kBias)) << 23) |
                                (mantissa << (23 - kMan)));
  }
};

using F16 = SmallFloat<5, 10, 0x7bff, 0x7c00, 0x7e00>;
using E4M3 = SmallFloat<4, 3, 0x7e, 0x7e, 0x7f>;
using E5M2 = SmallFloat<5, 2, 0x7b, 0x7b, 0x7f>;

// e5m2 has infinities that decode, though encoding never gives one.
inline float decode_e5m2(uint8_t code) {
  if ((code & 0x7f) == 0x7c)
    return std::bit_cast<float>((code & 0x80) != 0 ? 0xff800000u : 0x7f800000u);
  return E5M2::decode(code);
}

}  // namespace float_detail

inline uint16_t f32_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1)) >> 16);
}
inline float bf16_to_f32(uint16_t code) {
  return std::bit_cast<float>(static_cast<uint32_t>(code) << 16);
}

inline uint16_t f32_to_f16(float value) {
  return static_cast<uint16_t>(float_detail::F16::encode(value));
}
inline float f16_to_f32(uint16_t code) { return float_detail::F16::decode(code); }

inline uint8_t f32_to_e4m3(float value) {
  return static_cast<uint8_t>(float_detail::E4M3::encode(value));
}
inline float e4m3_to_f32(uint8_t code) { return float_detail::E4M3::decode(code); }

inline uint8_t f32_to_e5m2(float value) {
  return static_cast<uint8_t>(float_detail::E5M2::encode(value));
}
inline float e5m2_to_f32(uint8_t code) { return float_detail::decode_e5m2(code); }

// The nearest value of a float dtype; `dtype` must be a float.
inline float round_to(float value, DType dtype) {
  switch (dtype) {
    case DType::kBf16:
      return bf16_to_f32(f32_to_bf16(value));
    case DType::kF16:
      return f16_to_f32(f32_to_f16(value));
    case DType::kF8E4M3:
      return e4m3_to_f32(f32_to_e4m3(value));
    case DType::kF8E5M2:
      return e5m2_to_f32(f32_to_e5m2(value));
    default:
      return value;
  }
}

namespace float_detail {
template <class T>
T load_raw(const void* data, int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + index * static_cast<int64_t>(sizeof(T)),
              sizeof(T));
  return value;
}
template <class T>
void store_raw(void* data, int64_t index, T value) {
  std::memcpy(static_cast<char*>(data) + index * static_cast<int64_t>(sizeof(T)), &value,
              sizeof(T));
}
}  // namespace float_detail

// Element `index` of an array of `dtype`; integers are exact to 2^53.
inline double load_element(const void* data, DType dtype, int64_t index) {
  using float_detail::load_raw;
  switch (dtype) {
    case DType::kF32:
      return load_raw<float>(data, index);
    case DType::kBf16:
      return bf16_to_f32(load_raw<uint16_t>(data, index));
    case DType::kF16:
      return f16_to_f32(load_raw<uint16_t>(data, index));
    case DType::kF8E4M3:
      return e4m3_to_f32(load_raw<uint8_t>(data, index));
    case DType::kF8E5M2:
      return e5m2_to_f32(load_raw<uint8_t>(data, index));
    case DType::kI8:
      return load_raw<int8_t>(data, index);
    case DType::kU8:
      return load_raw<uint8_t>(data, index);
    case DType::kI32:
      return load_raw<int32_t>(data, index);
    case DType::kU32:
      return load_raw<uint32_t>(data, index);
    case DType::kI64:
      return static_cast<double>(load_raw<int64_t>(data, index));
    case DType::kBool:
      return load_raw<uint8_t>(data, index) != 0;
  }
  return 0;
}

// Stores `value`, which must be in range for integer dtypes; floats go through f32.
inline void store_element(void* data, DType dtype, int64_t index, double value) {
  using float_detail::store_raw;
  const float f = is_float(dtype) ? static_cast<float>(value) : 0.0f;
  switch (dtype) {
    case DType::kF32:
      return store_raw(data, index, f);
    case DType::kBf16:
      return store_raw(data, index, f32_to_bf16(f));
    case DType::kF16:
      return store_raw(data, index, f32_to_f16(f));
    case DType::kF8E4M3:
      return store_raw(data, index, f32_to_e4m3(f));
    case DType::kF8E5M2:
      return store_raw(data, index, f32_to_e5m2(f));
    case DType::kI8:
      return store_raw(data, index, static_cast<int8_t>(value));
    case DType::kU8:
      return store_raw(data, index, static_cast<uint8_t>(value));
    case DType::kI32:
      return store_raw(data, index, static_cast<int32_t>(value));
    case DType::kU32:
      return store_raw(data, index, static_cast<uint32_t>(value));
    case DType::kI64:
      return store_raw(data, index, static_cast<int64_t>(value));
    case DType::kBool:
      return store_raw(data, index, static_cast<uint8_t>(value != 0));
  }
}

}  // namespace rooftile
