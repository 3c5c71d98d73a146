// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/arith/search.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace rooftile::verify::arith {

void AtomClosure::visit(AtomId id) {
  const auto at = static_cast<size_t>(id);
  if (at >= seen_.size()) seen_.resize(at + 1);
  if (seen_[at]) return;
  seen_[at] = true;
  const Atom& atom = atoms_[id];
  for (AtomId factor : atom.factors) visit(factor);
  for (const Term& arg : atom.args) visit(arg);
  if (atom.condition) visit(atom.condition);
  new_.push_back(id);
}

void AtomClosure::visit(const Term& t) {
  for (const auto& part : t.parts) visit(part.first);
}

void AtomClosure::visit(const Formula& f) {
  if (f->kind == FormulaNode::Kind::kLiteral) visit(f->literal.term);
  for (const Formula& arg : f->args) visit(arg);
}

std::vector<AtomId> AtomClosure::take_new() { return std::exchange(new_, {}); }

namespace {

constexpr int kMostFresh = 2;
constexpr size_t kLemmasAtOnce = 4;
constexpr int kMiddle = 6, kLong = 32;  // bytes of a lemma's coefficients
constexpr size_t kCutsAtOnce = 4;
constexpr int64_t kCutCost = 10;
constexpr int kPropagationRounds = 4;
constexpr int64_t kLookaheadWork = 50'000;
constexpr int64_t kCopiedAtOnce = 4;  // numbers, at the cost of a sum
constexpr size_t kLookaheadClauses = 24;

// From t >= 0: each atom's bound where all others are bounded.
void bounds_from(const Term& t, const Simplex& lp, std::vector<Literal>& out) {
  Wide rest = t.constant;  // the most that the bounded parts make
  AtomId open = -1;        // the one part without a bound
  for (const auto& [id, c] : t.parts) {
    const Simplex::Bounds bounds = lp.bounds(id);
    const auto& bound = c > 0 ? bounds.hi : bounds.lo;
    if (bound) {
      rest = add(rest, mul(c, *bound));
    } else if (open >= 0) {
      return;
    } else {
      open = id;
    }
  }
  for (const auto& [id, c] : t.parts) {
    if (open >= 0 && id != open) continue;
    const Simplex::Bounds bounds = lp.bounds(id);
    const Wide others = open >= 0 ? rest : sub(rest, mul(c, c > 0 ? *bounds.hi : *bounds.lo));
    // c x >= -others
    if (c > 0) {
      const Wide lo = ceil_div(neg(others), c);
      if (!bounds.lo || *bounds.lo < lo) out.push_back({Relation::kGe, Term::atom(id) - lo});
    } else {
      const Wide hi = floor_div(others, neg(c));
      if (!bounds.hi || hi < *bounds.hi) out.push_back({Relation::kGe, Term(hi) - Term::atom(id)});
    }
  }
}

// Which lemmas come first decides what is found within the budget; no order is best for all.
struct Strategy {
  int bytes;      // of the coefficients of lemmas that come before all else
  Wide fraction;  // products with longer ones wait until the point is made integer
};
constexpr Strategy kStrategies[] = {{4, 1 << 20}, {6, kWideMax}, {4, kWideMax}};

// What holds on one path of case distinctions.
struct Branch {
  explicit Branch(const AtomTable& atoms) : closure(atoms) {}
  Simplex lp;
  std::vector<Literal> literals;
  std::vector<Formula> clauses;  // disjunctions
  AtomClosure closure;
  bool dead = false;
};

class Search {
 public:
  Search(AtomTable& atoms, const Known& known, const Strategy& strategy, WorkBudget budget)
      : atoms_(atoms), known_(known), strategy_(strategy), budget_(budget) {}

  Outcome run(const std::vector<Formula>& formulas) {
    Branch root(atoms_);
    for (const Formula& f : formulas) add(root, f);
    add_axioms(root);
    for (AtomId id : root.lp.atoms()) degree_ = std::max(degree_, atoms_.factors(id).size());
    Outcome out;
    out.status = explore(std::move(root), 0);
    out.model = std::move(model_);
    out.lemmas = std::move(root_lemmas_);
    return out;
  }

 private:
  using Status = Outcome::Status;

