// SPDX-License-Identifier: Apache-2.0
// What is known where the walk stands, and what follows from it.
//
// Cheapest first: constant bounds, what was proved before in this scope, Arithmetic, and where few
// threads and registers decide, all of them. What is known of a symbol (its bounds, the contract's
// words on an index tensor) is told to Arithmetic when the symbol first takes part in a question.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "rooftile/verify/arith/arithmetic.h"
#include "rooftile/verify/lanes/decoding.h"
#include "rooftile/verify/lanes/divides.h"
#include "rooftile/verify/lanes/prove_lanes.h"
#include "rooftile/verify/lanes/symbols.h"

namespace rooftile::verify {

// Why a fact holds where the walk stands.
enum class FactKind : uint8_t {
  kCondition,  // a branch or guard
  kDomain,     // a loop runs from begin to end, a CTA is one of the grid
  kLemma,      // follows from others
};

class Questions {
 public:
  static constexpr uint64_t kSolverLimit = 200'000;

  Questions(const lanes::Program& kernel, const LaneContract& contract);

  Symbols& symbols() { return symbols_; }
  Divides& divides() { return divides_; }
  Decoding& decoding() { return decoding_; }
  const std::vector<Expr>& facts() const { return facts_; }
  const std::vector<FactKind>& kinds() const { return kinds_; }  // of facts()

  size_t contract_facts() const { return contract_facts_; }  // the first of facts()

  void push();
  void pop();
  void assume(const Expr& fact, FactKind kind = FactKind::kCondition);
  Answer prove(const Expr& goal);
  bool holds(const Expr& goal) { return prove(goal).verdict == Verdict::kProved; }

  // Whether the contract says anything of a tensor's values; otherwise they are numbers.
  bool describes(const std::string& tensor) const;
  // An element of a tensor that the kernel only reads, as the contract describes it.
  Expr load(const std::string& tensor, std::vector<Expr> at, Interval of_type);

 private:
  void declare(const Expr& e);
  void learn(const Expr& fact);
  void tell(const Expr& fact);
  // The cheapest first; each step may ask those before it of parts of the goal.
  Answer cheap(const Expr& goal);
  Answer by_parts(const Expr& goal);
  bool not_negative(const Expr& e);
  Expr relaxed(const Expr& e, bool up);
  Answer enumerate(const Expr& goal);
  Expr clause_of(const Expr& load) const;

  const LaneContract& contract_;
  Symbols symbols_;
  Divides divides_;
  Decoding decoding_;
  Arithmetic arithmetic_{ArithmeticLimits{.solver = false}};
  // The last to be asked.
  Arithmetic solver_{ArithmeticLimits{.rlimit = kSolverLimit, .tried = true}};
  std::vector<Expr> facts_;
  std::vector<FactKind> kinds_;
  size_t contract_facts_ = 0;
  struct Scope {
    size_t facts = 0;
    std::vector<std::string> declared, proved;
  };
  std::vector<Scope> scopes_ = {{}};
  std::set<std::string> declared_, proved_;
  std::map<std::string, Interval> loads_;  // the bounds of a load's type, by its text
};

}  // namespace rooftile::verify
