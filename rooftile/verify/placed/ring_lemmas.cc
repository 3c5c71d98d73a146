// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/placed/ring_lemmas.h"

namespace rooftile::verify {
namespace {

// f is the number of phases over of a barrier that ends one phase an item of its slot, `count`
// items being done: the ceiling of (count - s) / S, for slot s.
std::vector<Expr> phases(const Expr& count, int depth) {
  const Expr S = depth, f = Expr::sym("f"), left = count - Expr::sym("s");
  return {left <= S * f, S * f <= left + Expr(depth - 1)};
}

}  // namespace

std::vector<Lemma> ring_lemmas(int depth) {
  const Expr S = depth, p = Expr::sym("p"), c = Expr::sym("c"), d = Expr::sym("d"),
             q = Expr::sym("q"), s = Expr::sym("s"), m = Expr::sym("m"), k = Expr::sym("k"),
             f = Expr::sym("f");
  const Expr n = q * S + s;
  const auto with = [&](std::vector<Expr> more) {
    for (const Expr& e : {c >= Expr(0), c <= p, p <= c + S}) more.push_back(e);
    return more;
  };
  const std::vector<Expr> item = {q >= Expr(0), s >= Expr(0), s < S};
  const auto of_item = [&](std::vector<Expr> more, const std::vector<Expr>& barrier) {
    more.insert(more.end(), item.begin(), item.end());
    more.insert(more.end(), barrier.begin(), barrier.end());
    return with(std::move(more));
  };
  return {
      {Kind::kRingCredit, "a fill behind its wait leaves no reader more than a ring behind",
       with({c <= d, d <= p, p < c + S}), (p + Expr(1) <= c + S) && (p + Expr(1) <= d + S)},
      {Kind::kRingCredit, "a release behind its wait is of a slot that was filled", with({c < p}),
       (c + Expr(1) <= p) && (p <= c + Expr(1) + S)},
      // A reader looks at items in order and holds what it has not given back. It waits for the
      // phase of parity q % 2 to end, and passes where f % 2 differs from it; a producer where it
      // does not. Two values one apart are all that f takes, so the bit tells.
      {Kind::kRingParity, "the wait for a full slot passes when it is full",
       of_item({c <= n, n < p}, phases(p, depth)), f == q + Expr(1)},
      {Kind::kRingParity, "the wait for a full slot does not pass before",
       of_item({c <= n, n == p}, phases(p, depth)), f == q},
      {Kind::kRingParity, "the wait for a free slot passes when it is free",
       of_item({n == p, n < c + S}, phases(c, depth)), f == q},
      {Kind::kRingParity, "the wait for a free slot does not pass before",
       of_item({n == p, n == c + S}, phases(c, depth)), f == q - Expr(1)},
      // Two items lie in one slot where a multiple of S, S k, lies between them.
      {Kind::kRingHazard, "the slot being filled is held by nobody",
       with({c <= m, m < p, p < c + S}), (p - m) != S * k},
  };
}

}  // namespace rooftile::verify
