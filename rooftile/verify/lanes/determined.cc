// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/lanes/determined.h"

#include <algorithm>

namespace rooftile::verify {

using K = ExprKind;

// All of whose symbols are given by the call, or known.
bool Determined::closed(const Expr& e) const {
  if (e.is_const() || known_.count(e.str()) != 0) return true;
  if (e.kind() == K::kSym) {
    const Symbol* symbol = questions_.symbols().find(e.name());
    return symbol == nullptr || symbol->kind == SymbolKind::kCall;
  }
  return std::all_of(e.args().begin(), e.args().end(), [&](const Expr& a) { return closed(a); });
}

bool Determined::has(const Expr& e) const { return closed(e); }

void Determined::add(const Expr& e) {
  if (e.is_const() || !known_.insert(e.str()).second) return;
  list_.push_back(e);
  decompose(e);
  rebuild();
}

void Determined::collect(const Expr& e, int64_t factor, std::vector<Term>& out, int64_t& constant) {
  const std::vector<Expr>& a = e.args();
  if (e.is_const()) {
    constant += factor * e.value();
  } else if (e.kind() == K::kAdd || e.kind() == K::kSub) {
    collect(a[0], factor, out, constant);
    collect(a[1], e.kind() == K::kAdd ? factor : -factor, out, constant);
  } else if (e.kind() == K::kMul && a[1].is_const()) {
    collect(a[0], factor * a[1].value(), out, constant);
  } else {
    for (Term& term : out)
      if (term.e.same_as(e)) {
        term.factor += factor;
        return;
      }
    out.push_back({factor, e});
  }
}

void Determined::decompose(const Expr& e) {
  if (e.kind() == K::kIndexLoad) {
    for (const IndexClause& clause : contract_.index) {
      if (clause.facts.tensor != e.name()) continue;
      if (clause.facts.distinct || (clause.distinct_but && questions_.holds(e != clause.repeated)))
        for (const Expr& at : e.args()) add(at);
    }
    return;
  }
  std::vector<Term> terms;
  int64_t constant = 0;
  collect(e, 1, terms, constant);
  split(std::move(terms));
}

void Determined::split(std::vector<Term> terms) {
  std::erase_if(terms, [&](const Term& t) { return t.factor == 0 || closed(t.e); });
  if (terms.empty()) return;
  if (terms.size() == 1) {
    const Expr& e = terms[0].e;
    if (e.kind() == K::kMul) {
      // A factor that is known and not 0.
      for (const auto& [x, y] :
           {std::pair(e.args()[0], e.args()[1]), std::pair(e.args()[1], e.args()[0])})
        if (closed(y) && questions_.holds(Expr(1) <= y)) add(x);
    }
    add(e);
    return;
  }
  // c x + y with 0 <= y < c: quotient and remainder are unique. The largest factor apart.
  std::sort(terms.begin(), terms.end(),
            [](const Term& a, const Term& b) { return a.factor > b.factor; });
  for (size_t high = 1; high < terms.size(); ++high) {
    const int64_t c = terms[high - 1].factor;
    if (c <= 0 || std::any_of(terms.begin(), terms.begin() + static_cast<std::ptrdiff_t>(high),
                              [&](const Term& t) { return t.factor % c != 0; }))
      continue;
    Expr low = 0;
    for (size_t i = high; i < terms.size(); ++i) low = low + terms[i].e * Expr(terms[i].factor);
    const Interval range = questions_.symbols().range(low);
    const bool narrow = range.bounded() && range.hi - range.lo < c;
    if (!narrow && (!questions_.holds(Expr(0) <= low) || !questions_.holds(low < Expr(c))))
      continue;
    Expr top = 0;
    for (size_t i = 0; i < high; ++i) top = top + terms[i].e * Expr(terms[i].factor / c);
    // The parts first: one that is a single unknown is worth more than a sum that is known.
    split({terms.begin(), terms.begin() + static_cast<std::ptrdiff_t>(high)});
    split({terms.begin() + static_cast<std::ptrdiff_t>(high), terms.end()});
    known_.insert(low.str());
    known_.insert(top.str());
    return;
  }
  // The same with a factor that the call gives: n x + y.
  for (size_t i = 0; i < terms.size(); ++i) {
    const Expr& product = terms[i].e;
    if (terms[i].factor != 1 || product.kind() != K::kMul) continue;
    for (const auto& [x, n] : {std::pair(product.args()[0], product.args()[1]),
                               std::pair(product.args()[1], product.args()[0])}) {
      if (!closed(n)) continue;
      Expr low = 0;
      std::vector<Term> rest;
      for (size_t k = 0; k < terms.size(); ++k) {
        if (k == i) continue;
        low = low + terms[k].e * Expr(terms[k].factor);
        rest.push_back(terms[k]);
      }
      if (!questions_.holds(Expr(0) <= low) || !questions_.holds(low < n)) continue;
      add(x);
      split(std::move(rest));
      return;
    }
  }
}

// x from x / d and x % d.
void Determined::rebuild() {
  for (size_t i = 0; i < list_.size(); ++i) {
    const Expr r = list_[i];
    if (r.kind() != K::kMod || !closed(r.args()[1]) || closed(r.args()[0])) continue;
    const Expr &x = r.args()[0], &d = r.args()[1];
    const Expr q = x / d;
    bool have = closed(q);
    // (y / a) / d is y / (a d) where they are numbers.
    if (!have && d.is_const() && x.kind() == K::kFloorDiv && x.args()[1].is_const())
      have = closed(x.args()[0] / Expr(x.args()[1].value() * d.value()));
    if (have) return add(x);
  }
}

}  // namespace rooftile::verify
