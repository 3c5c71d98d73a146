// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/arith/axioms.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

namespace rooftile::verify::arith {
namespace {

constexpr int64_t kMostParts = 30;    // of a lemma, before equal ones are added
constexpr int64_t kPreviewCost = 20;  // of a part, in sums of integers

void quotient_axioms(AtomTable& atoms, AtomId id, const Known& known, std::vector<Formula>& out) {
  const Term q = Term::atom(id), a = atoms[id].args[0], b = atoms[id].args[1];
  const Term rest = a - atoms.times(q, b);
  const Formula positive = all_of({at_least_zero(rest), at_least_zero(b - rest - 1)});
  if (b.is_const()) {
    if (b.constant > 0) out.push_back(positive);
    return;  // by 0: any value
  }
  if (known.is_positive(b)) {
    out.push_back(all_of({at_least_zero(b - 1), positive}));
    return;
  }
  const Formula negative = all_of({at_least_zero(-rest), at_least_zero(rest - b - 1)});
  out.push_back(any_of({all_of({at_least_zero(b - 1), positive}),
                        all_of({at_least_zero(-b - 1), negative}), is_zero(b)}));
}

std::vector<AtomId> without(std::vector<AtomId> all, const std::vector<AtomId>& some) {
  std::vector<AtomId> left;
  std::set_difference(all.begin(), all.end(), some.begin(), some.end(), std::back_inserter(left));
  return left;
}

Rational value_of_factors(const std::vector<AtomId>& factors, const Point& at) {
  Rational v(1);
  for (AtomId f : factors) v = v * at.value(f);
  return v;
}

// The value of a * b at the point, where products met so far have the value that the point gives
// them; also how many others it would bring in. Nothing is interned.
struct Preview {
  Rational value;
  int fresh = 0;
  size_t degree = 0;
};
Preview preview(const AtomTable& atoms, const Term& a, const Term& b, const Point& at) {
  Preview out;
  const auto take = [&](const std::vector<AtomId>& sorted_factors, Wide c) {
    const AtomId id = atoms.find_product(sorted_factors);
    const bool met = id >= 0 && at.knows(id);
    out.fresh += met ? 0 : 1;
    out.degree = std::max(out.degree, sorted_factors.size());
    out.value =
        out.value + (met ? at.value(id) : value_of_factors(sorted_factors, at)) * Rational(c);
  };
  out.value = Rational(mul(a.constant, b.constant));
  if (b.constant != 0)
    for (const auto& [x, c] : a.parts) take(atoms.factors(x), mul(c, b.constant));
  for (const auto& [y, d] : b.parts) {
    if (a.constant != 0) take(atoms.factors(y), mul(d, a.constant));
    for (const auto& [x, c] : a.parts) {
      std::vector<AtomId> all = atoms.factors(x);
      for (AtomId f : atoms.factors(y)) all.push_back(f);
      std::sort(all.begin(), all.end());
      take(all, mul(c, d));
    }
  }
  return out;
}

bool never_negative(const std::vector<AtomId>& factors, const Point& at) {
  return std::all_of(factors.begin(), factors.end(), [&](AtomId f) {
    const auto lo = at.bounds(f).lo;
    return lo && *lo >= 0;
  });
}

struct Candidate {
  Term a, b;
  Relation relation;
  int fresh;
  int bytes;

