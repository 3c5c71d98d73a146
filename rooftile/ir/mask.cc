// SPDX-License-Identifier: Apache-2.0
#include "rooftile/ir/mask.h"

namespace rooftile::ir {

namespace {

// A position: begin + index along `axis`; axis < 0: the same everywhere.
struct Position {
  Expr begin;
  int axis = -1;
};

std::optional<Position> position(const Node& node) {
  if (node.op == Op::kFromIndex) return Position{node.expr, -1};
  if (node.op != Op::kIota) return std::nullopt;
  const bool moves = !node.shape[static_cast<size_t>(node.axis)].is_const(1);
  return Position{node.expr, moves ? node.axis : -1};
}

// right - left >= least
std::optional<Reach> compared(const Program& program, const Node& comparison, size_t rank) {
  const std::optional<Position> left = position(program.node(comparison.operands[0]));
  const std::optional<Position> right = position(program.node(comparison.operands[1]));
  if (!left || !right) return std::nullopt;
  Reach reach{right->begin - left->begin - Expr(comparison.ew == Ew::kLt ? 1 : 0),
              std::vector<int>(rank, 0)};
  if (left->axis >= 0) --reach.slope[static_cast<size_t>(left->axis)];
  if (right->axis >= 0) ++reach.slope[static_cast<size_t>(right->axis)];
  return reach;
}

bool collect(const Program& program, ValueId mask, size_t rank, std::vector<Reach>& out) {
  const Node& node = program.node(mask);
  if (node.op != Op::kElementwise || node.shape.size() > rank) return false;
  if (node.ew == Ew::kLogicalAnd)
    return collect(program, node.operands[0], rank, out) &&
           collect(program, node.operands[1], rank, out);
  // Positions of fewer axes than the mask would have to be lined up with it first.
  if ((node.ew != Ew::kLe && node.ew != Ew::kLt) || node.shape.size() != rank) return false;
  std::optional<Reach> reach = compared(program, node, rank);
  if (!reach) return false;
  out.push_back(std::move(*reach));
  return true;
}

}  // namespace

Expr Reach::least(const std::vector<Expr>& shape, size_t from) const {
  Expr out = base;
  for (size_t d = from; d < slope.size(); ++d)
    if (slope[d] < 0) out = out - (shape[d] - 1) * Expr(-slope[d]);
  return out;
}

std::optional<std::vector<Reach>> reaches(const Program& program, ValueId mask) {
  std::vector<Reach> out;
  if (!collect(program, mask, program.node(mask).shape.size(), out)) return std::nullopt;
  return out;
}

std::optional<Expr> holds_everywhere(const Program& program, ValueId mask) {
  const std::optional<std::vector<Reach>> all = reaches(program, mask);
  if (!all) return std::nullopt;
  Expr out = 1;
  for (const Reach& reach : *all) {
    const Expr whole = reach.least(program.node(mask).shape) >= Expr(0);
    out = out.is_const(1) ? whole : out && whole;
  }
  return out;
}

}  // namespace rooftile::ir
