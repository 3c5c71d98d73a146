// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/lanes/interval.h"

#include <bit>

namespace rooftile::verify {
namespace {

// A bound that leaves 64 bits is none.
int64_t saturated(__int128 v) {
  if (v <= kNoLeast) return kNoLeast;
  return v >= kNoMost ? kNoMost : static_cast<int64_t>(v);
}

bool open(int64_t bound) { return bound == kNoLeast || bound == kNoMost; }

int64_t product(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  if (open(a) || open(b)) return (a < 0) == (b < 0) ? kNoMost : kNoLeast;
  return saturated(static_cast<__int128>(a) * b);
}

int64_t quotient(int64_t a, int64_t b) {
  if (open(a)) return (a < 0) == (b < 0) ? kNoMost : kNoLeast;
  if (open(b)) return (a < 0) == (b < 0) || a == 0 ? 0 : -1;
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

Interval without_zero(Interval b) {
  if (b.lo == 0) b.lo = 1;
  if (b.hi == 0) b.hi = -1;
  return b;
}

}  // namespace

Interval operator+(const Interval& a, const Interval& b) {
  return {open(a.lo) || open(b.lo) ? kNoLeast : saturated(static_cast<__int128>(a.lo) + b.lo),
          open(a.hi) || open(b.hi) ? kNoMost : saturated(static_cast<__int128>(a.hi) + b.hi)};
}

Interval operator-(const Interval& a, const Interval& b) {
  return {open(a.lo) || open(b.hi) ? kNoLeast : saturated(static_cast<__int128>(a.lo) - b.hi),
          open(a.hi) || open(b.lo) ? kNoMost : saturated(static_cast<__int128>(a.hi) - b.lo)};
}

Interval operator*(const Interval& a, const Interval& b) {
  const auto ends = {product(a.lo, b.lo), product(a.lo, b.hi), product(a.hi, b.lo),
                     product(a.hi, b.hi)};
  return {std::min(ends), std::max(ends)};
}

Interval floor_div(const Interval& a, const Interval& divisor) {
  const Interval b = without_zero(divisor);
  if (b.lo <= 0 && b.hi >= 0) return {};
  const auto ends = {quotient(a.lo, b.lo), quotient(a.lo, b.hi), quotient(a.hi, b.lo),
                     quotient(a.hi, b.hi)};
  return {std::min(ends), std::max(ends)};
}

Interval floor_mod(const Interval& a, const Interval& divisor) {
  const Interval b = without_zero(divisor);
  if (b.lo <= 0) return {};
  // Within one period of a known divisor, the remainder is the difference to its start.
  if (b.lo == b.hi && a.bounded() && quotient(a.lo, b.lo) == quotient(a.hi, b.lo))
    return a - Interval::point(quotient(a.lo, b.lo) * b.lo);
  const int64_t most = b.hi == kNoMost ? kNoMost : b.hi - 1;
  return {0, a.lo >= 0 ? std::min(most, a.hi) : most};
}

Interval bits_below(const Interval& a, const Interval& b) {
  if (a.lo < 0 || b.lo < 0 || !a.bounded() || !b.bounded()) return {};
  const auto most = static_cast<uint64_t>(std::max(a.hi, b.hi));
  const int bits = static_cast<int>(std::bit_width(most));
  return {0, bits >= 63 ? kNoMost : (int64_t{1} << bits) - 1};
}

}  // namespace rooftile::verify
