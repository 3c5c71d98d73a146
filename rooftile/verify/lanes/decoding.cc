// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/lanes/decoding.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace rooftile::verify {

using K = ExprKind;

Decoding::Product Decoding::product_of(const Expr& e) {
  if (e.is_const()) return {e.value(), {}};
  if (e.kind() != K::kMul) return {1, {e}};
  Product out = product_of(e.args()[0]);
  const Product more = product_of(e.args()[1]);
  if (__builtin_mul_overflow(out.constant, more.constant, &out.constant)) return {1, {e}};
  out.factors.insert(out.factors.end(), more.factors.begin(), more.factors.end());
  return out;
}

// False, and `p` as it was, if it does not divide.
bool Decoding::divide(Product& p, const Product& by) {
  Product rest = p;
  if (by.constant <= 0 || rest.constant % by.constant != 0) return false;
  rest.constant /= by.constant;
  for (const Expr& factor : by.factors) {
    const auto it = std::find_if(rest.factors.begin(), rest.factors.end(),
                                 [&](const Expr& f) { return f.same_as(factor); });
    if (it == rest.factors.end()) return false;
    rest.factors.erase(it);
  }
  p = std::move(rest);
  return true;
}

Expr Decoding::value(const Product& p) {
  Expr out = 1;
  for (const Expr& factor : p.factors) out = out * factor;
  return out * Expr(p.constant);
}

void Decoding::pop() {
  for (const std::string& x : scopes_.back()) below_.erase(x);
  scopes_.pop_back();
}

const Decoding::Product* Decoding::bound(const Expr& x) const {
  const auto it = below_.find(x.str());
  return it == below_.end() ? nullptr : &it->second;
}

void Decoding::remember(const Expr& x, const Product& below) {
  if (below.factors.size() + (below.constant != 1 ? 1 : 0) < 2) return;
  std::string key = x.str();
  if (below_.emplace(key, below).second) scopes_.back().push_back(std::move(key));
}

void Decoding::assume(const Expr& fact) {
  if (fact.kind() != K::kLt) return;
  const Expr &x = fact.args()[0], &limit = fact.args()[1];
  if (x.is_const()) return;
  if (limit.kind() != K::kMin) return remember(x, product_of(limit));
  // Below a minimum is below both.
  for (const Expr& arm : limit.args()) assume(x < arm);
}

std::vector<Expr> Decoding::quotient(const Expr& x, const Expr& d) {
  const Expr q = x / d;
  std::vector<Expr> facts;
  if (!d.is_const()) facts.push_back(q * d <= x);
  const Product* known = bound(x);
  if (known == nullptr) return facts;
  const Product by = product_of(d);
  Product rest = *known;
  if (divide(rest, by)) {
    remember(q, rest);
    facts.push_back(q < value(rest));
    return facts;
  }
  // Bands: d is k times all but one of the factors of what x is below.
  if (by.constant <= 1) return facts;
  const Product without{1, by.factors};
  rest = *known;
  if (!divide(rest, without)) return facts;
  const Expr across = value(rest), k = by.constant;
  remember(x % d, {1, {min(k, across - q * k), value(without)}});
  facts.push_back(q * k < across);
  return facts;
}

std::vector<Expr> Decoding::remainder(const Expr& x, const Expr& d) {
  std::vector<Expr> facts = quotient(x, d);
  const Expr r = x % d;
  remember(r, product_of(d));
  if (!d.is_const()) {
    facts.push_back(Expr(0) <= r);
    facts.push_back(r < d);
  }
  return facts;
}

Expr Decoding::simplified(const Expr& sum) {
  if (sum.kind() != K::kSub && sum.kind() != K::kAdd) return sum;
  // `taken` is (x / d) d: gives d.
  const auto divisor = [](const Expr& taken, const Expr& x) -> std::optional<Expr> {
    const Product product = product_of(taken);
    for (const Expr& q : product.factors) {
      if (q.kind() != K::kFloorDiv || !q.args()[0].same_as(x)) continue;
      Product rest = product;
      if (divide(rest, {1, {q}}) && divide(rest, product_of(q.args()[1])) && rest.factors.empty() &&
          rest.constant == 1)
        return q.args()[1];
    }
    return std::nullopt;
  };
  const Expr &a = sum.args()[0], &b = sum.args()[1];
  if (sum.kind() == K::kSub) {
    const std::optional<Expr> d = divisor(b, a);
    return d ? a % *d : sum;
  }
  for (const auto& [taken, rest] : {std::pair(a, b), std::pair(b, a)})
    if (rest.kind() == K::kMod)
      if (const auto d = divisor(taken, rest.args()[0]); d && d->same_as(rest.args()[1]))
        return rest.args()[0];
  return sum;
}

}  // namespace rooftile::verify
