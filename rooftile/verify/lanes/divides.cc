// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/lanes/divides.h"

#include <numeric>

namespace rooftile::verify {

using K = ExprKind;

namespace {

// Divisors beyond this are of no use, and products of them would leave 64 bits.
constexpr int64_t kLargest = int64_t{1} << 30;

}  // namespace

void Divides::assume(const Expr& fact) {
  const std::vector<Expr>& a = fact.args();
  if (fact.kind() == K::kAnd) {
    assume(a[0]);
    assume(a[1]);
    return;
  }
  if (fact.kind() != K::kEq || !a[1].is_const()) return;
  if (a[1].is_const(0) && a[0].kind() == K::kMod && a[0].args()[1].is_const())
    return assume(a[0].args()[0], a[0].args()[1].value());
  assume(a[0], a[1].value());
}

void Divides::assume(const Expr& e, int64_t divisor) {
  if (divisor == 0) return;
  const int64_t d = divisor < 0 ? -divisor : divisor;
  const auto [it, fresh] = known_.emplace(e.str(), d);
  if (!fresh) it->second = std::lcm(std::min(it->second, kLargest), std::min(d, kLargest));
}

int64_t Divides::of(const Expr& e) const {
  const std::vector<Expr>& a = e.args();
  int64_t own = 1;
  switch (e.kind()) {
    case K::kConst:
      return e.value() < 0 ? -e.value() : e.value();
    case K::kAdd:
    case K::kSub:
    case K::kMin:
    case K::kMax:
      own = std::gcd(of(a[0]), of(a[1]));
      break;
    case K::kMul: {
      const int64_t x = of(a[0]), y = of(a[1]);
      // The powers of two are what matters.
      own = x == 0 || y == 0 ? 0 : x > kLargest / y ? std::max(x, y) : x * y;
      break;
    }
    case K::kFloorDiv:
      if (a[1].is_const() && a[1].value() > 0) {
        const int64_t x = of(a[0]);
        own = x % a[1].value() == 0 ? x / a[1].value() : 1;
      }
      break;
    case K::kMod:
      own = std::gcd(of(a[0]), of(a[1]));
      break;
    case K::kSelect:
      own = std::gcd(of(a[1]), of(a[2]));
      break;
    default:
      break;
  }
  if (own == 0 || known_.empty()) return own;
  const auto it = known_.find(e.str());
  return it == known_.end() ? own : std::max(own, it->second % own == 0 ? it->second : own);
}

}  // namespace rooftile::verify
