// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/tile/linear.h"

#include <algorithm>

namespace rooftile::verify {

bool mentions(const Expr& e, const std::string& symbol) {
  if (e.kind() == ExprKind::kSym) return e.name() == symbol;
  return std::any_of(e.args().begin(), e.args().end(),
                     [&](const Expr& arg) { return mentions(arg, symbol); });
}

bool mentions_any(const Expr& e, const std::set<std::string>& symbols) {
  if (e.kind() == ExprKind::kSym) return symbols.count(e.name()) > 0;
  return std::any_of(e.args().begin(), e.args().end(),
                     [&](const Expr& arg) { return mentions_any(arg, symbols); });
}

std::optional<Split> split(const Expr& e, const std::string& symbol) {
  if (!mentions(e, symbol)) return Split{0, e};
  if (e.kind() == ExprKind::kSym) return Split{1, 0};
  const bool sum = e.kind() == ExprKind::kAdd || e.kind() == ExprKind::kSub;
  if (!sum && e.kind() != ExprKind::kMul) return std::nullopt;
  const std::optional<Split> a = split(e.args()[0], symbol), b = split(e.args()[1], symbol);
  if (!a || !b) return std::nullopt;
  if (e.kind() == ExprKind::kAdd) return Split{a->coefficient + b->coefficient, a->rest + b->rest};
  if (e.kind() == ExprKind::kSub) return Split{a->coefficient - b->coefficient, a->rest - b->rest};
  if (!a->coefficient.is_const(0) && !b->coefficient.is_const(0)) return std::nullopt;  // a square
  return Split{a->coefficient * b->rest + b->coefficient * a->rest, a->rest * b->rest};
}

std::vector<Expr> sum_terms(const Expr& e) {
  std::vector<Expr> out;
  if (e.kind() == ExprKind::kAdd || e.kind() == ExprKind::kSub) {
    out = sum_terms(e.args()[0]);
    for (const Expr& term : sum_terms(e.args()[1]))
      out.push_back(e.kind() == ExprKind::kAdd ? term : Expr(0) - term);
    return out;
  }
  if (e.kind() == ExprKind::kMul) {
    const std::vector<Expr> a = sum_terms(e.args()[0]), b = sum_terms(e.args()[1]);
    if (a.size() * b.size() > 1) {
      for (const Expr& x : a)
        for (const Expr& y : b) out.push_back(x * y);
      return out;
    }
  }
  if (!e.is_const(0)) out.push_back(e);
  return out;
}

}  // namespace rooftile::verify
