// SPDX-License-Identifier: Apache-2.0
// Placing: from a phase of a tile program and a Plan to roles, rings, homes and events.
//
// In order: copies and rings (each checked against what the mechanism can do), homes of values,
// then the two event trees. Whatever cannot be placed as asked is RT-P002 with the precondition
// that failed; nothing is placed some other way instead.
#include <algorithm>
#include <optional>

#include "rooftile/codegen/gpu/placer.h"

namespace rooftile::codegen {

using ir::Node;
using ir::Op;

std::optional<int64_t> static_bound(const Expr& e) {
  switch (e.kind()) {
    case ExprKind::kConst:
      return e.value();
    case ExprKind::kMin: {
      std::optional<int64_t> a = static_bound(e.args()[0]), b = static_bound(e.args()[1]);
      return a && b ? std::min(*a, *b) : a ? a : b;
    }
    case ExprKind::kMax: {
      std::optional<int64_t> a = static_bound(e.args()[0]), b = static_bound(e.args()[1]);
      if (a && b) return std::max(*a, *b);
      return std::nullopt;
    }
    case ExprKind::kSelect: {
      std::optional<int64_t> a = static_bound(e.args()[1]), b = static_bound(e.args()[2]);
      if (a && b) return std::max(*a, *b);
      return std::nullopt;
    }
    default:
      return std::nullopt;
  }
}

TileClass tile_class(const Node& node) {
  const std::vector<Expr>& shape = node.shape;
  if (std::all_of(shape.begin(), shape.end(), [](const Expr& e) { return e.is_const(1); }))
    return TileClass::kScalar;
  if (shape.size() != 2) return TileClass::kOther;
  if (shape[1].is_const(1)) return TileClass::kRow;
  if (shape[0].is_const(1)) return TileClass::kColumn;
  return TileClass::kMatrix;
}

bool widens_bytes(const ir::Program& program, const Node& node) {
  return node.op == Op::kCast && size_bytes(program.node(node.operands[0]).dtype) == 1 &&
         is_narrow_float(program.node(node.operands[0]).dtype) && size_bytes(node.dtype) == 2;
}

ValueId operand_source(const ir::Program& program, ValueId id) {
  while (true) {
    const Node& node = program.node(id);
    if (node.op != Op::kTranspose && !widens_bytes(program, node)) return id;
    id = node.operands[0];
  }
}

bool is_transposed(const ir::Program& program, ValueId operand) {
  bool transposed = false;
  for (ValueId id = operand; id != operand_source(program, operand);
       id = program.node(id).operands[0])
    if (program.node(id).op == Op::kTranspose) transposed = !transposed;
  return transposed;
}

bool starts_from_zero_product(const ir::Program& program, const Node& loop, size_t carry) {
  const Node& init = program.node(loop.operands[carry]);
  const Node& next = program.node(loop.block.yields[carry]);
  if (init.op != Op::kFill || init.number != 0 || next.op != Op::kMma) return false;
  if (next.operands.size() != 3) return false;
  const Node& sum = program.node(next.operands[2]);
  return sum.op == Op::kCarried && sum.operands[0] == loop.id;
}

bool stores_by_warps(const gpu::Plan& plan, const std::string& tensor) {
  const auto how = plan.copy.find(tensor);
  return how != plan.copy.end() && how->second.staging_columns != 0 &&
         how->second.via == gpu::Via::kVector;
}

Result<Placed> Placer::run() {
  find_users(program_.node(placed_.phase).block, placed_.phase);
  RT_RETURN_IF_ERROR(place_roles());
  for (const gpu::Ring& ring : plan_.rings) RT_RETURN_IF_ERROR(place_ring(ring));
  RT_RETURN_IF_ERROR(place_rows());
  for (const gpu::LoopSplit& split : plan_.split) RT_RETURN_IF_ERROR(place_split(split));
  const ir::Block& body = program_.node(placed_.phase).block;
  RT_RETURN_IF_ERROR(place_values(body));
  RT_RETURN_IF_ERROR(check_partials());
  RT_RETURN_IF_ERROR(copy_events(body, placed_.copying));
  RT_RETURN_IF_ERROR(compute_events(body, placed_.computing));
  keep_to_owner(placed_.computing);
  RT_RETURN_IF_ERROR(check_turns());
  return std::move(placed_);
}

Diag Placer::refuse(const Node& node, std::string message, std::string found,
                    std::string expected) const {
  Diag diag;
  diag.code = ErrorCode::kPlacement;
  diag.subject = program_.name;
  diag.argument = node.label.empty() ? "%" + std::to_string(node.id) : node.label;
  diag.message = std::move(message);
  diag.found = std::move(found);
  diag.expected = std::move(expected);
  diag.at = node.loc;
  return diag;
}

Diag Placer::unknown(const std::string& kind, const std::string& name) const {
  Diag diag;
  diag.code = ErrorCode::kSchedule;
  diag.subject = program_.name;
  diag.message = "the schedule names a " + kind + " that the program lacks";
  diag.found = name;
  return diag;
}

void Placer::find_users(const ir::Block& block, ValueId owner) {
  for (ValueId id : block.nodes) {
    const Node& node = program_.node(id);
    block_of_[id] = owner;
    for (ValueId operand : node.operands) users_[operand].push_back(id);
    for (const ir::DimIndex& dim : node.region)
      if (dim.indirect >= 0) users_[dim.indirect].push_back(id);
    if (!node.label.empty()) labels_[node.label] = id;
    if (node.op == Op::kLoop) bind_steps(node);
    find_users(node.block, id);
    for (ValueId yielded : node.block.yields) users_[yielded].push_back(id);
  }
}

// What divides every value of a loop's variable, as far as rows of a tile go.
void Placer::bind_steps(const Node& loop) {
  constexpr int64_t kMost = 256;
  multiples_.bind(loop.name, std::min(multiples_.unit_of(loop.begin, kMost),
                                      multiples_.unit_of(loop.step, kMost)));
}

// ---- roles and rows ---------------------------------------------------------------------------

Status Placer::place_roles() {
  if (plan_.roles.size() != 2) {
    Diag diag = refuse(program_.node(placed_.phase), "a schedule with roles has two of them",
                       std::to_string(plan_.roles.size()), "the copying role, the computing one");
    return diag;
  }
  for (const gpu::Role& role : plan_.roles)
    for (const std::string& label : role.runs)
      if (labels_.count(label) == 0) return unknown("label", label);
  placed_.groups = plan_.roles[1].groups;
  return {};
}

Status Placer::place_rows() {
  for (const auto& [id, owner] : block_of_) {
    const Node& node = program_.node(id);
    if (node.op != Op::kMma) continue;
    std::optional<int64_t> rows = static_bound(node.shape[0]);
    if (!rows) return refuse(node, "a product needs rows bounded when it is compiled");
    const int whole = static_cast<int>((*rows + 63) / 64 * 64);
    if (placed_.tile_rows != 0 && placed_.tile_rows != whole)
      return refuse(node, "products of a phase have one number of rows", std::to_string(*rows),
                    std::to_string(placed_.tile_rows));
    placed_.tile_rows = whole;
  }
  const int share = plan_.share == gpu::Share::kRows ? placed_.groups : 1;
  if (placed_.tile_rows == 0 || placed_.tile_rows % (64 * share) != 0)
    return refuse(
        program_.node(placed_.phase), "each computing group takes blocks of 64 rows",
        std::to_string(placed_.tile_rows) + " rows for " + std::to_string(share) + " groups",
        "a multiple of " + std::to_string(64 * share));
  placed_.row_blocks = placed_.tile_rows / (64 * share);
  return {};
}

Result<Placed> place(const ir::Program& program, const gpu::Plan& plan, ValueId phase) {
  return Placer(program, plan, phase).run();
}

}  // namespace rooftile::codegen
