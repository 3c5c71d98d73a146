// SPDX-License-Identifier: Apache-2.0
// Checks a point against what was really asked: expressions are evaluated as written, in 128 bits,
// without the normal form and its lemmas. No refutation is given that has not passed here.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rooftile/base/expr.h"
#include "rooftile/verify/arith/arithmetic.h"
#include "rooftile/verify/arith/wide.h"

namespace rooftile::verify::arith {

struct PointValues {
  std::map<std::string, Wide, std::less<>> symbols;
  std::map<std::pair<std::string, std::vector<Wide>>, Wide> elements;  // of index tensors
};

class PointCheck {
 public:
  explicit PointCheck(const PointValues& values) : values_(values) {}
  std::optional<Wide> value(const Expr& e);  // nullopt: undefined, or an element not in the point
  // Do the elements that were read meet what is promised of index tensors?
  bool meets(const std::vector<IndexFacts>& facts);

 private:
  std::optional<Wide> compute(const Expr& e);

  const PointValues& values_;
  std::unordered_map<const ExprNode*, std::optional<Wide>> known_;
  std::vector<Expr> kept_;
  std::map<std::pair<std::string, std::vector<Wide>>, Wide> read_;
};

}  // namespace rooftile::verify::arith