  bool operator<(const Candidate& other) const {
    return std::pair(fresh, bytes) < std::pair(other.fresh, other.bytes);
  }
};

int bytes_of(const Term& t) {
  Wide most = t.constant < 0 ? neg(t.constant) : t.constant;
  for (const auto& part : t.parts)
    most = std::max(most, part.second < 0 ? neg(part.second) : part.second);
  int n = 0;
  for (; most != 0; most >>= 8) ++n;
  return n;
}

void add_if_broken(const Literal& literal, const Term& factor, const AtomTable& atoms,
                   const Point& at, const LemmaLimits& limits, std::vector<Candidate>& out) {
  try {
    const Preview p = preview(atoms, literal.term, factor, at);
    const bool broken =
        literal.relation == Relation::kEq ? !p.value.is_zero() : p.value < Rational(0);
    const int bytes = bytes_of(literal.term) + bytes_of(factor);
    if (broken && p.degree <= limits.degree && p.fresh <= limits.fresh && bytes <= limits.bytes)
      out.push_back({literal.term, factor, literal.relation, p.fresh, bytes});
  } catch (const Overflow&) {
    // a point so far out that another lemma serves better
  }
}

// Terms that are not negative and contain the product of `factors`.
std::vector<Term> known_signs(AtomTable& atoms, const std::vector<AtomId>& factors,
                              const std::vector<Literal>& literals, const Point& at) {
  std::vector<Term> out;
  const AtomId id = atoms.find_product(factors);
  const Simplex::Bounds bounds = id >= 0 ? at.bounds(id) : Simplex::Bounds{};
  if (bounds.lo) out.push_back(Term::atom(id) - *bounds.lo);
  if (bounds.hi) out.push_back(Term(*bounds.hi) - Term::atom(id));
  if (factors.size() > 1 && !(bounds.lo && *bounds.lo >= 0) && never_negative(factors, at))
    out.push_back(Term::atom(atoms.product(factors)));
  if (id < 0) return out;
  for (const Literal& literal : literals)
    if (literal.relation == Relation::kGe && literal.term.parts.size() > 1 &&
        literal.term.coefficient(id) != 0)
      out.push_back(literal.term);
  return out;
}

void lemmas_for(AtomTable& atoms, AtomId wrong, const std::vector<Literal>& literals,
                const Point& at, const LemmaLimits& limits, std::vector<Candidate>& out,
                int64_t& work) {
  const std::vector<AtomId> all = atoms.factors(wrong);
  std::map<std::vector<AtomId>, std::vector<Term>> signs;
  for (const Literal& literal : literals) {
    for (const auto& part : literal.term.parts) {
      const std::vector<AtomId> inner = atoms.factors(part.first);
      if (inner.size() >= all.size() ||
          !std::includes(all.begin(), all.end(), inner.begin(), inner.end()))
        continue;
      const std::vector<AtomId> cofactor = without(all, inner);
      if (literal.relation == Relation::kEq) {
        add_if_broken(literal, Term::atom(atoms.product(cofactor)), atoms, at, limits, out);
        continue;
      }
      auto [it, fresh] = signs.try_emplace(cofactor);
      if (fresh) it->second = known_signs(atoms, cofactor, literals, at);
      for (const Term& factor : it->second) {
        const auto cost = static_cast<int64_t>(literal.term.parts.size() * factor.parts.size());
        if (work < 0 || cost > kMostParts) continue;
        work -= cost * kPreviewCost;
        add_if_broken(literal, factor, atoms, at, limits, out);
      }
    }
  }
}

// A factor with a long fraction: lemmas would make it longer, integers come first.
bool is_splinter(const AtomTable& atoms, AtomId product, const Point& at, Wide most) {
  for (AtomId f : atoms.factors(product))
    if (at.value(f).den > most) return true;
  return false;
}

void add_if_broken(Formula f, const Point& at, std::vector<Formula>& out) {
  if (!holds(f, at)) out.push_back(std::move(f));
}

// a k and b k are ordered as a and b are, for k >= 0; turned round for k <= 0.
void order_lemma(AtomTable& atoms, AtomId p, AtomId q, const Point& at, std::vector<Formula>& out) {
  const std::vector<AtomId> pf = atoms.factors(p), qf = atoms.factors(q);
  const std::vector<AtomId> only_p = without(pf, qf), only_q = without(qf, pf);
  if (only_p.size() != 1 || only_q.size() != 1) return;
  const std::vector<AtomId> common = without(pf, only_p);
  if (common.empty()) return;
  const Term a = Term::atom(only_p[0]), b = Term::atom(only_q[0]),
             k = Term::atom(atoms.product(common));
  const Term ak = Term::atom(p), bk = Term::atom(q);
  const Formula rising = any_of({all_of({at_least_zero(b - a - 1), at_least_zero(bk - ak - k)}),
                                 all_of({is_zero(a - b), is_zero(ak - bk)}),
                                 all_of({at_least_zero(a - b - 1), at_least_zero(ak - bk - k)})});
  if (never_negative(common, at)) return add_if_broken(rising, at, out);
  const Formula falling = any_of({all_of({at_least_zero(b - a - 1), at_least_zero(ak - bk + k)}),
                                  all_of({is_zero(a - b), is_zero(ak - bk)}),
                                  all_of({at_least_zero(a - b - 1), at_least_zero(bk - ak + k)})});
  add_if_broken(
      any_of({all_of({at_least_zero(k), rising}), all_of({at_least_zero(-k - 1), falling})}), at,
      out);
}

void load_lemma(const AtomTable& atoms, AtomId p, AtomId q, const Known& known, const Point& at,
                std::vector<Formula>& out) {
  const Atom &x = atoms[p], &y = atoms[q];
  if (x.name != y.name || x.args.size() != y.args.size()) return;
  const Term v = Term::atom(p) - Term::atom(q);
  std::vector<Formula> differs;
  for (size_t i = 0; i < x.args.size(); ++i) differs.push_back(not_zero(x.args[i] - y.args[i]));
  std::vector<Formula> same = differs;
  same.push_back(is_zero(v));
  add_if_broken(any_of(std::move(same)), at, out);
  auto it = known.loads.find(x.name);
  if (it == known.loads.end() || x.args.size() != 1) return;
  const Term gap = x.args[0] - y.args[0];
  if (it->second.non_decreasing) {
    add_if_broken(any_of({at_least_zero(gap - 1), at_least_zero(-v)}), at, out);
    add_if_broken(any_of({at_least_zero(-gap - 1), at_least_zero(v)}), at, out);
  }
  if (it->second.distinct) add_if_broken(any_of({is_zero(gap), not_zero(v)}), at, out);
}

}  // namespace

Rational Point::value(AtomId id) const {
  if (!values) return lp.value(id);
  auto it = values->find(id);
  return it == values->end() ? Rational(0) : Rational(it->second);
}

Rational Point::value(const Term& t) const {
  Rational sum(t.constant);
  for (const auto& [id, c] : t.parts) sum = sum + value(id) * Rational(c);
  return sum;
}

std::vector<AtomId> Point::atoms() const {
  if (!values) return lp.atoms();
  std::vector<AtomId> out;
  for (const auto& [id, v] : *values) out.push_back(id);
  return out;
}

bool Known::is_positive(const Term& t) const {
  return std::find(positive.begin(), positive.end(), t) != positive.end();
}

std::vector<Formula> defining_axioms(AtomTable& atoms, AtomId id, const Known& known) {
  std::vector<Formula> out;
  const Atom atom = atoms[id];
  const Term self = Term::atom(id);
  switch (atom.kind) {
    case Atom::Kind::kSymbol:
      break;
    case Atom::Kind::kProduct:
      if (atom.factors.size() == 2 && atom.factors[0] == atom.factors[1])
        out.push_back(at_least_zero(self));
      break;
    case Atom::Kind::kQuotient:
      quotient_axioms(atoms, id, known, out);
      break;
    case Atom::Kind::kMin0:
      out = {at_least_zero(-self), at_least_zero(atom.args[0] - self),
             any_of({is_zero(self), is_zero(self - atom.args[0])})};
      break;
    case Atom::Kind::kSelect:
      out = {any_of({all_of({atom.condition, is_zero(self - atom.args[0])}),
                     all_of({negation(atom.condition), is_zero(self)})})};
      if (atom.args[0].is_const()) {
        const Wide v = atom.args[0].constant;
        out.push_back(at_least_zero(self - (v < 0 ? v : 0)));
        out.push_back(at_least_zero(Term(v > 0 ? v : 0) - self));
      }
      break;
    case Atom::Kind::kLoad:
      if (auto it = known.loads.find(atom.name); it != known.loads.end() && it->second.has_range)
        out = {at_least_zero(self - it->second.lo), at_least_zero(it->second.hi - self - 1)};
      break;
  }
  return out;
}

Formula nested_quotients(const AtomTable& atoms, AtomId p, AtomId q) {
  const Atom &x = atoms[p], &y = atoms[q];
  if (x.kind != Atom::Kind::kQuotient || y.kind != Atom::Kind::kQuotient) return truth(true);
  if (!x.args[1].is_const() || !y.args[1].is_const()) return truth(true);
  const Wide c = x.args[1].constant, d = y.args[1].constant;
  if (c <= 0 || d <= 0) return truth(true);
  if (c > d) return nested_quotients(atoms, q, p);
  const Term gap = y.args[0] - x.args[0];
  if (d % c != 0 || !gap.is_const()) return truth(true);
  // (t + gap) / c is x + j, or one more if gap is no multiple of c; y is that divided by m.
  const Wide m = d / c, j = floor_div(gap.constant, c), more = gap.constant % c != 0 ? 1 : 0;
  const Term rest = Term::atom(p) + j - Term::atom(q) * m;
  return all_of({at_least_zero(rest + more), at_least_zero(Term(m - 1) - rest)});
}

std::vector<Formula> product_lemmas(AtomTable& atoms, const std::vector<Literal>& literals,
                                    const Point& at, const LemmaLimits& limits, int64_t& work) {
  std::vector<Candidate> candidates;
  for (AtomId id : at.atoms())
    if (atoms.is_product(id) && is_wrong(atoms, id, at) &&
        !is_splinter(atoms, id, at, limits.fraction))
      lemmas_for(atoms, id, literals, at, limits, candidates, work);
  std::stable_sort(candidates.begin(), candidates.end());
  std::vector<Formula> out;
  std::set<std::string> taken;
  for (const Candidate& c : candidates) {
    if (out.size() >= limits.count) break;
    const Term product = atoms.times(c.a, c.b);
    Formula lemma = c.relation == Relation::kGe ? at_least_zero(product) : is_zero(product);
    if (taken.insert(key_of(lemma)).second) out.push_back(std::move(lemma));
  }
  return out;
}

std::vector<Formula> pair_lemmas(AtomTable& atoms, const Known& known, const Point& at,
                                 size_t limit) {
  std::vector<Formula> out;
  const std::vector<AtomId> all = at.atoms();
  for (size_t i = 0; i < all.size() && out.size() < limit; ++i)
    for (size_t j = 0; j < i && out.size() < limit; ++j) {
      const Atom::Kind kind = atoms[all[i]].kind;
      if (kind != atoms[all[j]].kind) continue;
      if (kind == Atom::Kind::kProduct) order_lemma(atoms, all[j], all[i], at, out);
      if (kind == Atom::Kind::kLoad) load_lemma(atoms, all[j], all[i], known, at, out);
    }
  return out;
}

std::vector<Formula> product_cases(const AtomTable& atoms, AtomId product, const Point& at,
                                   bool few) {
  constexpr Wide kFew = 8, kWide = 16;
  AtomId best = -1;
  std::optional<Wide> best_width;
  for (AtomId f : atoms.factors(product)) {
    const auto [lo, hi] = at.bounds(f);
    const Term x = Term::atom(f);
    if (!few && !(lo && *lo >= 0) && !(hi && *hi <= 0))  // its sign first
      return {is_zero(x), at_least_zero(x - 1), at_least_zero(-x - 1)};
    if (lo && hi && *lo == *hi) continue;
    const auto width = lo && hi ? std::optional(sub(*hi, *lo)) : std::nullopt;
    if (best < 0 || (width && (!best_width || *width < *best_width))) {
      best = f;
      best_width = width;
    }
  }
  if (best < 0 || (few && !(best_width && *best_width <= kFew))) return {};
  const Term x = Term::atom(best);
  const Wide v = at.value(best).floor();
  if (!best_width || *best_width <= kWide)
    return {is_zero(x - v), at_least_zero(-x + (v - 1)), at_least_zero(x - (v + 1))};
  const Wide middle = floor_div(add(*at.bounds(best).lo, *at.bounds(best).hi), 2);
  return {is_zero(x - v), at_least_zero(-x + middle), at_least_zero(x - (middle + 1))};
}

bool is_wrong(const AtomTable& atoms, AtomId product, const Point& at) {
  try {
    return !(value_of_factors(atoms.factors(product), at) == at.value(product));
  } catch (const Overflow&) {
    return true;
  }
}

bool holds(const Formula& f, const Point& at) {
  switch (f->kind) {
    case FormulaNode::Kind::kTrue:
      return true;
    case FormulaNode::Kind::kFalse:
      return false;
    case FormulaNode::Kind::kLiteral: {
      const Rational v = at.value(f->literal.term);
      return f->literal.relation == Relation::kEq ? v.is_zero() : !(v < Rational(0));
    }
    case FormulaNode::Kind::kAnd:
      return std::all_of(f->args.begin(), f->args.end(),
                         [&](const Formula& g) { return holds(g, at); });
    case FormulaNode::Kind::kOr:
      return std::any_of(f->args.begin(), f->args.end(),
                         [&](const Formula& g) { return holds(g, at); });
  }
  return false;
}

}  // namespace rooftile::verify::arith
