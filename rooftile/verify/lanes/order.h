// SPDX-License-Identifier: Apache-2.0
// The order of statements: what a thread executes between two of them.
#pragma once

#include <unordered_map>
#include <vector>

#include "rooftile/lanes/lanes.h"

namespace rooftile::verify {

class StatementOrder {
 public:
  explicit StatementOrder(const lanes::Program& program) { enter(program.body, nullptr); }

  // Statements that stand behind `a` and before `b`, in order: direct ones of the innermost body
  // around both, then those of the bodies around `b` alone. Empty if `a` does not come first.
  std::vector<const lanes::Stmt*> between(const lanes::Stmt& a, const lanes::Stmt& b) const;
  // The statement around, or null.
  const lanes::Stmt* around(const lanes::Stmt& stmt) const;
  // The body that the statement stands in.
  const lanes::Body& body_of(const lanes::Stmt& stmt) const { return *places_.at(&stmt).body; }

 private:
  struct Place {
    const lanes::Body* body = nullptr;
    size_t index = 0;
    const lanes::Stmt* around = nullptr;
  };
  void enter(const lanes::Body& body, const lanes::Stmt* around);
  std::vector<Place> path(const lanes::Stmt& stmt) const;  // innermost first

  std::unordered_map<const lanes::Stmt*, Place> places_;
};

}  // namespace rooftile::verify
