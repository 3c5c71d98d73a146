// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/placed/ring_lemmas.h"

namespace rooftile::verify {
namespace {

// Of a barrier that ends one phase per item of its slot: phases over when `count` items are done,
// for the slot of item n.
Expr phases(const Expr& count, const Expr& n, int depth) {
  return (count - n % Expr(depth) + Expr(depth - 1)) / Expr(depth);
}

}  // namespace

std::vector<Lemma> ring_lemmas(int depth) {
  const Expr s = depth, p = Expr::sym("p"), c = Expr::sym("c"), d = Expr::sym("d"),
             n = Expr::sym("n"), m = Expr::sym("m");
  const std::vector<Expr> invariant = {c >= Expr(0), c <= p, p <= c + s};
  const auto with = [&](std::vector<Expr> more) {
    more.insert(more.begin(), invariant.begin(), invariant.end());
    return more;
  };
  const Expr round = n / s;
  return {
      {Kind::kRingCredit, "a fill behind its wait leaves no reader more than a ring behind",
       with({c <= d, d <= p, p < c + s}), (p + Expr(1) <= c + s) && (p + Expr(1) <= d + s)},
      {Kind::kRingCredit, "a release behind its wait is of a slot that was filled", with({c < p}),
       (c + Expr(1) <= p) && (p <= c + Expr(1) + s)},
      // A reader looks at items in order and holds what it has not given back.
      {Kind::kRingParity, "the wait for a full slot passes exactly when it is full",
       with({c <= n, n <= p}), ((phases(p, n, depth) % Expr(2)) != (round % Expr(2))) == (n < p)},
      {Kind::kRingParity, "the wait for a free slot passes exactly when it is free", with({n == p}),
       ((phases(c, n, depth) % Expr(2)) == (round % Expr(2))) == (n < c + s)},
      {Kind::kRingHazard, "the slot being filled is held by nobody",
       with({c <= m, m < p, p < c + s}), (p % s) != (m % s)},
  };
}

}  // namespace rooftile::verify
