// SPDX-License-Identifier: Apache-2.0
// Placing: from a phase of a tile program and a Plan to roles, rings, homes and events.
//
// In order: copies and rings (each checked against what the copy engine can do), homes of values,
// then the two event trees. Whatever cannot be placed as asked is RT-P002 with the precondition
// that failed; nothing is placed some other way instead.
#include "rooftile/codegen/gpu/place.h"

#include <algorithm>
#include <optional>
#include <set>

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

namespace {

bool widens_bytes(const ir::Program& program, const Node& node) {
  return node.op == Op::kCast && size_bytes(program.node(node.operands[0]).dtype) == 1 &&
         is_narrow_float(program.node(node.operands[0]).dtype) && size_bytes(node.dtype) == 2;
}

}  // namespace

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

namespace {

std::string what(const Node& node) {
  return node.label.empty() ? "%" + std::to_string(node.id) : node.label;
}

class Placer {
 public:
  Placer(const ir::Program& program, const gpu::Plan& plan, ValueId phase)
      : program_(program), plan_(plan) {
    placed_.phase = phase;
    placed_.plan = plan;
  }

  Result<Placed> run() {
    find_users(program_.node(placed_.phase).block, placed_.phase);
    RT_RETURN_IF_ERROR(place_roles());
    for (const gpu::Ring& ring : plan_.rings) RT_RETURN_IF_ERROR(place_ring(ring));
    RT_RETURN_IF_ERROR(place_rows());
    const ir::Block& body = program_.node(placed_.phase).block;
    RT_RETURN_IF_ERROR(place_values(body));
    RT_RETURN_IF_ERROR(check_partials());
    RT_RETURN_IF_ERROR(copy_events(body, placed_.copying));
    RT_RETURN_IF_ERROR(compute_events(body, placed_.computing));
    return std::move(placed_);
  }

 private:
  Diag refuse(const Node& node, std::string message, std::string found = "",
              std::string expected = "") const {
    Diag diag;
    diag.code = ErrorCode::kPlacement;
    diag.subject = program_.name;
    diag.argument = what(node);
    diag.message = std::move(message);
    diag.found = std::move(found);
    diag.expected = std::move(expected);
    diag.at = node.loc;
    return diag;
  }
  Diag unknown(const std::string& kind, const std::string& name) const {
    Diag diag;
    diag.code = ErrorCode::kSchedule;
    diag.subject = program_.name;
    diag.message = "the schedule names a " + kind + " that the program lacks";
    diag.found = name;
    return diag;
  }

  // ---- who uses what ---------------------------------------------------------------------------

  void find_users(const ir::Block& block, ValueId owner) {
    for (ValueId id : block.nodes) {
      const Node& node = program_.node(id);
      block_of_[id] = owner;
      for (ValueId operand : node.operands) users_[operand].push_back(id);
      for (const ir::DimIndex& dim : node.region)
        if (dim.indirect >= 0) users_[dim.indirect].push_back(id);
      if (!node.label.empty()) labels_[node.label] = id;
      find_users(node.block, id);
      for (ValueId yielded : node.block.yields) users_[yielded].push_back(id);
    }
  }

  // ---- roles, rings and rows -------------------------------------------------------------------

