// SPDX-License-Identifier: Apache-2.0
// The typing rules of single nodes, one table row an operation (node_rules.cc). Scoping, symbols
// and phases need the whole program and are checked by the walk in verify.cc.
#pragma once

#include <optional>
#include <string>

#include "rooftile/ir/types.h"

namespace rooftile::ir {

// What a rule found wrong; the walk adds operator, node and source line.
struct Problem {
  std::string message;
  std::string found;
  std::string expected;
};
using Verdict = std::optional<Problem>;

// Operand count, dtypes, shapes, axes and regions of one node. Operand ids must be in range.
Verdict check_node(const Program& program, const Node& node);

}  // namespace rooftile::ir
