// SPDX-License-Identifier: Apache-2.0
// Values of a computing group: elements on demand, values kept in registers, reductions along rows,
// carried values.
#include <algorithm>
#include <functional>
#include <set>

#include "rooftile/codegen/gpu/element_ops.h"
#include "rooftile/codegen/gpu/fragment_lowering.h"
#include "rooftile/codegen/gpu/place.h"
#include "rooftile/ir/mask.h"

namespace rooftile::codegen {

using ir::Node;
using ir::Op;
using lanes::Ins;
using lanes::Ty;
using lanes::Val;

namespace {

Val halves(const Val& q) { return lanes::floor_div(q, 2); }

}  // namespace

int FragmentLowering::columns(ValueId id) const {
  const auto wide = static_cast<int>(static_bound(program_.node(id).shape[1]).value_or(0));
  return wide / placed_.values.at(id).parts;
}

bool FragmentLowering::is_fast(const Node& node) const {
  const gpu::Labels& fast = placed_.plan.fast;
  return !node.label.empty() && std::find(fast.begin(), fast.end(), node.label) != fast.end();
}

void FragmentLowering::declare_registers(Body& out) {
  std::set<std::string> declared;
  for (const auto& [id, value] : placed_.values) {
    if (value.reg.empty() || !declared.insert(value.reg).second) continue;
    const Node& node = program_.node(id);
    const Ty type = value.home == Home::kOperand ? Ty::kU32 : register_type(node.dtype);
    switch (value.home) {
      case Home::kFragment:
        out.push_back(lanes::decl_array(type, value.reg, placed_.row_blocks * columns(id) / 2));
        break;
      case Home::kOperand:
        out.push_back(lanes::decl_array(type, value.reg, placed_.row_blocks * columns(id) / 4));
        break;
      case Home::kRow:
        out.push_back(lanes::decl_array(type, value.reg, 2 * placed_.row_blocks));
        break;
      case Home::kScalar:
        out.push_back(lanes::decl(type, value.reg));
        break;
      default:
        break;
    }
  }
  // Which staging buffer is next: buffers go round over all tiles, as the copies that read them do.
  for (const auto& [label, copy] : placed_.plan.copy)
    if (copy.staging_buffers > 1) out.push_back(lanes::decl(Ty::kI32, "chunk_" + label, 0));
}

// Row or column of an element inside its tile.
Val FragmentLowering::coordinate(int axis, const Pos& at) const {
  if (axis == 1) {
    const Val column = reg_i32("column") + at.j * 8 + lanes::floor_mod(at.q, 2);
    return behind_split_ && placed_.split.owners > 1 ? reg_i32("part_column") + column : column;
  }
  const Val half = at.q.present() ? halves(at.q) : at.half;
  return reg_i32("row") + at.mb * 64 + half * 8;
}

// Whether the element lies inside a tile that may be short; absent: it always does.
Val FragmentLowering::inside(const Node& node, const Pos& at, Body& out) {
  Val all;
  for (int axis = 0; axis < 2; ++axis) {
    const Expr& extent = node.shape[static_cast<size_t>(axis)];
    const bool whole =
        axis == 0 ? extent.is_const(placed_.tile_rows) || extent.is_const(1) : extent.is_const();
    if (whole || (axis == 1 && !at.j.present())) continue;
    const Val ok = coordinate(axis, at) < lanes::cast(Ty::kI32, index_.number(extent, out));
    all = all.present() ? all && ok : ok;
  }
  return all;
}

Val FragmentLowering::element(ValueId id, const Pos& at, Body& out) {
  const Node& node = program_.node(id);
  const PlacedValue& value = placed_.values.at(id);
  const Ty type = register_type(node.dtype);
  switch (id == computing_ ? Home::kInline : value.home) {
    case Home::kFragment: {
      const int groups = columns(id) / 8;
      return lanes::elem(type, value.reg, (at.mb * groups + at.j) * 4 + at.q);
    }
    case Home::kRow:
      return lanes::elem(type, value.reg, at.mb * 2 + (at.q.present() ? halves(at.q) : at.half));
    case Home::kScalar:
      return lanes::var(type, value.reg);
    case Home::kOperand:
    case Home::kRing:
      refuse(node, "a value in operand form or in a ring is read by products only");
      return element_fill(node.dtype, 0);
    case Home::kInline:
      break;
  }
  switch (node.op) {
    case Op::kFill:
      return element_fill(node.dtype, node.number);
    case Op::kScalar:
      return lanes::param(Ty::kF32, node.name);
    case Op::kFromIndex:
      return lanes::cast(Ty::kI64, index_.number(node.expr, out));
    case Op::kIota: {
      const Val begin = lanes::cast(Ty::kI32, index_.number(node.expr, out));
      return node.shape[static_cast<size_t>(node.axis)].is_const(1)
                 ? begin
                 : begin + coordinate(node.axis, at);
    }
    case Op::kLoad:
      return load_element(node, at, out);
    case Op::kElementwise: {
      std::vector<Val> operands;
      for (ValueId operand : node.operands) operands.push_back(element(operand, at, out));
      return element_op(node.ew, node.dtype, operands, is_fast(node));
    }
    case Op::kSelect:
      if (open_.count(id) > 0) return element(node.operands[1], at, out);
      if (const auto masked = in_place_.find(id); masked != in_place_.end())
        return lanes::elem(type, masked->second, (at.mb * (columns(id) / 8) + at.j) * 4 + at.q);
      return lanes::select(element(node.operands[0], at, out), element(node.operands[1], at, out),
                           element(node.operands[2], at, out));
    case Op::kCast:
      return element_cast(program_.node(node.operands[0]).dtype, node.dtype,
                          element(node.operands[0], at, out));
    default:
      refuse(node, "this value has no element in the fragment way");
      return element_fill(node.dtype, 0);
  }
}

lanes::GlobalRef FragmentLowering::region(const Node& node, const Val& row, const Val& column,
                                          Body& out) {
  lanes::GlobalRef global{.tensor = node.name};
  for (const ir::DimIndex& dim : node.region) {
    if (dim.kind == ir::DimIndex::kIndirect) {
      refuse(node, "an indirect region has no place in the fragment way");
      continue;
    }
    Val at = index_.number(dim.begin, out);
    const Val offset = dim.tile_axis == 0 ? row : dim.tile_axis == 1 ? column : Val(0);
    if (dim.tile_axis >= 0) {
      const Val step = offset * static_cast<int>(dim.step);
      at = at.type() == Ty::kI64 ? at + lanes::cast(Ty::kI64, step) : at + step;
    }
    global.index.push_back(at);
  }
  return global;
}

Val FragmentLowering::load_element(const Node& node, const Pos& at, Body& out) {
  const TileClass shape = tile_class(node);
  const bool rows = shape == TileClass::kRow || shape == TileClass::kMatrix;
  const bool cols = shape == TileClass::kColumn || shape == TileClass::kMatrix;
  lanes::Instr load;
  load.ins = Ins::kLdGlobal;
  load.dtype = node.dtype;
  if (node.shape.size() == 2) load.guard = inside(node, at, out);
  load.global =
      region(node, rows ? coordinate(0, at) : Val(0), cols ? coordinate(1, at) : Val(0), out);
  const RawRegisters raw = raw_registers(node.dtype, 1);
  const std::string name = index_.unique(node.label.empty() ? "x" : node.label + "_raw");
  load.results = {{name, {}, 1}};
  out.push_back(lanes::decl(raw.type, name, lanes::cast(raw.type, Val(0))));
  out.push_back(lanes::instr(std::move(load)));
  return unpack_element(node.dtype, name, 1, 0);
}

// ---- values in registers
// ---------------------------------------------------------------------------

// The selects that `id` is computed through, but for those with registers of their own.
void FragmentLowering::inline_masks(ValueId id, bool root, std::set<ValueId>& selects) const {
  const Node& node = program_.node(id);
  const auto value = placed_.values.find(id);
  if (!root && (value == placed_.values.end() || value->second.home != Home::kInline)) return;
  if (node.op == Op::kSelect && node.shape.size() == 2) selects.insert(id);
  if (node.op != Op::kElementwise && node.op != Op::kSelect && node.op != Op::kCast &&
      !(root && node.op == Op::kReduce))
    return;
  for (ValueId operand : node.operands) inline_masks(operand, false, selects);
}

// What `id` equals where the masks in `open_` hide nothing.
ValueId FragmentLowering::behind_open_masks(ValueId id) const {
  while (open_.count(id) > 0) id = program_.node(id).operands[1];
  return id;
}

// The product that all of `select` is computed from, if nothing else reads it and every value that
// is computed through `select` meets no other mask: then all of them ask the same condition.
std::optional<ValueId> FragmentLowering::product_behind(ValueId select) const {
  std::vector<ValueId> products;
  std::set<ValueId> seen;
  const std::function<void(ValueId)> walk = [&](ValueId id) {
    const Node& node = program_.node(id);
    if (tile_class(node) != TileClass::kMatrix || !seen.insert(id).second) return;
    if (node.op == Op::kMma) return products.push_back(id);
    if (placed_.values.at(id).home == Home::kInline)
      for (ValueId operand : node.operands) walk(operand);
  };
  walk(program_.node(select).operands[1]);
  if (products.size() != 1 || placed_.values.at(products[0]).home != Home::kFragment ||
      register_type(program_.node(products[0]).dtype) != register_type(program_.node(select).dtype))
    return std::nullopt;
  for (const Node& node : program_.nodes) {
    const bool part = seen.count(node.id) > 0 || node.id == select;
    std::set<ValueId> masks;
    std::vector<ValueId> read = node.operands;
    read.insert(read.end(), node.block.yields.begin(), node.block.yields.end());
    for (ValueId operand : read) {
      if (seen.count(operand) > 0 && !part) return std::nullopt;
      inline_masks(operand, false, masks);
    }
    if (masks.count(select) == 0) continue;
    const auto value = placed_.values.find(node.id);
    const bool passes_on = value != placed_.values.end() && value->second.home == Home::kInline;
    const bool computed = node.op == Op::kElementwise || node.op == Op::kSelect ||
                          node.op == Op::kCast || node.op == Op::kReduce;
    if (!passes_on && (!computed || masks.size() > 1)) return std::nullopt;
  }
  return products[0];
}

// The elements of `select` into the registers of its product.
void FragmentLowering::mask_in_place(ValueId select, Body& out) {
  const std::optional<ValueId> product = product_behind(select);
  if (!product) return;
  const PlacedValue& registers = placed_.values.at(*product);
  assign_all(select, registers, select, out);
  in_place_[select] = registers.reg;
}

// Where all masks hide nothing and the tile is not short, which a few scalar operations tell, a
// value is computed without them: that is so in most of the blocks of causal attention.
void FragmentLowering::compute(ValueId id, Body& out) {
  std::set<ValueId> selects, open;
  inline_masks(id, true, selects);
  Expr plain = 1;
  for (ValueId select : selects) {
    const std::optional<Expr> all =
        ir::holds_everywhere(program_, program_.node(select).operands[0]);
    if (!all) continue;
    open.insert(select);
    plain = plain.is_const(1) ? *all : plain && *all;
  }
  if (open.empty()) return compute_here(id, out);
  const Node& masked_tile = program_.node(*open.begin());
  if (!masked_tile.shape[1].is_const())
    plain = plain && Expr(columns(masked_tile.id)) <= masked_tile.shape[1];
  const Val no_mask = index_.named_condition("unmasked", plain, out);
  Body masked, whole;
  index_.push_scope();
  columns_here_ = Columns::kShort;
  for (ValueId select : open)
    if (in_place_.count(select) == 0) mask_in_place(select, masked);
  compute_here(id, masked);
  index_.pop_scope();
  index_.push_scope();
  columns_here_ = Columns::kWhole;
  open_.swap(open);
  compute_here(id, whole);
  open_.clear();
  columns_here_ = Columns::kAsk;
  index_.pop_scope();
  out.push_back(lanes::if_(no_mask, std::move(whole), std::move(masked), true));
}

void FragmentLowering::compute_here(ValueId id, Body& out) {
  const Node& node = program_.node(id);
  const PlacedValue& value = placed_.values.at(id);
  if (node.op == Op::kReduce) return reduce(node, out);
  if (value.home == Home::kOperand) {
    const int steps = columns(id) / 16;
    const Val mb = reg_i32("block"), kk = reg_i32("deep"), r = reg_i32("reg");
    Pos at{mb, kk * 2 + lanes::floor_div(r, 2), lanes::floor_mod(r, 2) * 2, {}};
    Body body;
    Val pair = packed_pair(id, node.dtype, at, body);
    body.push_back(lanes::assign(value.reg, (mb * steps + kk) * 4 + r, pair));
    out.push_back(loop_over("block", placed_.row_blocks,
                            {loop_over("deep", steps, {loop_over("reg", 4, std::move(body))})}));
    return;
  }
  computing_ = id;  // its element is now what it is computed from
  assign_all(id, value, id, out);
  computing_ = -1;
  if (value.home == Home::kFragment) clear_short(id, out);
}

// reg[...] = element of `from`, over all elements of a value shaped like `shape_of`.
void FragmentLowering::assign_all(ValueId from, const PlacedValue& to, ValueId shape_of,
                                  Body& out) {
  const Val mb = reg_i32("block"), j = reg_i32("eight"), q = reg_i32("quad"),
            half = reg_i32("half");
  Body body;
  switch (to.home) {
    case Home::kFragment: {
      const int groups = columns(shape_of) / 8;
      const Val value = element(from, {mb, j, q, {}}, body);
      body.push_back(lanes::assign(to.reg, (mb * groups + j) * 4 + q, value));
      out.push_back(
          loop_over("block", placed_.row_blocks,
                    {loop_over("eight", groups, {loop_over("quad", 4, std::move(body))})}));
      return;
    }
    case Home::kRow: {
      const Val value = element(from, {mb, {}, {}, half}, body);
      body.push_back(lanes::assign(to.reg, mb * 2 + half, value));
      out.push_back(
          loop_over("block", placed_.row_blocks, {loop_over("half", 2, std::move(body))}));
      return;
    }
    case Home::kScalar: {
      const Val value = element(from, {}, out);
      out.push_back(lanes::assign(to.reg, value));
      return;
    }
    default:
      refuse(program_.node(from), "this value has no registers");
  }
}

// Columns beyond a short tile: what sums and products read there must be zero.
void FragmentLowering::clear_short(ValueId id, Body& out) {
  const Node& node = program_.node(id);
  if (node.shape[1].is_const() || columns_here_ == Columns::kWhole) return;
  const PlacedValue& value = placed_.values.at(id);
  const int groups = columns(id) / 8;
  const Val mb = reg_i32("block"), j = reg_i32("eight"), q = reg_i32("quad");
  const Val extent = lanes::cast(Ty::kI32, index_.number(node.shape[1], out));
  const Pos at{mb, j, q, {}};
  const Val here = lanes::elem(register_type(node.dtype), value.reg, (mb * groups + j) * 4 + q);
  Body body = {
      lanes::assign(value.reg, (mb * groups + j) * 4 + q,
                    lanes::select(coordinate(1, at) < extent, here, element_fill(node.dtype, 0)))};
  Body clear = {loop_over("block", placed_.row_blocks,
                          {loop_over("eight", groups, {loop_over("quad", 4, std::move(body))})})};
  if (columns_here_ == Columns::kShort) {
    for (lanes::Stmt& statement : clear) out.push_back(std::move(statement));
    return;
  }
  out.push_back(lanes::if_(extent < columns(id) * value.parts, std::move(clear), {}, true));
}

// ---- reductions along rows
// -------------------------------------------------------------------------

// A factor that is the same for the whole tile: multiplication by it keeps the order of the
// elements or turns it round, and so does its rounding, so the maximum of the products is the
// product of the maximum, or of the minimum, to the last bit.
std::optional<FragmentLowering::Scaled> FragmentLowering::scaled_by_uniform(
    const Node& node) const {
  const Node& product = program_.node(behind_open_masks(node.operands[0]));
  if (node.reduce == ir::ReduceKind::kSum || product.op != Op::kElementwise ||
      product.ew != ir::Ew::kMul || product.dtype != DType::kF32 ||
      placed_.values.at(product.id).home != Home::kInline)
    return std::nullopt;
  for (size_t side = 0; side < 2; ++side) {
    const Node& tile = program_.node(product.operands[side]);
    const Node& factor = program_.node(product.operands[1 - side]);
    if (tile_class(tile) == TileClass::kMatrix && tile_class(factor) == TileClass::kScalar)
      return Scaled{tile.id, factor.id};
  }
  return std::nullopt;
}

void FragmentLowering::reduce(const Node& node, Body& out) {
  const std::optional<Scaled> scaled = scaled_by_uniform(node);
  if (!scaled) {
    reduce_rows(node, node.reduce, behind_open_masks(node.operands[0]), out);
    return;
  }
  const Val factor = element(scaled->factor, {}, out);
  const ir::ReduceKind turned =
      node.reduce == ir::ReduceKind::kMax ? ir::ReduceKind::kMin : ir::ReduceKind::kMax;
  Body same, opposite;
  reduce_rows(node, node.reduce, scaled->tile, same);
  reduce_rows(node, turned, scaled->tile, opposite);
  out.push_back(lanes::if_(lanes::f32(0) <= factor, std::move(same), std::move(opposite), true));
  const std::string& reg = placed_.values.at(node.id).reg;
  const Val at = reg_i32("block") * 2 + reg_i32("half");
  Body scale = {lanes::assign(reg, at, lanes::elem(Ty::kF32, reg, at) * factor)};
  out.push_back(loop_over("block", placed_.row_blocks, {loop_over("half", 2, std::move(scale))}));
}

// `kind` over the rows of `from`, into the registers of `node`.
void FragmentLowering::reduce_rows(const Node& node, ir::ReduceKind kind, ValueId from, Body& out) {
  const PlacedValue& value = placed_.values.at(node.id);
  const Node& operand = program_.node(from);
  const Expr& extent = operand.shape[1];
  // A value whose short columns were cleared needs no mask in a sum.
  const bool cleared = placed_.values.at(operand.id).home == Home::kFragment &&
                       operand.op != Op::kMma && kind == ir::ReduceKind::kSum;
  if (extent.is_const() || cleared || columns_here_ == Columns::kWhole) {
    reduce_lane(kind, operand, value.reg, false, out);
  } else if (columns_here_ == Columns::kShort) {
    reduce_lane(kind, operand, value.reg, true, out);
  } else {
    Body whole, masked;
    reduce_lane(kind, operand, value.reg, false, whole);
    reduce_lane(kind, operand, value.reg, true, masked);
    const Val columns_now = lanes::cast(Ty::kI32, index_.number(extent, out));
    out.push_back(
        lanes::if_(columns_now < columns(operand.id), std::move(masked), std::move(whole), true));
  }
  if (value.partial) return;
  Body join;
  join_lanes(kind, node.dtype, value.reg, reg_i32("block") * 2 + reg_i32("half"), join);
  out.push_back(loop_over("block", placed_.row_blocks, {loop_over("half", 2, std::move(join))}));
}

void FragmentLowering::reduce_lane(ir::ReduceKind kind, const Node& operand, const std::string& reg,
                                   bool masked, Body& out) {
  const DType dtype = operand.dtype;
  const int groups = columns(operand.id) / 8;
  const Ty type = register_type(dtype);
  const Val mb = reg_i32("block"), j = reg_i32("eight"), q = reg_i32("quad"),
            half = reg_i32("half");
  Body clear = {lanes::assign(reg, mb * 2 + half, neutral(kind, dtype))};
  Body body;
  const Pos at{mb, j, q, {}};
  Val x = element(operand.id, at, body);
  if (masked) {
    const Val extent = lanes::cast(Ty::kI32, index_.number(operand.shape[1], body));
    x = lanes::select(coordinate(1, at) < extent, x, neutral(kind, dtype));
  }
  const Val slot = mb * 2 + halves(q);
  body.push_back(lanes::assign(reg, slot, combine(kind, dtype, lanes::elem(type, reg, slot), x)));
  out.push_back(loop_over("block", placed_.row_blocks,
                          {loop_over("half", 2, std::move(clear)),
                           loop_over("eight", groups, {loop_over("quad", 4, std::move(body))})}));
}

// Adds up, or compares, over the four lanes that share a row.
void FragmentLowering::join_lanes(ir::ReduceKind kind, DType dtype, const std::string& reg,
                                  const Val& index, Body& out) {
  const Ty type = register_type(dtype);
  for (int mask : {1, 2}) {
    const std::string other = index_.unique("other");
    lanes::Instr shuffle;
    shuffle.ins = Ins::kShflXor;
    shuffle.results = {{other, {}, 1}};
    shuffle.regs = {{reg, index, 1}};
    shuffle.args = {mask};
    out.push_back(lanes::decl(type, other));
    out.push_back(lanes::instr(std::move(shuffle)));
    out.push_back(lanes::assign(
        reg, index, combine(kind, dtype, lanes::elem(type, reg, index), lanes::var(type, other))));
  }
}

// ---- carried values
// --------------------------------------------------------------------------------

void FragmentLowering::init_carries(const Node& loop, Body& out) {
  for (size_t i = 0; i < loop.operands.size(); ++i) {
    ValueId carried = -1;
    for (ValueId id : loop.block.nodes) {
      const Node& node = program_.node(id);
      if (node.op == Op::kCarried && node.axis == static_cast<int>(i)) carried = id;
    }
    if (carried < 0) continue;  // nothing reads it inside
    const PlacedValue& to = placed_.values.at(carried);
    const PlacedValue& from = placed_.values.at(loop.operands[i]);
    if (from.reg == to.reg && !to.reg.empty()) continue;
    if (!starts_from_zero_product(program_, loop, i))
      assign_all(loop.operands[i], to, carried, out);
  }
}

// Sums that the first product of a loop overwrites, where the loop had no step. Behind the loop:
// ahead of it ptxas would clear them always, and wait for every product before the next.
void FragmentLowering::clear_unstarted(const Node& loop, const Val& has_steps, Body& out) {
  Body clear;
  for (size_t i = 0; i < loop.operands.size(); ++i)
    if (starts_from_zero_product(program_, loop, i)) {
      const ValueId sum = program_.node(loop.block.yields[i]).operands[2];
      assign_all(loop.operands[i], placed_.values.at(sum), sum, clear);
    }
  if (!clear.empty()) out.push_back(lanes::if_(!has_steps, std::move(clear), {}, true));
}

void FragmentLowering::yield(const Node& loop, Body& out) {
  struct Move {
    ValueId from;
    const PlacedValue* to;
    ValueId carried;
  };
  std::vector<Move> moves;
  for (ValueId id : loop.block.nodes) {
    const Node& node = program_.node(id);
    if (node.op != Op::kCarried) continue;
    const ValueId next = loop.block.yields[static_cast<size_t>(node.axis)];
    const PlacedValue& to = placed_.values.at(id);
    if (placed_.values.at(next).reg == to.reg) continue;
    moves.push_back({next, &to, id});
  }
  // All next values are complete before the first is moved, except where one is computed inline
  // from a carried value that an earlier move has replaced.
  for (size_t i = 0; i < moves.size(); ++i)
    for (size_t earlier = 0; earlier < i; ++earlier)
      if (moves[i].from == moves[earlier].carried)
        refuse(loop, "carried values that trade places are not lowered");
  for (const Move& move : moves) assign_all(move.from, *move.to, move.carried, out);
}

}  // namespace rooftile::codegen