  void add(Branch& b, const Formula& f) {
    b.closure.visit(f);
    insert(b, f);
  }
  void insert(Branch& b, const Formula& f) {
    switch (f->kind) {
      case FormulaNode::Kind::kTrue:
        return;
      case FormulaNode::Kind::kFalse:
        b.dead = true;
        return;
      case FormulaNode::Kind::kLiteral:
        assert_literal(b, f->literal);
        if (f->literal.relation == Relation::kEq) transfer_bounds(b, f->literal.term);
        return;
      case FormulaNode::Kind::kAnd:
        for (const Formula& arg : f->args) insert(b, arg);
        return;
      case FormulaNode::Kind::kOr:
        b.clauses.push_back(f);
        return;
    }
  }
  void assert_literal(Branch& b, const Literal& literal) {
    b.literals.push_back(literal);
    if (!b.lp.assert_literal(literal)) b.dead = true;
  }
  void transfer_bounds(Branch& b, const Term& zero);
  void add_axioms(Branch& b) {
    for (std::vector<AtomId> fresh = b.closure.take_new(); !fresh.empty();
         fresh = b.closure.take_new())
      for (AtomId id : fresh) {
        if (atoms_[id].kind == Atom::Kind::kQuotient) {
          const std::vector<AtomId> before = b.lp.atoms();
          for (AtomId other : before) add(b, nested_quotients(atoms_, other, id));
        }
        b.lp.introduce(id);
        for (const Formula& axiom : defining_axioms(atoms_, id, known_)) add(b, axiom);
      }
  }
  void extend(Branch& b, const Formula& f) {
    add(b, f);
    add_axioms(b);
  }

  Status explore(Branch b, int depth);
  void propagate(Branch& b);
  enum class Step { kNothing, kProgress, kDecided };
  Step take_clause(Branch& b, int depth, Status& status);
  Step take_lemmas(Branch& b, int depth, int fresh, int bytes);
  Step take(Branch& b, int depth, const std::vector<Formula>& lemmas, bool fresh);
  std::optional<AtomId> wrong_product(const Branch& b) const;
  std::optional<std::vector<Formula>> product_split(const Branch& b, bool few) const;
  std::optional<size_t> case_of_factor(const Branch& b) const;
  Step take_pairs(Branch& b, int depth);
  Step take_cuts(Branch& b);
  std::optional<std::vector<Formula>> split(const Branch& b);
  Status explore_all(const Branch& b, const std::vector<Formula>& cases, int depth);
  void keep_model(const Branch& b);

