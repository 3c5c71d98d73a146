// SPDX-License-Identifier: Apache-2.0
// Homes: where each value of the computing groups lives, and what a product asks of its operands.
#include <algorithm>
#include <optional>

#include "rooftile/codegen/gpu/placer.h"

namespace rooftile::codegen {

using ir::Op;

int Placer::total_weight(ValueId id) {
  const Node& node = program_.node(id);
  if (node.op != Op::kElementwise && node.op != Op::kSelect && node.op != Op::kCast) return 0;
  int weight = node.op == Op::kElementwise ? ir::ew_info(node.ew).weight : 1;
  for (ValueId operand : node.operands)
    if (tile_class(program_.node(operand)) == TileClass::kMatrix &&
        placed_.values[operand].home == Home::kInline)
      weight += total_weight(operand);
  return weight;
}

bool Placer::is_left_operand(ValueId id) const {
  auto it = users_.find(id);
  if (it == users_.end()) return false;
  return std::any_of(it->second.begin(), it->second.end(), [&](ValueId user) {
    const Node& node = program_.node(user);
    if (node.op == Op::kMma) return node.operands[0] == id;
    return widens_bytes(program_, node) && is_left_operand(user);
  });
}

// Whether `id` lies between the carried sum and the accumulator operand of `product`.
bool Placer::accumulator_path(const Node& product, ValueId id) const {
  if (product.operands.size() != 3) return false;
  ValueId at = product.operands[2];
  while (program_.node(at).op != Op::kCarried) {
    if (at == id) return true;
    for (ValueId operand : program_.node(at).operands)
      if (tile_class(program_.node(operand)) == TileClass::kMatrix) at = operand;
  }
  return at == id;
}

std::string Placer::fresh(const std::string& stem) {
  const int count = names_[stem]++;
  return count == 0 ? stem : stem + std::to_string(count);
}

// The carried value whose registers hold the sum that `id` starts from: `id` itself, or reached
// through element-wise operations of one use each.
ValueId Placer::accumulator_root(ValueId id) const {
  while (true) {
    const Node& node = program_.node(id);
    if (node.op == Op::kCarried) return id;
    if (node.op != Op::kElementwise || users_.at(id).size() != 1) return -1;
    ValueId next = -1;
    for (ValueId operand : node.operands)
      if (tile_class(program_.node(operand)) == TileClass::kMatrix) {
        if (next >= 0) return -1;
        next = operand;
      }
    if (next < 0) return -1;
    id = next;
  }
}

Status Placer::place_values(const ir::Block& block) {
  for (ValueId id : block.nodes) {
    const Node& node = program_.node(id);
    if (node.op == Op::kLoop) RT_RETURN_IF_ERROR(place_carries(node));
    if (node.op == Op::kTiles) return refuse(node, "parallel spaces do not nest");
    if (node.has_value()) RT_RETURN_IF_ERROR(place_value(node));
    RT_RETURN_IF_ERROR(place_values(node.block));
    behind_split_ |= id == placed_.split.loop;
  }
  return {};
}

// Carried values get registers before the body is looked at, since the body's products sum there.
// A loop that goes on where another ended keeps its registers.
Status Placer::place_carries(const Node& loop) {
  for (size_t i = 0; i < loop.operands.size(); ++i) {
    const Node& init = program_.node(loop.operands[i]);
    std::string reg;
    if (init.op == Op::kResult && users_.at(init.id).size() == 1)
      reg = carries_.at({init.operands[0], init.axis});
    else
      reg = fresh(tile_class(init) == TileClass::kMatrix ? "acc" : "carry");
    carries_[{loop.id, static_cast<int>(i)}] = reg;
  }
  return {};
}

// Whether all that asks for a value is the copying role, to find rows.
bool Placer::only_indexes(ValueId id) const {
  const auto users = users_.find(id);
  if (users == users_.end()) return false;
  return std::all_of(users->second.begin(), users->second.end(), [&](ValueId user) {
    const bool passes_on =
        program_.node(user).block.nodes.empty();  // what leaves a region does not
    return ring_of(user) != nullptr || (passes_on && only_indexes(user));
  });
}

Status Placer::place_value(const Node& node) {
  PlacedValue& value = placed_.values[node.id];
  if (behind_split_) value.parts = placed_.split.owners;
  const TileClass shape = tile_class(node);
  if (only_indexes(node.id)) return {};  // evaluated by who copies
  if (shape == TileClass::kOther)
    return refuse(node, "the fragment way takes scalars and tiles of two axes",
                  std::to_string(node.shape.size()) + " axes", "0 or 2");
  switch (node.op) {
    case Op::kFill:
    case Op::kScalar:
    case Op::kFromIndex:
    case Op::kIota:
      value.home = Home::kInline;
      return {};
    case Op::kCarried:
    case Op::kResult:
      value.home = shape == TileClass::kMatrix ? Home::kFragment
                   : shape == TileClass::kRow  ? Home::kRow
                                               : Home::kScalar;
      value.reg = carries_.at({node.operands[0], node.axis});
      if (node.op == Op::kResult && placed_.split.over_cluster() &&
          node.operands[0] == placed_.split.loop)
        value.reg = fresh("joined");
      return shape == TileClass::kColumn ? refuse(node, "a loop cannot carry a row of columns")
                                         : Status();
    case Op::kLoad:
      if (ring_of(node.id) != nullptr) {
        value.home = Home::kRing;
      } else if (shape == TileClass::kScalar) {
        value.home = Home::kScalar;
        value.reg = fresh(node.label.empty() ? "loaded" : "v_" + node.label);
      }
      return {};
    case Op::kTranspose:
      if (placed_.values[node.operands[0]].home != Home::kRing)
        return refuse(node, "only a copied tile can be read transposed");
      value.home = Home::kRing;
      return {};
    case Op::kMma:
      return place_product(node, value);
    case Op::kReduce:
      if (shape != TileClass::kRow || node.axis != 1 ||
          (node.reduce != ir::ReduceKind::kSum && node.reduce != ir::ReduceKind::kMax &&
           node.reduce != ir::ReduceKind::kMin))
        return refuse(node, "the fragment way reduces along rows, by sum, maximum or minimum");
      value.home = Home::kRow;
      value.reg = fresh("row_" + std::string(ir::reduce_name(node.reduce)));
      return {};
    case Op::kElementwise:
    case Op::kSelect:
    case Op::kCast:
      return place_map(node, shape, value);
    default:
      return refuse(node, "this operation has no place in the fragment way");
  }
}

// A widening of a copied tile of 8-bit floats, read by products that take the bytes.
bool Placer::is_widened_operand(const Node& node) const {
  if (node.op != Op::kCast || ring_of(source(node.id)) == nullptr) return false;
  const std::vector<ValueId>& users = users_.at(node.id);
  return std::all_of(users.begin(), users.end(), [&](ValueId user) {
    const Node& reader = program_.node(user);
    if (reader.op == Op::kTranspose) return is_widened_operand_of(reader.id);
    return takes_bytes(reader);
  });
}
bool Placer::is_widened_operand_of(ValueId transpose) const {
  const auto users = users_.find(transpose);
  if (users == users_.end()) return true;  // swapping the product has taken its place
  return std::all_of(users->second.begin(), users->second.end(),
                     [&](ValueId user) { return takes_bytes(program_.node(user)); });
}
bool Placer::takes_bytes(const Node& node) const {
  auto it = plan_.product.find(node.label);
  return node.op == Op::kMma && it != plan_.product.end() && it->second.bytes;
}

Status Placer::place_map(const Node& node, TileClass shape, PlacedValue& value) {
  if (is_widened_operand(node)) {
    value.home = Home::kRing;
    return {};
  }
  if (shape == TileClass::kMatrix && is_left_operand(node.id)) {
    if (node.op != Op::kCast || size_bytes(node.dtype) != 2)
      return refuse(node, "a left operand in registers is a cast to a 16-bit type");
    value.home = Home::kOperand;
    value.reg = fresh("frag");
    return {};
  }
  if (shape == TileClass::kMatrix) {
    if (users_[node.id].size() > 1 && total_weight(node.id) >= 8) {
      if (placed_.split.owners > 1 && !behind_split_)
        return refuse(node, "a value before a split loop has other columns than those behind it",
                      "kept in registers", "computed behind the loop");
      value.home = Home::kFragment;
      value.reg = fresh(node.label.empty() ? "kept" : "v_" + node.label);
    }
    return {};
  }
  if (shape == TileClass::kColumn) return {};
  value.home = shape == TileClass::kRow ? Home::kRow : Home::kScalar;
  value.reg = fresh(shape == TileClass::kRow ? "rows" : "scalar");
  return {};
}

Status Placer::place_product(const Node& node, PlacedValue& value) {
  value.home = Home::kFragment;
  auto it = plan_.product.find(node.label);
  if (it == plan_.product.end())
    return refuse(node, "the schedule does not say how this product is computed", "",
                  "an entry in `product`");
  if (it->second.unit != gpu::Unit::kWgmma)
    return refuse(node, "the fragment way multiplies with wgmma");
  const ValueId b = source(node.operands[1]);
  const bool a_in_registers = placed_.values[node.operands[0]].home == Home::kOperand;
  if (!a_in_registers && placed_.values[node.operands[0]].home != Home::kRing)
    return refuse(node, "the left operand is neither in a ring nor in registers");
  if (placed_.values[node.operands[1]].home != Home::kRing)
    return refuse(node, "the right operand is not in a ring");
  const std::optional<int64_t> columns = static_bound(node.shape[1]);
  if (!columns || *columns % 8 != 0 || *columns > 256)
    return refuse(node, "columns of a product come in eights, 256 at most", node.shape[1].str(),
                  "a static multiple of 8 up to 256");
  RT_RETURN_IF_ERROR(check_major(node, b));
  RT_RETURN_IF_ERROR(check_contraction(node, b));
  if (node.operands.size() == 3) {
    const ValueId root = accumulator_root(node.operands[2]);
    if (root < 0) return refuse(node, "a product sums into a value that a loop carries");
    value.reg = placed_.values[root].reg;
  } else {
    value.reg = fresh(node.label.empty() ? "product" : "v_" + node.label);
  }
  return {};
}

// 8-bit operands are read along the contraction only.
Status Placer::check_major(const Node& node, ValueId b) {
  const bool along_k = is_transposed(program_, node.operands[1]);
  if (!along_k && size_bytes(program_.node(b).dtype) == 1)
    return refuse(node, "8-bit operands of wgmma lie along the contraction", "columns contiguous",
                  "a right operand that is transposed");
  return {};
}

// What a short tile leaves in shared memory along the contraction must be zero: the copy engine
// writes zeros beyond the tensor, and only there.
Status Placer::check_contraction(const Node& node, ValueId b) {
  const Node& load = program_.node(b);
  const int axis = is_transposed(program_, node.operands[1]) ? 1 : 0;
  for (size_t d = 0; d < load.region.size(); ++d) {
    const ir::DimIndex& dim = load.region[d];
    if (dim.tile_axis != axis) continue;
    if (dim.kind == ir::DimIndex::kIndirect && !load.shape[0].is_const()) clear_rows(load.id);
    if (dim.kind != ir::DimIndex::kRange) continue;
    const Expr size = program_.tensor(load.name)->shape[d];
    if (dim.extent.is_const() || dim.extent.same_as(size)) return {};
    if (dim.extent.kind() == ExprKind::kMin)
      for (const Expr& arm : dim.extent.args())
        if (arm.same_as(size - dim.begin)) return {};
    if (axis == 0) {
      clear_rows(load.id);
      return {};
    }
    return refuse(load, "a short tile must end where its tensor ends, so that zeros follow",
                  dim.extent.str(), "min(block, " + (size - dim.begin).str() + ")");
  }
  return {};
}

void Placer::clear_rows(ValueId load) {
  for (PlacedRing& ring : placed_.rings)
    for (std::vector<PlacedCopy>& copies : ring.alternatives)
      for (PlacedCopy& copy : copies)
        // Threads fill the rows that a short tile lacks with zeros themselves.
        if (copy.load == load) copy.clear_rows = !copy.by_threads();
}

}  // namespace rooftile::codegen
