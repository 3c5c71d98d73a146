// SPDX-License-Identifier: Apache-2.0
// Expressions made ready to be evaluated at many points: a list of operations on slots.
//
// Where threads, registers and the copies of unrolled loops are enumerated, an expression is
// evaluated some ten thousand times.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "rooftile/base/expr.h"
#include "rooftile/verify/lanes/symbols.h"

namespace rooftile::verify {

class Tape {
 public:
  // `symbols` has the definitions of bitwise operations.
  explicit Tape(const Symbols& symbols) : symbols_(symbols) {}

  // The slot that holds the value of `e` after run().
  int add(const Expr& e);
  // The slot of a symbol, to be set before run(); -1 where no expression has it.
  int input(const std::string& name) const;
  const std::vector<std::pair<std::string, int>>& inputs() const { return inputs_; }
  void set(int slot, int64_t value) { values_[static_cast<size_t>(slot)] = value; }
  // False if something is undefined: a division by zero that matters, an element of a tensor.
  bool run();
  int64_t value(int slot) const { return values_[static_cast<size_t>(slot)]; }

 private:
  enum class Code : uint8_t { kExpr, kAnd, kOr, kXor, kUndefined };
  struct Op {
    Code code = Code::kExpr;
    ExprKind kind = ExprKind::kAdd;
    int dst = 0, a = 0, b = 0, c = 0;
  };
  int slot(int64_t value = 0);

  const Symbols& symbols_;
  std::vector<int64_t> values_;
  std::vector<Op> ops_;
  std::vector<std::pair<std::string, int>> inputs_;
  std::unordered_map<const ExprNode*, int> known_;
  std::vector<Expr> alive_;
};

}  // namespace rooftile::verify
