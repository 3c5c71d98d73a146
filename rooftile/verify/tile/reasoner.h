// SPDX-License-Identifier: Apache-2.0
// Questions about one program: what the contract says is known, and of each element of an index
// tensor that a question names, what its clauses say, once the element is known to exist.
//
// A thin layer over Arithmetic. It keeps count of what was used, so that a finding can say which
// clauses it rests on, and puts the answers of the parts of an obligation together.
#pragma once

#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "rooftile/ir/ir.h"
#include "rooftile/verify/tile/contract_facts.h"
#include "rooftile/verify/verdict.h"

namespace rooftile::verify {

class Reasoner {
 public:
  explicit Reasoner(const ir::Program& program);

  Answer prove(const std::vector<Expr>& facts, const Expr& goal);
  bool proves(const std::vector<Expr>& facts, const Expr& goal) {
    return prove(facts, goal).verdict == Verdict::kProved;
  }

  // Whether the contract says that the element `term` differs from every other of its tensor.
  bool distinct(const Expr& term, const std::vector<Expr>& facts);

  const ir::Program& program() const { return program_; }
  // Begins and ends the account of one finding, which counts as proved until an answer differs.
  Finding begin(Kind kind, std::string subject, const SourceLoc& loc = {});
  void settle(Finding& finding);  // adds assumptions, evidence, prover and time

 private:
  // A question with all that its answer rests on. Loads of keys and of values ask the same, so
  // answers are kept.
  struct Asked {
    Answer answer;
    std::set<std::string> used, symbols;
    std::string evidence;
  };
  Asked decide(const std::vector<Expr>& facts, const Expr& goal);
  void make_smaller(const Expr& goal, Answer& answer);
  const Answer& account(const Asked& asked);
  void assume_elements(const Expr& expr);
  void assume_element(const Expr& term);

  const ir::Program& program_;
  Arithmetic arithmetic_;
  std::vector<ContractFact> contract_;
  std::vector<IndexFacts> order_;
  std::unordered_map<std::string, Asked> answers_;
  // Of the question at hand.
  Asked* asking_ = nullptr;
  std::set<std::string> elements_;
  std::vector<Expr> element_facts_;
  // Of the finding at hand.
  std::set<std::string> used_;
  std::set<std::string> symbols_;
  std::string evidence_;
  Prover prover_ = Prover::kNone;
  double started_ = 0;
};

}  // namespace rooftile::verify
