// SPDX-License-Identifier: Apache-2.0
#include "rooftile/codegen/gpu/strips_facts.h"

#include <algorithm>

namespace rooftile::codegen {

using ir::Node;
using ir::Op;
using K = ExprKind;

std::optional<int64_t> most(const Expr& e) {
  if (e.is_const()) return e.value();
  const auto& a = e.args();
  auto both = [&](size_t i, size_t j, auto join) -> std::optional<int64_t> {
    const auto x = most(a[i]), y = most(a[j]);
    return x && y ? std::optional<int64_t>(join(*x, *y)) : std::nullopt;
  };
  switch (e.kind()) {
    case K::kMin: {
      const auto x = most(a[0]), y = most(a[1]);
      if (x && y) return std::min(*x, *y);
      return x ? x : y;
    }
    case K::kMax:
      return both(0, 1, [](int64_t x, int64_t y) { return std::max(x, y); });
    case K::kSelect:
      return both(1, 2, [](int64_t x, int64_t y) { return std::max(x, y); });
    case K::kAdd:
      return both(0, 1, [](int64_t x, int64_t y) { return x + y; });
    case K::kMul:
      return both(0, 1, [](int64_t x, int64_t y) { return x * y; });
    case K::kFloorDiv: {
      const auto x = most(a[0]);
      return x && a[1].is_const() && a[1].value() > 0 ? std::optional(*x / a[1].value())
                                                      : std::nullopt;
    }
    case K::kMod:
      return a[1].is_const() && a[1].value() > 0 ? std::optional(a[1].value() - 1) : std::nullopt;
    case K::kLt:
    case K::kLe:
    case K::kEq:
    case K::kNe:
    case K::kAnd:
    case K::kOr:
    case K::kNot:
      return 1;
    default:
      return std::nullopt;
  }
}

std::vector<Expr> walked(const std::vector<Expr>& shape) {
  std::vector<Expr> out;
  for (const Expr& extent : shape)
    if (!extent.is_const(1)) out.push_back(extent);
  return out;
}

std::string shape_key(const std::vector<Expr>& shape) {
  std::string key;
  for (const Expr& extent : shape) key += (key.empty() ? "" : ", ") + extent.str();
  return "[" + key + "]";
}

bool is_scalar(const Node& node) { return walked(node.shape).empty(); }

// ---- multiples ---------------------------------------------------------------------------------

Multiples::Multiples(const ir::Program& program) {
  for (const ir::TensorParam& t : program.tensors)
    for (const Expr& extent : t.shape)
      for (const std::string& symbol : symbols_of(extent)) given_.insert(symbol);
  for (const ir::ScalarParam& s : program.scalars)
    if (!s.is_float) given_.insert(s.name);
}

bool Multiples::is_closed(const Expr& e) const {
  if (e.kind() == K::kIndexLoad) return false;
  if (e.kind() == K::kSym) return given_.count(e.name()) != 0;
  return std::all_of(e.args().begin(), e.args().end(),
                     [&](const Expr& sub) { return is_closed(sub); });
}

bool Multiples::surely(const Expr& e, int64_t unit) const {
  const auto& a = e.args();
  switch (e.kind()) {
    case K::kConst:
      return e.value() % unit == 0;
    case K::kSym: {
      const auto found = unit_of_.find(e.name());
      return found != unit_of_.end() && found->second % unit == 0;
    }
    case K::kMul:
      return surely(a[0], unit) || surely(a[1], unit);
    case K::kAdd:
    case K::kSub:
    case K::kMin:
    case K::kMax:
      return surely(a[0], unit) && surely(a[1], unit);
    case K::kSelect:
      return surely(a[1], unit) && surely(a[2], unit);
    default:
      return false;
  }
}

bool Multiples::holds(const Expr& e, int64_t unit, std::vector<Expr>* conditions) const {
  if (unit == 1 || surely(e, unit)) return true;
  if (is_closed(e)) {
    const Expr condition = e % Expr(unit) == Expr(0);
    if (condition.is_const()) return condition.is_const(1);
    const bool known = std::any_of(conditions->begin(), conditions->end(),
                                   [&](const Expr& c) { return c.same_as(condition); });
    if (!known) conditions->push_back(condition);
    return true;
  }
  const auto& a = e.args();
  switch (e.kind()) {
    case K::kAdd:
    case K::kSub:
    case K::kMin:
    case K::kMax:
      return holds(a[0], unit, conditions) && holds(a[1], unit, conditions);
    case K::kSelect:
      return holds(a[1], unit, conditions) && holds(a[2], unit, conditions);
    default:
      return false;
  }
}

int64_t Multiples::unit_of(const Expr& e, int64_t unit) const {
  while (unit > 1 && !surely(e, unit)) unit /= 2;
  return unit;
}

// ---- regions -----------------------------------------------------------------------------------

namespace {

// Dimensions whose index sets cannot meet, whatever the position in the tile.
bool apart(const ir::DimIndex& a, const ir::DimIndex& b) {
  using D = ir::DimIndex;
  if (a.kind == D::kIndirect || b.kind == D::kIndirect) return false;
  const Expr distance = b.begin - a.begin;
  const int64_t step_a = a.kind == D::kRange ? a.step : 1;
  const int64_t step_b = b.kind == D::kRange ? b.step : 1;
  if (a.kind == D::kPoint && b.kind == D::kPoint)
    return distance.is_const() && distance.value() != 0;
  if (step_a == step_b && distance.is_const() && distance.value() % step_a != 0) return true;
  const Expr length_a = a.kind == D::kRange ? a.extent * Expr(step_a) : Expr(1);
  const Expr length_b = b.kind == D::kRange ? b.extent * Expr(step_b) : Expr(1);
  return b.begin.same_as(a.begin + length_a) || a.begin.same_as(b.begin + length_b);
}

bool same_index(const ir::DimIndex& a, const ir::DimIndex& b) {
  return a.kind == b.kind && a.tile_axis == b.tile_axis && a.step == b.step &&
         a.indirect == b.indirect && a.begin.same_as(b.begin);
}

}  // namespace

Meeting meeting(const Node& a, const Node& b) {
  if (a.region.size() != b.region.size()) return Meeting::kUnknown;
  bool same = true;
  for (size_t d = 0; d < a.region.size(); ++d) {
    if (apart(a.region[d], b.region[d])) return Meeting::kApart;
    same = same && same_index(a.region[d], b.region[d]);
  }
  return same ? Meeting::kSameElement : Meeting::kUnknown;
}

// ---- uses --------------------------------------------------------------------------------------

std::vector<ValueId> inputs_of(const Node& node) {
  if (node.op == Op::kCarried || node.op == Op::kResult) return {};
  std::vector<ValueId> out = node.operands;
  for (const ir::DimIndex& dim : node.region)
    if (dim.kind == ir::DimIndex::kIndirect) out.push_back(dim.indirect);
  return out;
}

Uses::Uses(const ir::Program& program, const ir::Block& block) : program_(program) {
  users_.resize(program.nodes.size());
  visit(block);
}

void Uses::visit(const ir::Block& block) {
  for (ValueId id : block.nodes) {
    const Node& node = program_.node(id);
    for (ValueId input : inputs_of(node)) users_[static_cast<size_t>(input)].push_back(id);
    for (ValueId yield : node.block.yields) users_[static_cast<size_t>(yield)].push_back(id);
    visit(node.block);
  }
}

bool Uses::operand_only(ValueId id) const {
  if (count(id) == 0) return false;
  for (ValueId user : users(id)) {
    const Node& node = program_.node(user);
    if (node.op == Op::kTranspose
            ? !operand_only(user)
            : node.op != Op::kMma || (node.operands.size() == 3 && node.operands[2] == id))
      return false;
  }
  return true;
}

bool Uses::feeds_product(ValueId id) const {
  for (ValueId user : users(id)) {
    const Node& node = program_.node(user);
    if (node.op == Op::kTranspose && feeds_product(user)) return true;
    if (node.op == Op::kMma && (node.operands[0] == id || node.operands[1] == id)) return true;
  }
  return false;
}

bool Uses::feeds_index(ValueId id) const {
  return std::any_of(users(id).begin(), users(id).end(), [&](ValueId user) {
    const Node& node = program_.node(user);
    const bool indexed =
        std::any_of(node.region.begin(), node.region.end(), [&](const ir::DimIndex& dim) {
          return dim.kind == ir::DimIndex::kIndirect && dim.indirect == id;
        });
    const bool per_element =
        node.op == Op::kElementwise || node.op == Op::kSelect || node.op == Op::kCast;
    return indexed || (per_element && feeds_index(user));
  });
}

bool contains(const ir::Program& program, const ir::Block& block, Op op) {
  return std::any_of(block.nodes.begin(), block.nodes.end(), [&](ValueId id) {
    const Node& node = program.node(id);
    return node.op == op || contains(program, node.block, op);
  });
}

bool may_alias(const ir::Program& program, const std::string& a, const std::string& b) {
  if (a == b) return true;
  auto lists = [&](const std::string& of, const std::string& other) {
    const ir::TensorParam* t = program.tensor(of);
    return t != nullptr &&
           std::find(t->may_alias.begin(), t->may_alias.end(), other) != t->may_alias.end();
  };
  return lists(a, b) || lists(b, a);
}

}  // namespace rooftile::codegen