  AtomTable& atoms_;
  const Known& known_;
  const Strategy strategy_;
  WorkBudget budget_;
  size_t degree_ = 2;  // the highest of the products that were asked about
  Model model_;
  std::vector<Formula> root_lemmas_;
};

Outcome::Status Search::explore(Branch b, int depth) {
  if (--budget_.branches < 0) return Status::kUnknown;
  for (;;) {
    if (b.dead) return Status::kEmpty;
    switch (b.lp.check(budget_.work)) {
      case Simplex::Status::kEmpty:
        return Status::kEmpty;
      case Simplex::Status::kLimit:
        return Status::kUnknown;
      case Simplex::Status::kPoint:
        break;
    }
    Status status = Status::kUnknown;
    const Step clause = take_clause(b, depth, status);
    if (clause == Step::kDecided) return status;
    if (clause == Step::kProgress || take_lemmas(b, depth, 0, strategy_.bytes) == Step::kProgress)
      continue;
    if (take_cuts(b) == Step::kProgress) continue;
    if (auto cases = product_split(b, true)) return explore_all(b, *cases, depth);
    if (const auto i = case_of_factor(b)) {
      const std::vector<Formula> cases = b.clauses[*i]->args;
      b.clauses.erase(b.clauses.begin() + static_cast<std::ptrdiff_t>(*i));
      return explore_all(b, cases, depth);
    }
    if (take_lemmas(b, depth, 0, kMiddle) == Step::kProgress) continue;
    if (take_pairs(b, depth) == Step::kProgress) continue;
    if (take_lemmas(b, depth, kMostFresh, kMiddle) == Step::kProgress) continue;
    if (take_lemmas(b, depth, 0, kLong) == Step::kProgress) continue;
    if (auto cases = split(b)) return explore_all(b, *cases, depth);
    if (auto cases = product_split(b, false)) return explore_all(b, *cases, depth);
    if (wrong_product(b)) return Status::kUnknown;
    keep_model(b);
    return Status::kModel;
  }
}

// Of the disjunctions that the point breaks: those with one possible case are settled, else the one
// with the fewest is split.
Search::Step Search::take_clause(Branch& b, int depth, Status& status) {
  std::vector<Formula> best;
  size_t best_at = 0, looked = 0;
  for (size_t i = 0; i < b.clauses.size() && looked < kLookaheadClauses; ++i) {
    if (holds(b.clauses[i], b.lp)) continue;
    ++looked;
    std::vector<Formula> possible;
    for (const Formula& arg : b.clauses[i]->args) {
      Branch attempt = b;
      extend(attempt, arg);
      int64_t work = std::min(kLookaheadWork, budget_.work);
      budget_.work -= work + attempt.lp.size() / kCopiedAtOnce;
      if (!attempt.dead && attempt.lp.check(work) != Simplex::Status::kEmpty)
        possible.push_back(arg);
      budget_.work += work;
    }
    if (possible.empty()) {
      status = Status::kEmpty;
      return Step::kDecided;
    }
    if (possible.size() == 1) {
      b.clauses.erase(b.clauses.begin() + static_cast<std::ptrdiff_t>(i));
      extend(b, possible[0]);
      return Step::kProgress;
    }
    if (best.empty() || possible.size() < best.size()) {
      best = std::move(possible);
      best_at = i;
    }
  }
  if (best.empty()) return Step::kNothing;
  b.clauses.erase(b.clauses.begin() + static_cast<std::ptrdiff_t>(best_at));
  // Products that the point gets wrong may exclude cases: first those, as splitting repeats them.
  if (take_lemmas(b, depth, 0, strategy_.bytes) == Step::kProgress) {
    b.clauses.push_back(any_of(std::move(best)));
    return Step::kProgress;
  }
  status = explore_all(b, best, depth);
  return Step::kDecided;
}

Search::Step Search::take_lemmas(Branch& b, int depth, int fresh, int bytes) {
  if (budget_.lemmas <= 0 || (fresh > 0 && budget_.fresh <= 0) || !wrong_product(b))
    return Step::kNothing;
  propagate(b);
  const LemmaLimits limits{kLemmasAtOnce, degree_, fresh, bytes, strategy_.fraction};
  return take(b, depth, product_lemmas(atoms_, b.literals, b.lp, limits, budget_.work), fresh > 0);
}

std::optional<AtomId> Search::wrong_product(const Branch& b) const {
  for (AtomId id : b.lp.atoms())
    if (atoms_.is_product(id) && is_wrong(atoms_, id, b.lp)) return id;
  return std::nullopt;
}

Search::Step Search::take(Branch& b, int depth, const std::vector<Formula>& lemmas, bool fresh) {
  if (lemmas.empty()) return Step::kNothing;
  budget_.lemmas -= static_cast<int>(lemmas.size());
  if (fresh) budget_.fresh -= static_cast<int>(lemmas.size());
  for (const Formula& lemma : lemmas) {
    extend(b, lemma);
    if (depth == 0) root_lemmas_.push_back(lemma);
  }
  return Step::kProgress;
}

Search::Step Search::take_pairs(Branch& b, int depth) {
  if (budget_.lemmas <= 0) return Step::kNothing;
  return take(b, depth, pair_lemmas(atoms_, known_, b.lp, 2), false);
}

// The fact without the atom that it shares with the other, if its integer part then says more.
std::optional<Formula> rounded(const Literal& fact, const Literal& other, AtomId shared, Wide c) {
  const Wide d = fact.term.coefficient(shared);
  if (d % c != 0 || (other.relation == Relation::kGe && d / c > 0)) return std::nullopt;
  const Term left = fact.term - other.term * (d / c);
  const Wide g = content(left);
  if (g <= 1 || left.constant % g == 0) return std::nullopt;
  return at_least_zero(left);
}

// Two facts without an atom that they share: if what is left has a common factor, its constant is
// rounded. So p - c = 4 (q - r) and 1 <= p - c <= 3 leave no q - r. Only where the point is
// fractional, and both facts are nearly tight: elsewhere such a cut takes nothing away.
Search::Step Search::take_cuts(Branch& b) {
  if (budget_.lemmas <= 0 || !split(b)) return Step::kNothing;
  struct Tight {
    const Literal* literal;
    Rational slack;
    Wide largest = 0;  // coefficient: no common factor exceeds it
  };
  std::map<AtomId, std::vector<Tight>> sharing;
  std::vector<Formula> cuts;
  for (const Literal& literal : b.literals) {
    Tight fact{&literal, b.lp.value(literal.term)};
    for (const auto& part : literal.term.parts)
      fact.largest = std::max(fact.largest, part.second < 0 ? neg(part.second) : part.second);
    for (const auto& part : literal.term.parts) {
      for (const Tight& other : sharing[part.first]) {
        --budget_.work;
        const Rational most(std::max(fact.largest, other.largest));
        if (!(fact.slack < most) || !(other.slack < most) || cuts.size() >= kCutsAtOnce) continue;
        budget_.work -= kCutCost;
        for (const auto& [x, y] :
             {std::pair(fact.literal, other.literal), std::pair(other.literal, fact.literal)}) {
          if (x->relation != Relation::kGe) continue;
          auto cut = rounded(*x, *y, part.first, y->term.coefficient(part.first));
          if (cut && !holds(*cut, b.lp)) cuts.push_back(std::move(*cut));
        }
      }
      sharing[part.first].push_back(fact);
    }
  }
  if (cuts.empty()) return Step::kNothing;
  budget_.lemmas -= static_cast<int>(cuts.size());
  for (const Formula& cut : cuts) extend(b, cut);
  return Step::kProgress;
}

// A minimum or conditional value that turned out to be some term: what bounds it bounds the term,
// in whose products that counts.
void Search::transfer_bounds(Branch& b, const Term& zero) {
  for (const auto& [id, c] : zero.parts) {
    const Atom::Kind kind = atoms_[id].kind;
    if ((c != 1 && c != -1) || (kind != Atom::Kind::kMin0 && kind != Atom::Kind::kSelect)) continue;
    const Term self = Term::atom(id), value = self - zero * c;
    if (value.parts.size() < 2) continue;
    const Simplex::Bounds bounds = b.lp.bounds(id);
    if (bounds.lo) insert(b, at_least_zero(value - *bounds.lo));
    if (bounds.hi) insert(b, at_least_zero(Term(*bounds.hi) - value));
  }
}

// Bounds of single atoms that follow from bounds of the others: they give factors their signs.
void Search::propagate(Branch& b) {
  for (int round = 0; round < kPropagationRounds && !b.dead; ++round) {
    std::vector<Literal> found;
    for (const Literal& literal : b.literals)
      if (literal.term.parts.size() > 1) {
        bounds_from(literal.term, b.lp, found);
        if (literal.relation == Relation::kEq) bounds_from(-literal.term, b.lp, found);
      }
    if (found.empty()) return;
    for (const Literal& literal : found) assert_literal(b, literal);
  }
}

// An atom with a fractional value, from both sides.
std::optional<std::vector<Formula>> Search::split(const Branch& b) {
  for (AtomId id : b.lp.atoms()) {
    const Rational v = b.lp.value(id);
    if (v.is_integer()) continue;
    const Term x = Term::atom(id) - v.floor();
    return std::vector<Formula>{at_least_zero(-x), at_least_zero(x - 1)};
  }
  return std::nullopt;
}

bool has_atom(const Formula& f, AtomId id) {
  if (f->kind == FormulaNode::Kind::kLiteral) return f->literal.term.coefficient(id) != 0;
  return std::any_of(f->args.begin(), f->args.end(),
                     [&](const Formula& g) { return has_atom(g, id); });
}

// A disjunction that says which term a factor of a wrong product is: the point may meet it, and the
// product still not know.
std::optional<size_t> Search::case_of_factor(const Branch& b) const {
  for (AtomId id : b.lp.atoms()) {
    if (!atoms_.is_product(id) || !is_wrong(atoms_, id, b.lp)) continue;
    for (AtomId f : atoms_.factors(id)) {
      const Atom::Kind kind = atoms_[f].kind;
      if (kind != Atom::Kind::kMin0 && kind != Atom::Kind::kSelect) continue;
      for (size_t i = 0; i < b.clauses.size(); ++i)
        if (has_atom(b.clauses[i], f)) return i;
    }
  }
  return std::nullopt;
}

// Cases for a product that the point gets wrong.
std::optional<std::vector<Formula>> Search::product_split(const Branch& b, bool few) const {
  for (AtomId id : b.lp.atoms()) {
    if (!atoms_.is_product(id) || !is_wrong(atoms_, id, b.lp)) continue;
    std::vector<Formula> cases = product_cases(atoms_, id, b.lp, few);
    if (!cases.empty()) return cases;
  }
  return std::nullopt;
}

Outcome::Status Search::explore_all(const Branch& b, const std::vector<Formula>& cases, int depth) {
  Status all = Status::kEmpty;
  for (const Formula& f : cases) {
    Status status = Status::kUnknown;
    try {
      Branch next = b;
      budget_.work -= next.lp.size() / kCopiedAtOnce;
      extend(next, f);
      status = explore(std::move(next), depth + 1);
    } catch (const Overflow&) {
      // this case remains open
    }
    if (status == Status::kModel) return status;
    if (status == Status::kUnknown) all = status;
    if (budget_.branches < 0 || budget_.work < 0) return Status::kUnknown;
  }
  return all;
}

void Search::keep_model(const Branch& b) {
  for (AtomId id : b.lp.atoms()) model_[id] = b.lp.value(id).num;
}

}  // namespace

Outcome find_point(AtomTable& atoms, const std::vector<Formula>& formulas, const Known& known,
                   WorkBudget budget) {
  Outcome last;
  for (const Strategy& strategy : kStrategies) {
    if (budget.strategies-- == 0) break;
    try {
      Outcome outcome = Search(atoms, known, strategy, budget).run(formulas);
      if (outcome.status != Outcome::Status::kUnknown) return outcome;
      last.lemmas.insert(last.lemmas.end(), outcome.lemmas.begin(), outcome.lemmas.end());
    } catch (const Overflow&) {
      // the next one may meet smaller numbers
    }
  }
  return last;
}

}  // namespace rooftile::verify::arith
