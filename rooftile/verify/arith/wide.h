// SPDX-License-Identifier: Apache-2.0
// Integers of 128 bits that never wrap, and rationals of them.
//
// Coefficients and bounds come from 64-bit sizes; sums and products of a few of them fit 128 bits.
// Where one does not, Overflow is thrown: it ends the question at hand (Arithmetic answers unknown)
// and never leaves this folder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace rooftile::verify::arith {

using Wide = __int128;

struct Overflow {};

constexpr Wide kWideMax = static_cast<Wide>(~static_cast<unsigned __int128>(0) >> 1);
constexpr Wide kWideMin = -kWideMax - 1;

inline bool fits_int64(Wide v) { return v >= INT64_MIN && v <= INT64_MAX; }

inline Wide add(Wide a, Wide b) {
  if (b > 0 ? a > kWideMax - b : a < kWideMin - b) throw Overflow{};
  return a + b;
}
inline Wide neg(Wide a) {
  if (a == kWideMin) throw Overflow{};
  return -a;
}
inline Wide sub(Wide a, Wide b) { return add(a, neg(b)); }
// Without the compiler's checked product: clang's calls a function that libgcc does not have.
inline Wide mul(Wide a, Wide b) {
  if (fits_int64(a) && fits_int64(b)) return a * b;
  if (a == 0 || b == 0) return 0;
  if (a == kWideMin || b == kWideMin) throw Overflow{};
  const Wide limit = kWideMax / (a < 0 ? -a : a);
  if ((b < 0 ? -b : b) > limit) throw Overflow{};
  return a * b;
}

// b != 0.
inline Wide floor_div(Wide a, Wide b) {
  if (b == -1) return neg(a);
  return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}
inline Wide ceil_div(Wide a, Wide b) { return neg(floor_div(neg(a), b)); }
inline Wide floor_mod(Wide a, Wide b) { return sub(a, mul(b, floor_div(a, b))); }

inline Wide gcd(Wide a, Wide b) {
  a = a < 0 ? neg(a) : a;
  b = b < 0 ? neg(b) : b;
  while (b != 0) {
    if (fits_int64(a) && fits_int64(b)) {
      auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
      while (y != 0) {
        const uint64_t r = x % y;
        x = y;
        y = r;
      }
      return static_cast<Wide>(x);
    }
    const Wide r = a % b;
    a = b;
    b = r;
  }
  return a;
}

std::string to_string(Wide v);

// num / den in lowest terms, 0 < den < 2^62. Larger denominators are Overflow: a point that needs
// them is no use, and remainders of long numbers are slow.
struct Rational {
  Wide num = 0, den = 1;

  Rational() = default;
  Rational(Wide n) : num(n) {}  // NOLINT: implicit by intent
  Rational(Wide n, Wide d) : num(n), den(d) {
    if (den < 0) {
      num = neg(num);
      den = neg(den);
    }
    const Wide g = gcd(num, den);
    if (g > 1) {
      num /= g;
      den /= g;
    }
    if (den >> 62 != 0) throw Overflow{};
  }

  bool is_zero() const { return num == 0; }
  bool is_integer() const { return den == 1; }
  Wide floor() const { return floor_div(num, den); }

  friend Rational operator+(const Rational& a, const Rational& b) {
    if (a.den == 1 && b.den == 1) return {add(a.num, b.num)};
    const Wide g = gcd(a.den, b.den);
    return {add(mul(a.num, b.den / g), mul(b.num, a.den / g)), mul(a.den, b.den / g)};
  }
  friend Rational operator*(const Rational& a, const Rational& b) {
    if (a.den == 1 && b.den == 1) return {mul(a.num, b.num)};
    return {mul(a.num, b.num), mul(a.den, b.den)};
  }
  Rational operator-() const {
    Rational r = *this;
    r.num = neg(r.num);
    return r;
  }
  friend Rational operator-(const Rational& a, const Rational& b) { return a + -b; }
  friend Rational operator/(const Rational& a, const Rational& b) {
    return a * Rational(b.den, b.num);
  }
  friend bool operator<(const Rational& a, const Rational& b) {
    return a.den == b.den ? a.num < b.num : mul(a.num, b.den) < mul(b.num, a.den);
  }
  friend bool operator==(const Rational& a, const Rational& b) {
    return a.num == b.num && a.den == b.den;
  }
};

}  // namespace rooftile::verify::arith
