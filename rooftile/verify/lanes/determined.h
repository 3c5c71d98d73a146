// SPDX-License-Identifier: Apache-2.0
// Which unknowns follow from given expressions: the key to "no two CTAs write one element".
//
// If two runs agree on an element's coordinates, they agree on whatever these determine: on the one
// unknown of a sum whose rest is known; on the parts of c x + y where 0 <= y < c; on x where x / d,
// x % d and d are known; on the place that holds a value of which there is only one. No solver: a
// closure over the expressions at hand, with bounds from the walk.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "rooftile/verify/lanes/questions.h"

namespace rooftile::verify {

class Determined {
 public:
  // `contract` knows index tensors without equal elements. What only the call decides is known.
  Determined(Questions& questions, const LaneContract& contract)
      : questions_(questions), contract_(contract) {}
  void add(const Expr& e);
  bool has(const Expr& e) const;

 private:
  struct Term {
    int64_t factor;
    Expr e;
  };
  bool closed(const Expr& e) const;
  void decompose(const Expr& e);
  void split(std::vector<Term> terms);
  void rebuild();
  static void collect(const Expr& e, int64_t factor, std::vector<Term>& out, int64_t& constant);

  Questions& questions_;
  const LaneContract& contract_;
  std::set<std::string> known_;
  std::vector<Expr> list_;
};

}  // namespace rooftile::verify