  Status place_roles() {
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

  Status place_ring(const gpu::Ring& ring) {
    PlacedRing placed;
    placed.depth = ring.depth;
    std::map<ValueId, std::vector<PlacedCopy>> by_block;
    for (const std::string& entry : ring.copies) {
      size_t begin = 0;
      while (begin <= entry.size()) {
        const size_t end = std::min(entry.find('|', begin), entry.size());
        const std::string label = entry.substr(begin, end - begin);
        begin = end + 1;
        if (labels_.count(label) == 0) return unknown("load", label);
        Result<PlacedCopy> copy = place_copy(program_.node(labels_.at(label)));
        if (!copy.ok()) return copy.diag();
        if (placed.name.empty()) placed.name = label.substr(0, label.find('_'));
        by_block[block_of_.at(copy->load)].push_back(*copy);
      }
    }
    for (auto& [block, copies] : by_block) placed.alternatives.push_back(std::move(copies));
    for (const std::vector<PlacedCopy>& copies : placed.alternatives) {
      int bytes = 0;
      for (const PlacedCopy& copy : copies) bytes += copy.bytes();
      if (placed.slot_bytes != 0 && placed.slot_bytes != bytes)
        return refuse(program_.node(copies[0].load), "alternatives of a ring differ in size",
                      std::to_string(bytes) + " bytes", std::to_string(placed.slot_bytes));
      placed.slot_bytes = bytes;
    }
    placed_.rings.push_back(std::move(placed));
    return {};
  }

  Result<PlacedCopy> place_copy(const Node& load) {
    PlacedCopy copy;
    if (load.op != Op::kLoad) return refuse(load, "only a load can be copied into a ring");
    copy.load = load.id;
    copy.label = load.label;
    if (auto it = plan_.copy.find(load.label); it != plan_.copy.end()) copy.how = it->second;
    if (copy.how.via != gpu::Via::kTma)
      return refuse(load, "a copy into a ring goes through the copy engine", "vector", "Via::kTma");
    copy.element_bytes = size_bytes(load.dtype);
    if (load.shape.size() != 2)
      return refuse(load, "the copy engine fills tiles of two axes",
                    std::to_string(load.shape.size()) + " axes", "2");
    if (load.region.size() > 5)
      return refuse(load, "a tensor map has at most five dimensions",
                    std::to_string(load.region.size()), "5 or fewer");
    for (size_t d = 0; d < load.region.size(); ++d) {
      const ir::DimIndex& dim = load.region[d];
      const bool last = d + 1 == load.region.size();
      if (dim.kind == ir::DimIndex::kIndirect)
        return refuse(load, "an indirect dimension has no tensor map");
      if (dim.kind == ir::DimIndex::kRange && dim.step != 1)
        return refuse(load, "a tensor map walks with step 1", std::to_string(dim.step), "1");
      if (dim.kind == ir::DimIndex::kRange && (dim.tile_axis == 1) != last)
        return refuse(load, "the columns of a copied tile lie along the tensor's last dimension");
    }
    std::optional<int64_t> rows = static_bound(load.shape[0]),
                           columns = static_bound(load.shape[1]);
    if (!rows || !columns)
      return refuse(load, "a copied tile needs a bound known when it is compiled",
                    "[" + load.shape[0].str() + ", " + load.shape[1].str() + "]",
                    "extents bounded by tile parameters or by dims that the schedule fixes");
    copy.rows = static_cast<int>(*rows);
    // Left operands fill whole instructions; rows that are too many are computed and dropped.
    if (is_left_operand(load.id)) copy.rows = (copy.rows + 63) / 64 * 64;
    copy.columns = static_cast<int>(*columns);
    if (copy.rows > 256 || copy.rows % 8 != 0)
      return refuse(load, "rows of a copied tile come in eights, 256 at most",
                    std::to_string(copy.rows), "a multiple of 8 up to 256");
    if (copy.columns % copy.chunk_columns() != 0)
      return refuse(load, "columns of a copied tile come in rows of 128 bytes",
                    std::to_string(copy.columns) + " columns",
                    "a multiple of " + std::to_string(copy.chunk_columns()));
    if (copy.how.multicast) RT_RETURN_IF_ERROR(find_sharing(load, copy));
    return copy;
  }

  Status find_sharing(const Node& load, PlacedCopy& copy) {
    for (const gpu::ClusterAxis& axis : plan_.cluster) {
      std::set<std::string> symbols;
      for (const ir::DimIndex& dim : load.region) collect_symbols(dim.begin, symbols);
      if (symbols.count(axis.axis) != 0) continue;
      if (copy.rows % (8 * axis.size) != 0)
        return refuse(load, "each CTA of a cluster copies whole groups of eight rows",
                      std::to_string(copy.rows) + " rows",
                      "a multiple of " + std::to_string(8 * axis.size));
      copy.shared_axis = axis.axis;
      return {};
    }
    return refuse(load, "multicast needs a cluster axis that the load does not depend on");
  }

  const PlacedRing* ring_of(ValueId load, int* index = nullptr) const {
    for (size_t r = 0; r < placed_.rings.size(); ++r)
      if (placed_.rings[r].find(load) != nullptr) {
        if (index != nullptr) *index = static_cast<int>(r);
        return &placed_.rings[r];
      }
    return nullptr;
  }

  // The load behind a product's operand, transposes and widenings of 8-bit floats removed.
  ValueId source(ValueId id) const { return operand_source(program_, id); }

  Status place_rows() {
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

  // ---- homes -----------------------------------------------------------------------------------

  int total_weight(ValueId id) {
    const Node& node = program_.node(id);
    if (node.op != Op::kElementwise && node.op != Op::kSelect && node.op != Op::kCast) return 0;
    int weight = node.op == Op::kElementwise ? ir::ew_info(node.ew).weight : 1;
    for (ValueId operand : node.operands)
      if (tile_class(program_.node(operand)) == TileClass::kMatrix &&
          placed_.values[operand].home == Home::kInline)
        weight += total_weight(operand);
    return weight;
  }

  bool is_left_operand(ValueId id) const {
    auto it = users_.find(id);
    if (it == users_.end()) return false;
    return std::any_of(it->second.begin(), it->second.end(), [&](ValueId user) {
      const Node& node = program_.node(user);
      if (node.op == Op::kMma) return node.operands[0] == id;
      return widens_bytes(program_, node) && is_left_operand(user);
    });
  }

  // Whether `id` lies between the carried sum and the accumulator operand of `product`.
  bool accumulator_path(const Node& product, ValueId id) const {
    if (product.operands.size() != 3) return false;
    ValueId at = product.operands[2];
    while (program_.node(at).op != Op::kCarried) {
      if (at == id) return true;
      for (ValueId operand : program_.node(at).operands)
        if (tile_class(program_.node(operand)) == TileClass::kMatrix) at = operand;
    }
    return at == id;
  }

  std::string fresh(const std::string& stem) {
    const int count = names_[stem]++;
    return count == 0 ? stem : stem + std::to_string(count);
  }

  // The carried value whose registers hold the sum that `id` starts from: `id` itself, or reached
  // through element-wise operations of one use each.
  ValueId accumulator_root(ValueId id) const {
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

  Status place_values(const ir::Block& block) {
    for (ValueId id : block.nodes) {
      const Node& node = program_.node(id);
      if (node.op == Op::kLoop) RT_RETURN_IF_ERROR(place_carries(node));
      if (node.op == Op::kTiles) return refuse(node, "parallel spaces do not nest");
      if (node.has_value()) RT_RETURN_IF_ERROR(place_value(node));
      RT_RETURN_IF_ERROR(place_values(node.block));
    }
    return {};
  }

  // Carried values get registers before the body is looked at, since the body's products sum there.
  // A loop that goes on where another ended keeps its registers.
  Status place_carries(const Node& loop) {
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

  Status place_value(const Node& node) {
    PlacedValue& value = placed_.values[node.id];
    const TileClass shape = tile_class(node);
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
  bool is_widened_operand(const Node& node) const {
    if (node.op != Op::kCast || ring_of(source(node.id)) == nullptr) return false;
    const std::vector<ValueId>& users = users_.at(node.id);
    return std::all_of(users.begin(), users.end(), [&](ValueId user) {
      const Node& reader = program_.node(user);
      if (reader.op == Op::kTranspose) return is_widened_operand_of(reader.id);
      return takes_bytes(reader);
    });
  }
  bool is_widened_operand_of(ValueId transpose) const {
    const std::vector<ValueId>& users = users_.at(transpose);
    return std::all_of(users.begin(), users.end(),
                       [&](ValueId user) { return takes_bytes(program_.node(user)); });
  }
  bool takes_bytes(const Node& node) const {
    auto it = plan_.product.find(node.label);
    return node.op == Op::kMma && it != plan_.product.end() && it->second.bytes;
  }

  Status place_map(const Node& node, TileClass shape, PlacedValue& value) {
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

  Status place_product(const Node& node, PlacedValue& value) {
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
  Status check_major(const Node& node, ValueId b) {
    const bool along_k = is_transposed(program_, node.operands[1]);
    if (!along_k && size_bytes(program_.node(b).dtype) == 1)
      return refuse(node, "8-bit operands of wgmma lie along the contraction", "columns contiguous",
                    "a right operand that is transposed");
    return {};
  }

  // What a short tile leaves in shared memory along the contraction must be zero: the copy engine
  // writes zeros beyond the tensor, and only there.
  Status check_contraction(const Node& node, ValueId b) {
    const Node& load = program_.node(b);
    const int axis = is_transposed(program_, node.operands[1]) ? 1 : 0;
    for (size_t d = 0; d < load.region.size(); ++d) {
      const ir::DimIndex& dim = load.region[d];
      if (dim.kind != ir::DimIndex::kRange || dim.tile_axis != axis) continue;
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

  void clear_rows(ValueId load) {
    for (PlacedRing& ring : placed_.rings)
      for (std::vector<PlacedCopy>& copies : ring.alternatives)
        for (PlacedCopy& copy : copies)
          if (copy.load == load) copy.clear_rows = true;
  }

  // ---- sums that stay in the lanes
  // ---------------------------------------------------------------
  //
  // A row sum, and what is linear in it along a carried value that starts from zero, may stay one
  // partial sum a lane until something else reads it (R26).

  bool is_partial(ValueId id) const {
    auto it = placed_.values.find(id);
    return it != placed_.values.end() && it->second.partial;
  }

  Status check_partials() {
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

  bool is_zero(ValueId id) const {
    const Node& node = program_.node(id);
    return node.op == Op::kFill && node.number == 0;
  }
  bool carried_from_zero(ValueId id) const {
    const Node& node = program_.node(id);
    if (node.op != Op::kCarried && node.op != Op::kResult) return false;
    const ValueId init = program_.node(node.operands[0]).operands[static_cast<size_t>(node.axis)];
    return is_zero(init) || (program_.node(init).op == Op::kResult && carried_from_zero(init));
  }
  ValueId carried(const Node& loop, size_t position) const {
    for (ValueId id : loop.block.nodes) {
      const Node& node = program_.node(id);
      if (node.op == Op::kCarried && node.axis == static_cast<int>(position)) return id;
    }
    return -1;
  }

  // Whether `user` can work on partial sums of `id`.
  bool accepts(ValueId user, ValueId id) const {
    const Node& node = program_.node(user);
    if (node.op != Op::kLoop) return node.op == Op::kElementwise && is_partial(user);
    for (size_t i = 0; i < node.operands.size(); ++i)
      if ((node.operands[i] == id || node.block.yields[i] == id) && !is_partial(carried(node, i)))
        return false;
    return true;
  }

  bool derive_partial(ValueId id, bool now) const {
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

  // ---- events of the copying role
  // ----------------------------------------------------------------

  Status copy_events(const ir::Block& block, std::vector<Event>& out) {
    std::set<int> filled;
    for (ValueId id : block.nodes) {
      const Node& node = program_.node(id);
      int ring = -1;
      if (node.op == Op::kLoad && ring_of(id, &ring) != nullptr && filled.insert(ring).second) {
        Event fill{.kind = Event::kFill, .ring = ring, .id = id};
        const auto& alternatives = placed_.rings[static_cast<size_t>(ring)].alternatives;
        for (size_t a = 0; a < alternatives.size(); ++a)
          for (const PlacedCopy& copy : alternatives[a])
            if (copy.load == id) fill.n = static_cast<int>(a);
        out.push_back(std::move(fill));
      }
      if (node.block.nodes.empty()) continue;
      Event region{.kind = node.op == Op::kLoop ? Event::kLoop : Event::kWhen, .id = id};
      RT_RETURN_IF_ERROR(copy_events(node.block, region.body));
      if (!region.body.empty()) out.push_back(std::move(region));
    }
    return {};
  }

  // ---- events of the computing role
  // --------------------------------------------------------------

  // What the computing role holds while it walks a block.
  struct Running {
    ValueId product;
    std::vector<int> rings;  // slots that this product is the last to read
  };

  std::vector<int> rings_read(const Node& product) const {
    std::vector<int> rings;
    for (int side = 0; side < 2; ++side) {
      int ring = -1;
      if (ring_of(source(product.operands[static_cast<size_t>(side)]), &ring) != nullptr &&
          std::find(rings.begin(), rings.end(), ring) == rings.end())
        rings.push_back(ring);
    }
    return rings;
  }

  // The load that `product` reads from `ring`; -1: none.
  ValueId load_in(const Node& product, int ring) const {
    for (int side = 0; side < 2; ++side) {
      const ValueId load = source(product.operands[static_cast<size_t>(side)]);
      int of = -1;
      if (ring_of(load, &of) != nullptr && of == ring) return load;
    }
    return -1;
  }

  // Slots of loads of this very block are acquired by the first product that reads them and given
  // back behind the last; others belong to an outer block.
  bool reads_in_block(const Node& product, int ring, const ir::Block& block) const {
    for (int side = 0; side < 2; ++side) {
      const ValueId load = source(product.operands[static_cast<size_t>(side)]);
      int of = -1;
      if (ring_of(load, &of) != nullptr && of == ring)
        return std::find(block.nodes.begin(), block.nodes.end(), load) != block.nodes.end();
    }
    return false;
  }

  class Sequence;
  Status compute_events(const ir::Block& block, std::vector<Event>& out);
  Status loop_events(const Node& loop, std::vector<Event>& out);
  Status sum_loop(const Node& loop, Event& event);
  Status late_loop(const Node& loop, const Node& late, Event& event);
  Status plain_loop(const Node& loop, Event& event);

  const ir::Program& program_;
  const gpu::Plan& plan_;
  Placed placed_;
  std::map<ValueId, std::vector<ValueId>> users_;
  std::map<ValueId, ValueId> block_of_;
  std::map<std::string, ValueId> labels_;
  std::map<std::pair<ValueId, int>, std::string> carries_;
  std::map<std::string, int> names_;
};

// Events of one block, in program order: products start where they stand, and are waited for where
// something first reads them; slots go back as soon as their last product is known to be over.
class Placer::Sequence {
 public:
  Sequence(Placer& placer, const ir::Block& block, std::vector<Event>& out)
      : placer_(placer), block_(block), out_(out) {}

  void issue(const Node& product) {
    Running running{product.id, {}};
    for (int ring : placer_.rings_read(product)) {
      if (!placer_.reads_in_block(product, ring, block_)) continue;
      if (acquired_.insert(ring).second) acquire(ring, placer_.load_in(product, ring));
      if (is_last_reader(product, ring)) running.rings.push_back(ring);
    }
    if (product.operands.size() == 3 &&
        placer_.program_.node(product.operands[2]).op != Op::kCarried)
      out_.push_back({.kind = Event::kRescale, .id = product.id});
    out_.push_back({.kind = Event::kIssue, .id = product.id});
    running_.push_back(std::move(running));
  }

  void acquire(int ring, ValueId load) {
    out_.push_back({.kind = Event::kAcquire, .ring = ring, .id = load});
  }

  // Waits until `product` is over (no-op if it is known to be).
  void finish(ValueId product) {
    auto it = std::find_if(running_.begin(), running_.end(),
                           [&](const Running& r) { return r.product == product; });
    if (it == running_.end()) return;
    out_.push_back({.kind = Event::kWait, .n = static_cast<int>(running_.end() - it) - 1});
    for (auto done = running_.begin(); done <= it; ++done)
      for (int ring : done->rings) out_.push_back({.kind = Event::kRelease, .ring = ring});
    running_.erase(running_.begin(), it + 1);
  }
  void finish_all() {
    if (!running_.empty()) finish(running_.back().product);
  }

  // Products whose results the registers of `id` come from must be over before it is computed.
  void needs(ValueId id) {
    const Node& node = placer_.program_.node(id);
    if (node.op == Op::kMma) return finish(id);
    const PlacedValue& value = placer_.placed_.values[id];
    if (value.home != Home::kInline && !computing_.count(id)) return;
    for (ValueId operand : node.operands)
      if (placer_.program_.node(operand).has_value()) needs(operand);
  }
  void compute(ValueId id) {
    computing_.insert(id);
    needs(id);
    computing_.erase(id);
    out_.push_back({.kind = Event::kCompute, .id = id});
  }

 private:
  bool is_last_reader(const Node& product, int ring) const {
    ValueId last = -1;
    for (ValueId id : block_.nodes) {
      const Node& node = placer_.program_.node(id);
      if (node.op != Op::kMma) continue;
      std::vector<int> rings = placer_.rings_read(node);
      if (std::find(rings.begin(), rings.end(), ring) != rings.end()) last = id;
    }
    return last == product.id;
  }

  Placer& placer_;
  const ir::Block& block_;
  std::vector<Event>& out_;
  std::set<int> acquired_;
  std::vector<Running> running_;
  std::set<ValueId> computing_;
};

Status Placer::compute_events(const ir::Block& block, std::vector<Event>& out) {
  Sequence sequence(*this, block, out);
  std::vector<int> held;  // slots of this block that deeper blocks read
  for (ValueId id : block.nodes) {
    const Node& node = program_.node(id);
    const PlacedValue& value = placed_.values[id];
    int ring = -1;
    switch (node.op) {
      case Op::kLoad:
        if (ring_of(id, &ring) != nullptr) {
          const std::vector<ValueId>& users = users_[id];
          const bool deeper = std::any_of(users.begin(), users.end(), [&](ValueId user) {
            return block_of_.at(user) != block_of_.at(id);
          });
          if (deeper) {
            sequence.acquire(ring, id);
            held.push_back(ring);
          }
        } else if (value.home == Home::kScalar) {
          sequence.compute(id);
        }
        break;
      case Op::kMma:
        sequence.needs(node.operands[0]);
        sequence.issue(node);
        break;
      case Op::kLoop:
        sequence.finish_all();
        RT_RETURN_IF_ERROR(loop_events(node, out));
        break;
      case Op::kWhen: {
        sequence.finish_all();
        Event when{.kind = Event::kWhen, .id = id};
        RT_RETURN_IF_ERROR(compute_events(node.block, when.body));
        out.push_back(std::move(when));
        break;
      }
      case Op::kStore:
        sequence.needs(node.operands[0]);
        out.push_back({.kind = Event::kStore, .id = id});
        break;
      case Op::kCarried:
        break;
      case Op::kResult:
        // Partial sums that someone outside reads whole are added up where the loop ends.
        if (value.home == Home::kRow && !value.partial &&
            is_partial(carried(program_.node(node.operands[0]), static_cast<size_t>(node.axis))))
          out.push_back({.kind = Event::kJoin, .id = id});
        break;
      default:
        if (value.home == Home::kFragment || value.home == Home::kOperand ||
            value.home == Home::kRow || value.home == Home::kScalar)
          sequence.compute(id);
    }
  }
  sequence.finish_all();
  for (int ring : held) out.push_back({.kind = Event::kRelease, .ring = ring});
  return {};
}

Status Placer::loop_events(const Node& loop, std::vector<Event>& out) {
  Event event{.kind = Event::kLoop, .id = loop.id};
  auto plan = plan_.loop.find(loop.name);
  std::vector<const Node*> products;
  bool only_sums = true;
  for (ValueId id : loop.block.nodes) {
    const Node& node = program_.node(id);
    if (node.op == Op::kMma)
      products.push_back(&node);
    else if (node.op != Op::kLoad && node.op != Op::kCarried &&
             placed_.values[id].home != Home::kRing)
      only_sums = false;
  }
  if (plan != plan_.loop.end() && !plan->second.late.empty()) {
    auto late = labels_.find(plan->second.late);
    if (late == labels_.end()) return unknown("product", plan->second.late);
    RT_RETURN_IF_ERROR(late_loop(loop, program_.node(late->second), event));
  } else if (only_sums && !products.empty()) {
    RT_RETURN_IF_ERROR(sum_loop(loop, event));
  } else {
    RT_RETURN_IF_ERROR(plain_loop(loop, event));
  }
  out.push_back(std::move(event));
  return {};
}

// Nothing reads a result before the loop has ended: products of several steps stay in flight, and a
// slot goes back that many steps late.
Status Placer::sum_loop(const Node& loop, Event& event) {
  int in_flight = 0;
  std::vector<int> rings;
  std::vector<const Node*> products;
  for (ValueId id : loop.block.nodes) {
    const Node& node = program_.node(id);
    if (node.op != Op::kMma) continue;
    products.push_back(&node);
    in_flight = plan_.product.at(node.label).in_flight;
    for (int ring : rings_read(node))
      if (std::find(rings.begin(), rings.end(), ring) == rings.end()) rings.push_back(ring);
  }
  for (int ring : rings)
    event.body.push_back(
        {.kind = Event::kAcquire, .ring = ring, .id = load_in(*products[0], ring)});
  for (const Node* product : products)
    event.body.push_back({.kind = Event::kIssue, .id = product->id});
  // `in_flight` counts steps; a step starts as many groups as it has products.
  const int groups = in_flight * static_cast<int>(products.size());
  event.body.push_back({.kind = Event::kWait, .n = groups});
  for (int ring : rings)
    event.body.push_back({.kind = Event::kRelease, .ring = ring, .n = in_flight});
  event.last.push_back({.kind = Event::kWait, .n = 0});
  for (int ring : rings)
    for (int i = 0; i < in_flight; ++i)
      event.last.push_back({.kind = Event::kRelease, .ring = ring, .n = -(i + 1)});
  return {};
}

Status Placer::plain_loop(const Node& loop, Event& event) {
  RT_RETURN_IF_ERROR(compute_events(loop.block, event.body));
  event.body.push_back({.kind = Event::kYield, .id = loop.id});
  return {};
}

// Step t: [first product of t, late product of t - 1] start together; the rest of t runs while the
// late one does. The slot of the late product's operand is awaited before the late product of the
// step before is: that wait is a branch, which keeps ptxas from moving the other wait up.
Status Placer::late_loop(const Node& loop, const Node& late, Event& event) {
  const std::vector<int> late_rings = rings_read(late);
  const ValueId operand = late.operands[0];
  if (placed_.values[operand].home != Home::kOperand || late.operands.size() != 3)
    return refuse(late, "a late product sums and takes its left operand from registers");
  for (int ring : late_rings)
    if (placed_.rings[static_cast<size_t>(ring)].depth < 2)
      return refuse(late, "a late product holds two slots of its ring", "1 slot", "2 or more");
  if (users_[late.id].size() != 1 || users_[late.id][0] != loop.id)
    return refuse(late, "the result of a late product is only carried");

  auto step = [&](bool with_late, std::vector<Event>& out) -> Status {
    bool started = false;
    for (ValueId id : loop.block.nodes) {
      const Node& node = program_.node(id);
      const Home home = placed_.values[id].home;
      if (id == late.id || id == operand || accumulator_path(late, id)) continue;
      if (node.op == Op::kMma) {
        if (started) return refuse(late, "a loop with a late product has one other product");
        started = true;
        for (int ring : rings_read(node))
          if (reads_in_block(node, ring, loop.block))
            out.push_back({.kind = Event::kAcquire, .ring = ring, .id = load_in(node, ring)});
        out.push_back({.kind = Event::kIssue, .id = id});
        if (with_late) out.push_back({.kind = Event::kIssue, .id = late.id});
        // The late product is behind it: its wait leaves that one running.
        out.push_back({.kind = Event::kWait, .n = with_late ? 1 : 0});
        for (int ring : rings_read(node))
          if (reads_in_block(node, ring, loop.block))
            out.push_back({.kind = Event::kRelease, .ring = ring});
      } else if (home == Home::kFragment || home == Home::kRow || home == Home::kScalar) {
        if (node.op != Op::kCarried && node.op != Op::kResult)
          out.push_back({.kind = Event::kCompute, .id = id});
      } else if (node.op == Op::kStore || !node.block.nodes.empty()) {
        return refuse(node, "a loop with a late product has no stores and no inner loops");
      }
    }
    for (int ring : late_rings)
      out.push_back({.kind = Event::kAcquire, .ring = ring, .id = load_in(late, ring)});
    if (with_late) {
      out.push_back({.kind = Event::kWait, .n = 0});
      for (int ring : late_rings) out.push_back({.kind = Event::kRelease, .ring = ring});
    }
    out.push_back({.kind = Event::kRescale, .id = late.id});
    out.push_back({.kind = Event::kCompute, .id = operand});
    out.push_back({.kind = Event::kYield, .id = loop.id});
    return {};
  };
  RT_RETURN_IF_ERROR(step(false, event.first));
  RT_RETURN_IF_ERROR(step(true, event.body));
  event.last.push_back({.kind = Event::kIssue, .id = late.id});
  event.last.push_back({.kind = Event::kWait, .n = 0});
  for (int ring : late_rings) event.last.push_back({.kind = Event::kRelease, .ring = ring});
  return {};
}

}  // namespace

Result<Placed> place(const ir::Program& program, const gpu::Plan& plan, ValueId phase) {
  return Placer(program, plan, phase).run();
}

}  // namespace rooftile::codegen
