// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/tile/reasoner.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace rooftile::verify {
namespace {

double now_ms() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double, std::milli>(Clock::now().time_since_epoch()).count();
}

void collect_elements(const Expr& expr, std::vector<Expr>& out) {
  for (const Expr& arg : expr.args()) collect_elements(arg, out);  // the innermost first
  if (expr.kind() == ExprKind::kIndexLoad) out.push_back(expr);
}

}  // namespace

Reasoner::Reasoner(const ir::Program& program)
    : program_(program), contract_(contract_facts(program)), order_(order_facts(program)) {
  for (const ContractFact& fact : contract_) arithmetic_.assume(fact.fact);
  for (const IndexFacts& facts : order_) arithmetic_.assume(facts);
}

// What the clauses say holds of elements that exist, so that is proved first, from what is known
// without them.
void Reasoner::assume_element(const Expr& term) {
  if (!elements_.insert(term.str()).second) return;
  const ir::TensorParam* tensor = program_.tensor(term.name());
  if (tensor == nullptr || tensor->shape.size() != term.args().size()) return;
  std::vector<ContractFact> promised = element_facts(program_, term);
  if (promised.empty()) return;
  for (size_t d = 0; d < tensor->shape.size(); ++d) {
    const Expr& at = term.args()[d];
    for (const Expr& inside : {Expr(0) <= at, at < tensor->shape[d]})
      if (!inside.is_const(1) && arithmetic_.prove(inside).verdict != Verdict::kProved) return;
  }
  for (const ContractFact& fact : promised) {
    arithmetic_.assume(fact.fact);
    element_facts_.push_back(fact.fact);
    asking_->used.insert(fact.source);
    assume_elements(fact.fact);  // lengths[b], in what is said of block_table[b, i]
  }
}

void Reasoner::assume_elements(const Expr& expr) {
  std::vector<Expr> terms;
  collect_elements(expr, terms);
  for (const Expr& term : terms) assume_element(term);
}

Answer Reasoner::prove(const std::vector<Expr>& facts, const Expr& goal) {
  std::string key = goal.str();
  for (const Expr& fact : facts) key += "\n" + fact.str();
  const auto known = answers_.find(key);
  if (known != answers_.end()) return account(known->second);
  return account(answers_.emplace(std::move(key), decide(facts, goal)).first->second);
}

const Answer& Reasoner::account(const Asked& asked) {
  symbols_.insert(asked.symbols.begin(), asked.symbols.end());
  used_.insert(asked.used.begin(), asked.used.end());
  if (asked.answer.verdict == Verdict::kProved) {
    prover_ = std::max(prover_, asked.answer.prover);
    evidence_ += asked.evidence;
  }
  return asked.answer;
}

Reasoner::Asked Reasoner::decide(const std::vector<Expr>& facts, const Expr& goal) {
  Asked asked;
  asking_ = &asked;
  elements_.clear();
  element_facts_.clear();
  arithmetic_.push();
  for (const Expr& fact : facts) {
    arithmetic_.assume(fact);
    collect_symbols(fact, asked.symbols);
  }
  collect_symbols(goal, asked.symbols);
  for (const Expr& fact : facts) assume_elements(fact);
  assume_elements(goal);
  asked.answer = goal.is_const() && goal.value() != 0
                     ? Answer{Verdict::kProved, Prover::kConstant, {}, ""}
                     : arithmetic_.prove(goal);
  if (asked.answer.verdict == Verdict::kRefuted) make_smaller(goal, asked.answer);
  arithmetic_.pop();
  if (asked.answer.verdict == Verdict::kProved) {
    std::vector<Expr> all;
    for (const ContractFact& fact : contract_) all.push_back(fact.fact);
    all.insert(all.end(), facts.begin(), facts.end());
    all.insert(all.end(), element_facts_.begin(), element_facts_.end());
    asked.evidence = question_text(all, order_, goal) + "\n";
  }
  return asked;
}

// A counterexample is there to be run: of the least sizes at which it still is one.
void Reasoner::make_smaller(const Expr& goal, Answer& answer) {
  constexpr int64_t kLarge = 256;  // beyond it a program takes long to be interpreted
  std::set<std::string> dims;
  for (const ir::TensorParam& tensor : program_.tensors)
    for (const Expr& extent : tensor.shape) collect_symbols(extent, dims);
  const bool large = std::any_of(answer.model.begin(), answer.model.end(), [&](const auto& value) {
    return value.second > kLarge && dims.count(value.first) > 0;
  });
  if (!large) return;
  for (const int64_t most : {kLarge / 4, kLarge, 16 * kLarge}) {
    arithmetic_.push();
    for (const std::string& dim : dims)
      arithmetic_.assume(Expr(1) <= Expr::sym(dim) && Expr::sym(dim) <= Expr(most));
    Answer small = arithmetic_.prove(goal);
    arithmetic_.pop();
    if (small.verdict != Verdict::kRefuted) continue;
    answer = std::move(small);
    return;
  }
}

bool Reasoner::distinct(const Expr& term, const std::vector<Expr>& facts) {
  for (const ir::Clause& clause : program_.clauses) {
    if (clause.kind != ir::Clause::kDistinct || clause.tensor != term.name()) continue;
    if (clause.has_except && !proves(facts, term != clause.except)) continue;
    used_.insert(clause_text(clause));
    return true;
  }
  return false;
}

Finding Reasoner::begin(Kind kind, std::string subject, const SourceLoc& loc) {
  used_.clear();
  symbols_.clear();
  evidence_.clear();
  prover_ = Prover::kNone;
  started_ = now_ms();
  Finding finding;
  finding.kind = kind;
  finding.subject = std::move(subject);
  finding.loc = loc;
  finding.verdict = Verdict::kProved;
  return finding;
}

void Reasoner::settle(Finding& finding) {
  finding.ms = now_ms() - started_;
  if (finding.verdict != Verdict::kProved) return;
  finding.prover = std::max(finding.prover, prover_);
  if (finding.prover == Prover::kNone) finding.prover = Prover::kConstant;
  finding.evidence = evidence_;
  // A condition may have been used where it shares a symbol with a question.
  for (const ContractFact& fact : contract_) {
    if (fact.source.rfind("extents", 0) == 0) continue;  // nothing is negative: of every call
    for (const std::string& symbol : symbols_of(fact.fact))
      if (symbols_.count(symbol) > 0) used_.insert(fact.source);
  }
  finding.assumptions.assign(used_.begin(), used_.end());
}

}  // namespace rooftile::verify
