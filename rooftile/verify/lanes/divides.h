// SPDX-License-Identifier: Apache-2.0
// What surely divides an expression: for alignment, which is asked of sums of products of strides.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "rooftile/base/expr.h"

namespace rooftile::verify {

class Divides {
 public:
  // `fact` may say that something is a multiple of a number (E % c == 0, E == c); else it is
  // ignored.
  void assume(const Expr& fact);
  void assume(const Expr& e, int64_t divisor);
  // The largest known divisor, at least 1; 0 for what is 0.
  int64_t of(const Expr& e) const;
  bool multiple(const Expr& e, int64_t of_what) const { return of(e) % of_what == 0; }

 private:
  std::map<std::string, int64_t, std::less<>> known_;  // by the text of the expression
};

}  // namespace rooftile::verify
