// SPDX-License-Identifier: Apache-2.0
// Numbers of tiles taken apart: what quotients and remainders are below, when what is divided is
// below a product.
//
//   x < a b c,  b > 0                 |-  x / b < a c,  x % b < b
//   x < a c,  q = x / (k c),  c > 0   |-  q k < a,  x % (k c) < min(k, a - q k) c
//
// The second is the order in bands. Both follow from uniqueness of quotient and remainder. They
// are told as facts, so that no question about coordinates is ever nonlinear.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "rooftile/base/expr.h"

namespace rooftile::verify {

class Decoding {
 public:
  void push() { scopes_.emplace_back(); }
  void pop();
  // A fact of the scope: x < a product is remembered.
  void assume(const Expr& fact);
  // What follows of x / d, or of x % d, where d >= 1. Facts for the scope.
  std::vector<Expr> quotient(const Expr& x, const Expr& d);
  std::vector<Expr> remainder(const Expr& x, const Expr& d);
  // x - (x / d) d is x % d, and (x / d) d + x % d is x.
  static Expr simplified(const Expr& sum);

 private:
  struct Product {
    int64_t constant = 1;
    std::vector<Expr> factors;
  };
  static Product product_of(const Expr& e);
  static bool divide(Product& p, const Product& by);
  static Expr value(const Product& p);
  const Product* bound(const Expr& x) const;
  void remember(const Expr& x, const Product& below);

  std::map<std::string, Product, std::less<>> below_;
  std::vector<std::vector<std::string>> scopes_ = {{}};
};

}  // namespace rooftile::verify
