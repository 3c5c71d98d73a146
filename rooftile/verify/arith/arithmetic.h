// SPDX-License-Identifier: Apache-2.0
// Integer arithmetic with proofs: does a goal follow from what is known?
//
// Terms are rooftile::Expr over mathematical integers: a comparison is a formula, a symbol is any
// integer until a fact says more, an index tensor's element (kIndexLoad) is an uninterpreted
// function. Products of symbols, and division and remainder by one, are named and come with the
// lemmas that kernels need (monotonicity, 0 <= x % d < d, uniqueness of quotient and remainder), so
// that what is asked stays linear; divisibility facts (K % 8 == 0) become substitutions (K = 8 K').
// What is still nonlinear is answered with unknown, never guessed.
//
// Cheapest prover first: linear programming with case distinctions and lemmas, in microseconds,
// then Z3 with a resource limit; both count work, not time, so that verdicts do not depend on the
// machine's speed. A watchdog interrupts a solver that runs for 20 s, which its limit prevents.
// Facts nest: pop() forgets those since the last push().
//
// A division by zero has no value: a goal that may contain one does not follow. Not thread-safe:
// one object a thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "rooftile/base/expr.h"
#include "rooftile/verify/verdict.h"

namespace rooftile::verify {

struct ArithmeticLimits {
  uint64_t rlimit = 300'000;  // of Z3, a question: a second at most (measured), 60 ms mostly
  bool solver = true;         // false: the cheap provers alone, as the independent checker does
  // Whoever asks has tried those in vain: of their strategies one, for its lemmas, then Z3; the
  // others where Z3 leaves it open.
  bool tried = false;
};

// What is promised of the values of an index tensor, beyond each element's range.
struct IndexFacts {
  std::string tensor;
  int rank = 1;
  bool has_range = false;
  Expr lo, hi;                  // lo <= t[...] < hi
  bool non_decreasing = false;  // rank 1: i <= j implies t[i] <= t[j]
  bool distinct = false;        // rank 1: i != j implies t[i] != t[j]
};

struct Answer {
  Verdict verdict = Verdict::kUnknown;
  Prover prover = Prover::kNone;
  // Refuted: a value for every symbol of goal and facts, and for the elements of index tensors that
  // they read, by the names "t[3]", "t[1, 2]". Small where small ones are found quickly.
  Env model;
  std::string reason;  // unknown: why
};

class Arithmetic {
 public:
  explicit Arithmetic(const ArithmeticLimits& limits = {});
  ~Arithmetic();
  Arithmetic(const Arithmetic&) = delete;
  Arithmetic& operator=(const Arithmetic&) = delete;

  void push();
  void pop();
  void assume(const Expr& fact);  // != 0
  void assume(const IndexFacts& facts);
  // Does `goal` != 0 follow? Refuted: the model meets every fact and breaks the goal, which has
  // been checked by evaluation.
  Answer prove(const Expr& goal);
  // Is there a point that meets all facts? Proofs from facts that contradict each other are worth
  // nothing: proved = there is one, with the point in `model`.
  Answer consistent();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// A statement as text, with its facts, in an order that does not depend on how it was built: the
// key of cached verdicts and the evidence of certificates.
std::string question_text(const std::vector<Expr>& facts, const std::vector<IndexFacts>& index,
                          const Expr& goal);

}  // namespace rooftile::verify
