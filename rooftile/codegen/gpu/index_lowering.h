// SPDX-License-Identifier: Apache-2.0
// Expr to lanes: sizes, loop bounds, regions and conditions as registers.
//
// Integers are i32 unless a 64-bit index tensor, attribute or stride is part of them; dims are
// below 2^31 by contract. Comparisons are predicates, and become 0 or 1 where a number is asked
// for. Elements of index tensors are loaded where they are first needed, once a scope.
#pragma once

#include <map>
#include <string>

#include "rooftile/base/expr.h"
#include "rooftile/ir/ir.h"
#include "rooftile/lanes/lanes.h"

namespace rooftile::codegen {

class IndexLowering {
 public:
  explicit IndexLowering(const ir::Program& program) : program_(&program) {}

  // Symbols are looked up here first (loop and tile indices: registers), then they are parameters.
  void bind(const std::string& symbol, lanes::Val value) { bound_[symbol] = std::move(value); }
  // Scopes of loaded elements: open one for each block of statements.
  void push_scope() { loaded_.emplace_back(); }
  void pop_scope() { loaded_.pop_back(); }

  // The value as a number (i32 or i64), or as a predicate. Loads of index tensors, and whatever is
  // worth a register of its own, are appended to `out`.
  lanes::Val number(const Expr& expr, lanes::Body& out);
  lanes::Val condition(const Expr& expr, lanes::Body& out);
  // The number in a register named `hint` (made unique), for texts that people read.
  lanes::Val named(const std::string& hint, const Expr& expr, lanes::Body& out);

  // The condition in a predicate register, worked out once a scope.
  lanes::Val named_condition(const std::string& hint, const Expr& expr, lanes::Body& out);

  std::string unique(const std::string& hint);  // a register name not used before

 private:
  lanes::Val lower(const Expr& expr, lanes::Body& out);
  lanes::Val load(const Expr& expr, lanes::Body& out);
  // Elements that `expr` reads are loaded only where `guard` holds (0 elsewhere).
  lanes::Val guarded(const lanes::Val& guard, const Expr& expr, lanes::Body& out);

  const ir::Program* program_;
  std::map<std::string, lanes::Val> bound_;
  std::vector<std::map<std::string, lanes::Val>> loaded_;  // and conditions, by their text
  std::map<std::string, int> names_;
  lanes::Val guard_;
};

}  // namespace rooftile::codegen
