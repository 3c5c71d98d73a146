// SPDX-License-Identifier: Apache-2.0
// A row sum, and what is linear in it along a carried value that starts from zero, may stay one
// partial sum a lane until something else reads it (R26).
#include "rooftile/codegen/gpu/placer.h"

namespace rooftile::codegen {

using ir::Op;

bool Placer::is_partial(ValueId id) const {
  auto it = placed_.values.find(id);
  return it != placed_.values.end() && it->second.partial;
}

Status Placer::check_partials() {
  // Optimistic: sums, what is linear in them, and carried values that start from zero; withdrawn
  // where the rule does not hold, until nothing changes.
  for (auto& [id, value] : placed_.values) {
    const Node& node = program_.node(id);
    const bool linear =
        node.op == Op::kElementwise && (node.ew == ir::Ew::kAdd || node.ew == ir::Ew::kMul);
    const bool sum = node.op == Op::kReduce && node.reduce == ir::ReduceKind::kSum;
    if (value.home == Home::kRow) value.partial = sum || carried_from_zero(id);
    if (value.home == Home::kRow && linear)
      for (ValueId operand : node.operands) value.partial |= is_partial(operand);
  }
  bool changed = true;
  while (changed) {
    changed = false;
    for (auto& [id, value] : placed_.values) {
      if (value.home != Home::kRow) continue;
      const bool partial = derive_partial(id, value.partial);
      if (partial != value.partial) {
        value.partial = partial;
        changed = true;
      }
    }
  }
  return {};
}

bool Placer::is_zero(ValueId id) const {
  const Node& node = program_.node(id);
  return node.op == Op::kFill && node.number == 0;
}
bool Placer::carried_from_zero(ValueId id) const {
  const Node& node = program_.node(id);
  if (node.op != Op::kCarried && node.op != Op::kResult) return false;
  const ValueId init = program_.node(node.operands[0]).operands[static_cast<size_t>(node.axis)];
  return is_zero(init) || (program_.node(init).op == Op::kResult && carried_from_zero(init));
}
ValueId Placer::carried(const Node& loop, size_t position) const {
  for (ValueId id : loop.block.nodes) {
    const Node& node = program_.node(id);
    if (node.op == Op::kCarried && node.axis == static_cast<int>(position)) return id;
  }
  return -1;
}

// Whether `user` can work on partial sums of `id`.
bool Placer::accepts(ValueId user, ValueId id) const {
  const Node& node = program_.node(user);
  if (node.op != Op::kLoop) return node.op == Op::kElementwise && is_partial(user);
  for (size_t i = 0; i < node.operands.size(); ++i)
    if ((node.operands[i] == id || node.block.yields[i] == id) && !is_partial(carried(node, i)))
      return false;
  return true;
}

bool Placer::derive_partial(ValueId id, bool now) const {
  const Node& node = program_.node(id);
  auto users = users_.find(id);
  if (users == users_.end()) return false;
  for (ValueId user : users->second)
    if (!accepts(user, id)) return false;
  switch (node.op) {
    case Op::kReduce:
      return node.reduce == ir::ReduceKind::kSum;
    case Op::kCarried: {
      const Node& loop = program_.node(node.operands[0]);
      const ValueId init = loop.operands[static_cast<size_t>(node.axis)];
      const ValueId next = loop.block.yields[static_cast<size_t>(node.axis)];
      return now && is_partial(next) && (is_zero(init) || is_partial(init));
    }
    case Op::kResult:
      return is_partial(carried(program_.node(node.operands[0]), static_cast<size_t>(node.axis)));
    case Op::kElementwise:
      if (node.ew == ir::Ew::kAdd)
        return is_partial(node.operands[0]) && is_partial(node.operands[1]);
      if (node.ew == ir::Ew::kMul)
        return is_partial(node.operands[0]) != is_partial(node.operands[1]);
      return false;
    default:
      return false;
  }
}

}  // namespace rooftile::codegen
