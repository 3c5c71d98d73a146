// SPDX-License-Identifier: Apache-2.0
// The symbols of a walk: what each stands for, and constant bounds of expressions over them.
//
// Bounds live in scopes, as facts do: what a branch's condition says of a symbol narrows it until
// the branch ends. Bitwise operations have no Expr; a symbol with a definition stands for one, so
// that it can be evaluated where threads are enumerated.
#pragma once

#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "rooftile/base/expr.h"
#include "rooftile/verify/lanes/interval.h"

namespace rooftile::verify {

enum class SymbolKind : uint8_t {
  kCall,     // a dim, a stride, an attribute
  kPlace,    // cta.x, tid, the counter of a loop: any value in its bounds is reached
  kLoaded,   // from memory: any value in its bounds may be there
  kChanged,  // what a loop's body makes of a register: bounds are what was proved, not what comes
  kDefined,  // a bitwise operation
};

struct Symbol {
  SymbolKind kind = SymbolKind::kCall;
  Interval range;
  std::vector<Expr> facts;  // hold wherever the symbol does, beyond `range`
  bool data = false;        // a number that the kernel computes with, not an index
  // kDefined
  enum class Bits : uint8_t { kAnd, kOr, kXor } bits = Bits::kXor;
  Expr a, b;
};

class Symbols {
 public:
  // A new symbol, `hint` with a number behind it where that is taken.
  Expr add(const std::string& hint, Symbol symbol);
  const Symbol* find(const std::string& name) const;

  void push();
  void pop();
  // Narrows the bounds of symbols to those that meet `condition`; what it cannot use it ignores.
  void assume(const Expr& condition);
  Interval range(const Expr& e);
  // Bounds that contradict each other: no thread comes here.
  bool dead() const { return dead_; }

  // Whether a value of memory or a number has a part in `e`.
  bool is_data(const Expr& e);
  // Whether bounds that are only an estimate have a part in `e`.
  bool is_estimate(const Expr& e);
  // With the symbols of definitions.
  std::set<std::string> closure(const Expr& e) const;

 private:
  struct Saved {
    std::string name;
    Interval range;
  };
  void narrow(const Expr& e, const Interval& to);
  void compare(ExprKind kind, const Expr& a, const Expr& b);
  Interval compute(const Expr& e);

  std::map<std::string, Symbol, std::less<>> symbols_;
  std::map<std::string, int> counts_;
  std::vector<std::vector<Saved>> undo_;
  std::vector<bool> was_dead_;
  bool dead_ = false;
  struct Known {
    Expr e;  // keeps the node alive
    Interval range;
  };
  std::unordered_map<const ExprNode*, Known> known_;
};

}  // namespace rooftile::verify
