// SPDX-License-Identifier: Apache-2.0
// Intervals of integers, ends included; the extremes of int64 stand for "no bound".
#pragma once

#include <algorithm>
#include <cstdint>

namespace rooftile::verify {

constexpr int64_t kNoLeast = INT64_MIN, kNoMost = INT64_MAX;

struct Interval {
  int64_t lo = kNoLeast, hi = kNoMost;

  static constexpr Interval point(int64_t v) { return {v, v}; }
  bool within(const Interval& o) const { return o.lo <= lo && hi <= o.hi; }
  bool bounded() const { return lo != kNoLeast && hi != kNoMost; }
  bool empty() const { return lo > hi; }
  bool operator==(const Interval&) const = default;
};

inline Interval hull(const Interval& a, const Interval& b) {
  return {std::min(a.lo, b.lo), std::max(a.hi, b.hi)};
}
inline Interval meet(const Interval& a, const Interval& b) {
  return {std::max(a.lo, b.lo), std::min(a.hi, b.hi)};
}

Interval operator+(const Interval& a, const Interval& b);
Interval operator-(const Interval& a, const Interval& b);
Interval operator*(const Interval& a, const Interval& b);
// Rounded down; of the points where the divisor is not 0.
Interval floor_div(const Interval& a, const Interval& b);
Interval floor_mod(const Interval& a, const Interval& b);
// and, or, xor of numbers that are not negative; no bound otherwise.
Interval bits_below(const Interval& a, const Interval& b);

}  // namespace rooftile::verify
