// SPDX-License-Identifier: Apache-2.0
// Which prover is asked what, in which order; facts and their scopes; models that are small.
#include "rooftile/verify/arith/arithmetic.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "rooftile/verify/arith/axioms.h"
#include "rooftile/verify/arith/model.h"
#include "rooftile/verify/arith/normalise.h"
#include "rooftile/verify/arith/relevance.h"
#include "rooftile/verify/arith/search.h"
#include "rooftile/verify/arith/solver.h"
#include "rooftile/verify/arith/terms.h"

namespace rooftile::verify {

using namespace arith;  // NOLINT: this file is the face of that namespace

namespace {

constexpr int kSolverRounds = 12;     // of asking again with lemmas that the last model breaks
constexpr int kShrinkQuestions = 40;  // for smaller models
constexpr int kDivisorAttempts = 8;   // to prove one divisor positive, under different facts
constexpr WorkBudget kDivisorBudget{200'000, 24, 40, 12};
constexpr size_t kManyFacts = 24;  // of which those that bear on the goal are tried first
constexpr WorkBudget kFewFactsBudget{150'000, 30, 40, 8, 1};
constexpr Wide kSmall = 4;  // values that need no shrinking

// What occurs in expressions, each shared part visited once.
class Parts {
 public:
  void visit(const Expr& e) {
    if (e.is_const() || !seen_.insert(e.node()).second) return;
    if (e.kind() == ExprKind::kSym) symbols.insert(e.name());
    if (e.kind() == ExprKind::kFloorDiv || e.kind() == ExprKind::kMod)
      divisors.push_back(e.args()[1]);
    for (const Expr& arg : e.args()) visit(arg);
  }
  std::set<std::string> symbols;
  std::vector<Expr> divisors;

 private:
  std::set<const ExprNode*> seen_;
};

}  // namespace

class Arithmetic::Impl {
 public:
  explicit Impl(const ArithmeticLimits& limits) : limits_(limits), normaliser_(atoms_) {}

  void push() { frames_.push_back({facts_.size(), index_.size()}); }
  void pop() {
    if (frames_.empty()) return;
    facts_.resize(frames_.back().facts);
    index_.resize(frames_.back().index);
    frames_.pop_back();
    ++generation_;
    while (!positive_since_.empty() && positive_since_.back() > facts_.size() + index_.size())
      forget_divisor();
    loads_known_ = false;
    if (!learned_at_.empty() && learned_at_.back() >= facts_.size()) {
      normaliser_.forget_definitions();
      while (!positive_since_.empty()) forget_divisor();
      learned_at_.clear();
      formulas_.clear();
    }
    formulas_.resize(std::min(formulas_.size(), facts_.size()));
  }
  void assume(const Expr& fact) {
    facts_.push_back(fact);
    ++generation_;
  }
  void assume(const IndexFacts& facts) {
    ++generation_;
    index_.push_back(facts);
    loads_known_ = false;
  }

  Answer prove(const Expr& goal);
  Answer consistent();

 private:
  struct Frame {
    size_t facts, index;
  };
  struct Attempt {
    uint64_t generation = 0;
    int count = 0;
  };
  void prepare();
  void forget_divisor() {
    known_.positive.pop_back();
    positive_since_.pop_back();
  }
  bool follows_from_few(const Formula& goal);
  Answer solver_early(const std::vector<Formula>& formulas, const Expr* asked);
  Answer prove_formula(const Formula& goal, const Expr* asked);
  Answer refine_with_solver(std::vector<Formula> formulas, const Expr* goal);
  std::vector<Formula> lemmas_against(const std::vector<Formula>& formulas, const Model& model);
  Formula product_at(AtomId product, AtomId factor, const Point& at);
  bool meets(const Model& model, const Expr* goal, Answer& answer);
  void shrink(std::vector<Formula> formulas, const Expr* goal, Answer& answer);
  PointValues point_of(const Model& model, const Expr* goal);
  void learn_divisors(const Formula& negated);
  std::vector<Term> divisors_of(const Expr& goal);
  void check_divisors(const Expr& goal, Answer& answer);

  ArithmeticLimits limits_;
  AtomTable atoms_;
  Normaliser normaliser_;
  std::vector<Expr> facts_;
  std::vector<IndexFacts> index_;
  std::vector<Frame> frames_;
  std::vector<Formula> formulas_;   // of facts_; may be shorter
  std::vector<size_t> learned_at_;  // facts that define a symbol
  Known known_;
  std::vector<size_t> positive_since_;  // how many facts known_.positive rests on
  std::map<AtomId, Attempt> attempts_;  // to prove a divisor positive
  uint64_t generation_ = 1;             // of the facts
  bool loads_known_ = false;
};

void Arithmetic::Impl::prepare() {
  bool learned = false;
  for (size_t i = formulas_.size(); i < facts_.size(); ++i)
    if (normaliser_.learn(facts_[i])) {
      learned_at_.push_back(i);
      learned = true;
    }
  if (learned) {
    formulas_.clear();
    while (!positive_since_.empty()) forget_divisor();
    loads_known_ = false;
  }
  for (size_t i = formulas_.size(); i < facts_.size(); ++i)
    formulas_.push_back(normaliser_.formula(facts_[i]));
  if (loads_known_) return;
  known_.loads.clear();
  for (const IndexFacts& f : index_) {
    LoadFacts& facts = known_.loads[f.tensor];
    if (f.has_range) {
      facts.has_range = true;
      facts.lo = normaliser_.term(f.lo);
      facts.hi = normaliser_.term(f.hi);
    }
    facts.non_decreasing |= f.non_decreasing;
    facts.distinct |= f.distinct;
  }
  loads_known_ = true;
}

Answer Arithmetic::Impl::prove(const Expr& goal) {
  try {
    prepare();
    const Formula f = normaliser_.formula(goal);
    Answer all;
    all.verdict = Verdict::kProved;
    all.prover = Prover::kConstant;
    const std::vector<Formula> parts =
        f->kind == FormulaNode::Kind::kAnd ? f->args : std::vector<Formula>{f};
    for (const Formula& part : parts) {
      Answer answer = prove_formula(part, &goal);
      if (answer.verdict == Verdict::kRefuted) return answer;
      if (answer.verdict == Verdict::kUnknown)
        all = answer;
      else if (all.verdict == Verdict::kProved)
        all.prover = std::max(all.prover, answer.prover);
    }
    if (all.verdict == Verdict::kProved) check_divisors(goal, all);
    return all;
  } catch (const Overflow&) {
    Answer answer;
    answer.reason = "a coefficient leaves 128 bits";
    return answer;
  }
}

// Which divisors do the facts make positive? Their quotients then have one axiom instead of three
// cases. Remembered as long as the facts last.
void Arithmetic::Impl::learn_divisors(const Formula& negated) {
  AtomClosure closure(atoms_);
  for (const Formula& f : formulas_) closure.visit(f);
  closure.visit(negated);
  for (AtomId id : closure.take_new()) {
    if (atoms_[id].kind != Atom::Kind::kQuotient) continue;
    const Term divisor = atoms_[id].args[1];
    if (divisor.is_const() || known_.is_positive(divisor)) continue;
    Attempt& attempt = attempts_[id];
    if (attempt.generation == generation_ || attempt.count >= kDivisorAttempts) continue;
    attempt = {generation_, attempt.count + 1};
    std::vector<Formula> formulas = formulas_;
    formulas.push_back(at_least_zero(-divisor));
    try {
      if (find_point(atoms_, formulas, known_, kDivisorBudget).status != Outcome::Status::kEmpty)
        continue;
    } catch (const Overflow&) {
      continue;
    }
    known_.positive.push_back(divisor);
    positive_since_.push_back(facts_.size() + index_.size());
  }
}

// Of a goal: those that are not known not to be zero.
std::vector<Term> Arithmetic::Impl::divisors_of(const Expr& goal) {
  Parts parts;
  parts.visit(goal);
  std::vector<Term> out;
  for (const Expr& divisor : parts.divisors) {
    Term term = normaliser_.term(divisor);
    if ((term.is_const() && term.constant != 0) || known_.is_positive(term)) continue;
    out.push_back(std::move(term));
  }
  return out;
}

// A goal that divides by zero has no value: it does not follow.
void Arithmetic::Impl::check_divisors(const Expr& goal, Answer& answer) {
  for (const Term& divisor : divisors_of(goal)) {
    std::vector<Formula> formulas = formulas_;
    formulas.push_back(is_zero(divisor));
    try {
      if (find_point(atoms_, formulas, known_).status == Outcome::Status::kEmpty) continue;
    } catch (const Overflow&) {
      // not decided
    }
    answer = Answer{};
    answer.reason = "a divisor may be zero";
    return;
  }
}

// What follows from some of the facts follows from all.
bool Arithmetic::Impl::follows_from_few(const Formula& goal) {
  if (formulas_.size() < kManyFacts) return false;
  const Formula negated = negation(goal);
  std::vector<Formula> few = relevant(atoms_, formulas_, negated);
  if (few.size() == formulas_.size()) return false;
  few.push_back(negated);
  try {
    return find_point(atoms_, few, known_, kFewFactsBudget).status == Outcome::Status::kEmpty;
  } catch (const Overflow&) {
    return false;
  }
}

Answer Arithmetic::Impl::prove_formula(const Formula& goal, const Expr* asked) {
  Answer answer;
  if (goal->kind == FormulaNode::Kind::kTrue) {
    answer.verdict = Verdict::kProved;
    answer.prover = Prover::kConstant;
    return answer;
  }
  answer.prover = Prover::kInterval;
  if (!limits_.tried && follows_from_few(goal)) {
    answer.verdict = Verdict::kProved;
    return answer;
  }
  std::vector<Formula> formulas = formulas_;
  formulas.push_back(negation(goal));
  learn_divisors(formulas.back());
  if (limits_.solver && limits_.tried)
    if (Answer early = solver_early(formulas, asked); early.verdict != Verdict::kUnknown)
      return early;
  std::vector<Formula> lemmas;
  try {
    Outcome outcome = find_point(atoms_, formulas, known_);
    if (outcome.status == Outcome::Status::kEmpty) {
      answer.verdict = Verdict::kProved;
      return answer;
    }
    lemmas = outcome.lemmas;
    bool refuted = outcome.status == Outcome::Status::kModel && meets(outcome.model, asked, answer);
    if (outcome.status == Outcome::Status::kModel && !refuted) {
      // Most often the goal has no value there, for a divisor that is zero.
      for (const Term& divisor : divisors_of(*asked)) formulas.push_back(not_zero(divisor));
      outcome = find_point(atoms_, formulas, known_);
      refuted = outcome.status == Outcome::Status::kModel && meets(outcome.model, asked, answer);
      answer.reason = "not decided without the solver: its model is none of the question";
    } else {
      answer.reason = "not decided without the solver: too many cases";
    }
    if (refuted) {
      answer.verdict = Verdict::kRefuted;
      answer.reason.clear();
      shrink(std::move(formulas), asked, answer);
      return answer;
    }
  } catch (const Overflow&) {
    answer.reason = "not decided without the solver: a number leaves 128 bits";
  }
  if (!limits_.solver) {
    answer.prover = Prover::kNone;
    return answer;
  }
  formulas.insert(formulas.end(), lemmas.begin(), lemmas.end());
  return refine_with_solver(std::move(formulas), asked);
}

Answer Arithmetic::Impl::solver_early(const std::vector<Formula>& formulas, const Expr* asked) {
  WorkBudget budget;
  budget.strategies = 1;
  try {
    Outcome outcome = find_point(atoms_, formulas, known_, budget);
    if (outcome.status == Outcome::Status::kUnknown) {
      outcome.lemmas.insert(outcome.lemmas.begin(), formulas.begin(), formulas.end());
      return refine_with_solver(std::move(outcome.lemmas), asked);
    }
    if (outcome.status == Outcome::Status::kEmpty)
      return {Verdict::kProved, Prover::kInterval, {}, {}};
  } catch (const Overflow&) {
    // the other strategies may meet smaller numbers
  }
  return {};
}

// Z3, asked again with what its model breaks: lemmas of the products, and a factor's own value.
Answer Arithmetic::Impl::refine_with_solver(std::vector<Formula> formulas, const Expr* goal) {
  const size_t asked = formulas.size();
  Answer answer;
  answer.prover = Prover::kSolver;
  AtomClosure closure(atoms_);
  std::vector<AtomId> met;
  uint64_t left = limits_.rlimit;
  for (int round = 0; round < kSolverRounds && left > 0; ++round) {
    for (const Formula& f : formulas) closure.visit(f);
    for (std::vector<AtomId> fresh = closure.take_new(); !fresh.empty(); fresh = closure.take_new())
      for (AtomId id : fresh) {
        std::vector<Formula> axioms = defining_axioms(atoms_, id, known_);
        for (AtomId other : met) axioms.push_back(nested_quotients(atoms_, other, id));
        met.push_back(id);
        for (const Formula& axiom : axioms) {
          closure.visit(axiom);
          formulas.push_back(axiom);
        }
      }
    const SolverAnswer found = ask_solver(formulas, left);
    left -= std::min(left, found.work);
    if (found.status == SolverAnswer::Status::kEmpty) {
      answer.verdict = Verdict::kProved;
      return answer;
    }
    answer.reason = found.reason;
    if (found.status == SolverAnswer::Status::kUnknown) break;
    if (meets(found.model, goal, answer)) {
      answer.verdict = Verdict::kRefuted;
      answer.reason.clear();
      formulas.resize(asked);
      shrink(std::move(formulas), goal, answer);
      return answer;
    }
    const std::vector<Formula> lemmas = lemmas_against(formulas, found.model);
    answer.reason = "nonlinear: the solver's model is none of the products in it";
    if (lemmas.empty()) break;
    formulas.insert(formulas.end(), lemmas.begin(), lemmas.end());
  }
  answer.prover = Prover::kNone;
  return answer;
}

std::vector<Formula> Arithmetic::Impl::lemmas_against(const std::vector<Formula>& formulas,
                                                      const Model& model) {
  constexpr size_t kEach = 8;
  Simplex bounds;
  std::vector<Literal> literals;
  for (const Formula& f : formulas) {
    const std::vector<Formula> single = {f};
    for (const Formula& part : f->kind == FormulaNode::Kind::kAnd ? f->args : single) {
      if (part->kind != FormulaNode::Kind::kLiteral) continue;
      literals.push_back(part->literal);
      bounds.assert_literal(part->literal);
    }
  }
  size_t degree = 2;
  for (const auto& entry : model) degree = std::max(degree, atoms_.factors(entry.first).size());
  const Point at(bounds, &model);
  int64_t work = WorkBudget{}.work;
  std::vector<Formula> lemmas =
      product_lemmas(atoms_, literals, at, {kEach, degree, 2, 32, kWideMax}, work);
  const std::vector<Formula> pairs = pair_lemmas(atoms_, known_, at, kEach);
  lemmas.insert(lemmas.end(), pairs.begin(), pairs.end());
  for (const auto& [id, value] : model) {
    if (!atoms_.is_product(id) || !is_wrong(atoms_, id, at)) continue;
    for (AtomId factor : atoms_.factors(id)) lemmas.push_back(product_at(id, factor, at));
  }
  return lemmas;
}

// What the product is while one factor has the value that the point gives it.
Formula Arithmetic::Impl::product_at(AtomId product, AtomId factor, const Point& at) {
  std::vector<AtomId> others = atoms_.factors(product);
  others.erase(std::find(others.begin(), others.end(), factor));
  const Wide v = at.value(factor).num;
  const Term x = Term::atom(factor) - v, rest = Term::atom(atoms_.product(others)) * v;
  return any_of({all_of({is_zero(x), is_zero(Term::atom(product) - rest)}), at_least_zero(x - 1),
                 at_least_zero(-x - 1)});
}

PointValues Arithmetic::Impl::point_of(const Model& model, const Expr* goal) {
  Parts parts;
  for (const Expr& fact : facts_) parts.visit(fact);
  for (const IndexFacts& f : index_) {
    parts.visit(f.lo);
    parts.visit(f.hi);
  }
  if (goal) parts.visit(*goal);
  const auto value = [&](const Term& t) {
    Wide sum = t.constant;
    for (const auto& [id, c] : t.parts)
      if (auto it = model.find(id); it != model.end()) sum = add(sum, mul(it->second, c));
    return sum;
  };
  PointValues point;
  for (const std::string& name : parts.symbols)
    point.symbols[name] = value(normaliser_.term(Expr::sym(name)));
  const auto add_element = [&](AtomId id, Wide v) {
    std::vector<Wide> at;
    for (const Term& index : atoms_[id].args) at.push_back(value(index));
    point.elements.emplace(std::pair(atoms_[id].name, std::move(at)), v);
  };
  for (const auto& [id, v] : model)
    if (atoms_[id].kind == Atom::Kind::kLoad) add_element(id, v);
  // Elements that nothing constrains beyond their range.
  for (AtomId id = 0; id < atoms_.size(); ++id) {
    if (atoms_[id].kind != Atom::Kind::kLoad || model.count(id) != 0) continue;
    auto it = known_.loads.find(atoms_[id].name);
    add_element(id, it != known_.loads.end() && it->second.has_range ? value(it->second.lo) : 0);
  }
  return point;
}

// Does the point meet all facts, and break the goal? Then it becomes the answer's model.
bool Arithmetic::Impl::meets(const Model& model, const Expr* goal, Answer& answer) {
  const PointValues point = point_of(model, goal);
  PointCheck check(point);
  for (const Expr& fact : facts_)
    if (check.value(fact).value_or(0) == 0) return false;
  if (goal && check.value(*goal).value_or(1) != 0) return false;
  if (!check.meets(index_)) return false;
  Env env;
  for (const auto& [name, v] : point.symbols) {
    if (!fits_int64(v)) return false;
    env[name] = static_cast<int64_t>(v);
  }
  for (const auto& [where, v] : point.elements) {
    std::string name = where.first + "[";
    for (size_t i = 0; i < where.second.size(); ++i)
      name += (i ? ", " : "") + arith::to_string(where.second[i]);
    if (fits_int64(v)) env[name + "]"] = static_cast<int64_t>(v);
  }
  answer.model = std::move(env);
  return true;
}

// Smaller values, symbol by symbol from the largest, each bounded by the least power of two that
// leaves a point.
void Arithmetic::Impl::shrink(std::vector<Formula> formulas, const Expr* goal, Answer& answer) {
  constexpr WorkBudget kBudget{100'000, 40, 40, 8, 1};
  std::vector<std::pair<int64_t, std::string>> order;
  for (const auto& [name, v] : answer.model)
    if (name.find('[') == std::string::npos) order.emplace_back(v < 0 ? v : -v, name);
  std::sort(order.begin(), order.end());
  int questions = kShrinkQuestions;
  for (const auto& entry : order) {
    const std::string& name = entry.second;
    for (Wide limit = kSmall; questions > 0; limit *= 2) {
      const Wide v = answer.model[name];
      if (limit >= (v < 0 ? -v : v)) break;
      --questions;
      const Term symbol = normaliser_.term(Expr::sym(name));
      formulas.push_back(at_least_zero(v > 0 ? Term(limit) - symbol : symbol + limit));
      try {
        const Outcome outcome = find_point(atoms_, formulas, known_, kBudget);
        if (outcome.status == Outcome::Status::kModel && meets(outcome.model, goal, answer)) break;
      } catch (const Overflow&) {
        // too large to be of use
      }
      formulas.pop_back();
    }
  }
}

Answer Arithmetic::Impl::consistent() {
  Answer answer;
  try {
    prepare();
    const Outcome outcome = find_point(atoms_, formulas_, known_);
    answer.prover = Prover::kInterval;
    if (outcome.status == Outcome::Status::kModel && meets(outcome.model, nullptr, answer)) {
      answer.verdict = Verdict::kProved;
      return answer;
    }
    if (outcome.status != Outcome::Status::kEmpty) {
      if (limits_.solver) {
        answer = refine_with_solver(formulas_, nullptr);
      } else {
        answer.prover = Prover::kNone;
        answer.reason = "not decided without the solver";
        return answer;
      }
      if (answer.verdict == Verdict::kUnknown) return answer;
      // There is a point: what is refuted there is the negation of the facts.
      const bool none = answer.verdict == Verdict::kProved;
      answer.verdict = none ? Verdict::kRefuted : Verdict::kProved;
      if (none) answer.reason = "the facts contradict each other";
      return answer;
    }
    answer.verdict = Verdict::kRefuted;
    answer.reason = "the facts contradict each other";
  } catch (const Overflow&) {
    answer = Answer{};
    answer.reason = "a coefficient leaves 128 bits";
  }
  return answer;
}

Arithmetic::Arithmetic(const ArithmeticLimits& limits) : impl_(std::make_unique<Impl>(limits)) {}
Arithmetic::~Arithmetic() = default;
void Arithmetic::push() { impl_->push(); }
void Arithmetic::pop() { impl_->pop(); }
void Arithmetic::assume(const Expr& fact) { impl_->assume(fact); }
void Arithmetic::assume(const IndexFacts& facts) { impl_->assume(facts); }
Answer Arithmetic::prove(const Expr& goal) { return impl_->prove(goal); }
Answer Arithmetic::consistent() { return impl_->consistent(); }

namespace {

void add_lines(const Expr& fact, std::set<std::string>& out) {
  if (fact.kind() != ExprKind::kAnd) {
    out.insert("fact " + fact.str());
    return;
  }
  for (const Expr& part : fact.args()) add_lines(part, out);
}

}  // namespace

std::string question_text(const std::vector<Expr>& facts, const std::vector<IndexFacts>& index,
                          const Expr& goal) {
  std::set<std::string> lines;
  for (const Expr& fact : facts) add_lines(fact, lines);
  for (const IndexFacts& f : index) {
    std::string line = "index " + f.tensor + " rank " + std::to_string(f.rank);
    if (f.has_range) line += " from " + f.lo.str() + " below " + f.hi.str();
    if (f.non_decreasing) line += " non-decreasing";
    if (f.distinct) line += " distinct";
    lines.insert(std::move(line));
  }
  std::string out;
  for (const std::string& line : lines) out += line + "\n";
  return out + "goal " + goal.str() + "\n";
}

}  // namespace rooftile::verify
