// SPDX-License-Identifier: Apache-2.0
// Phases with products: tiles of bounded size, each element at a fixed place.
//
// Threads form a grid of ty rows and tx columns; thread (ty, tx) owns the elements (ty + i * rows
// of the grid, tx + j * columns of the grid) of every tile, in registers when the tile is kept:
// sums of products, carried tiles, and what would be expensive to compute twice. [R, 1] tiles have
// one register a row, alike in all threads of the row. Everything else is computed where it is
// used.
#include <algorithm>

#include "rooftile/codegen/gpu/strips.h"

namespace rooftile::codegen {

using ir::Node;
using ir::Op;
using lanes::Ty;
using lanes::Val;

namespace {

constexpr int kExpensive = 8;        // weight from which a value with two uses is kept
constexpr int kMostRegisters = 256;  // of one tile in one thread; more cannot be meant

int ceil_of(int a, int b) { return (a + b - 1) / b; }

}  // namespace

void Strips::choose_grid_of_threads(const ir::Block& block) {
  mma_ = wants_tensor_cores();
  if (mma_) return choose_grid_of_warps(block);
  int64_t tallest = 1;
  const auto visit = [&](auto&& self, const ir::Block& b) -> void {
    for (ValueId id : b.nodes) {
      const Node& n = node(id);
      if (n.op == Op::kMma) tallest = std::max(tallest, most(n.shape[0]).value_or(1));
      self(self, n.block);
    }
  };
  visit(visit, block);
  // Rows of 16 threads, or of 32 where there are too few rows for all threads.
  columns_of_threads_ = threads_ % 32 == 0 && tallest >= threads_ / 16 ? 16 : 32;
  ty_ = declare(Ty::kI32, "ty", lanes::floor_div(tid(), Val(columns_of_threads_)));
  tx_ = declare(Ty::kI32, "tx", lanes::floor_mod(tid(), Val(columns_of_threads_)));
  note("threads " + std::to_string(threads_ / columns_of_threads_) + " x " +
       std::to_string(columns_of_threads_));
}

// Thread (ty, tx) owns every so many rows and columns; or, by tensor cores, pairs: rows r and r + 8
// of a block of 16, two neighbouring columns of a block of 8.
Val Strips::row_at(const Val& i) const {
  const int down = threads_ / columns_of_threads_;
  if (!mma_) return ty_ + i * Val(down);
  return ty_ + (lanes::floor_div(i, Val(2)) * Val(2 * down) + lanes::floor_mod(i, Val(2)) * Val(8));
}

Val Strips::column_at(const Val& j) const {
  if (!mma_) return tx_ + j * Val(columns_of_threads_);
  return tx_ +
         (lanes::floor_div(j, Val(2)) * Val(2 * columns_of_threads_) + lanes::floor_mod(j, Val(2)));
}

Val Strips::slot_of(const Val& i, const Val& j, const Space& space) const {
  if (!mma_) return i * Val(space.wide) + j;
  const Val block = lanes::floor_div(i, Val(2)) * Val(space.wide / 2) + lanes::floor_div(j, Val(2));
  return block * Val(4) + (lanes::floor_mod(i, Val(2)) * Val(2) + lanes::floor_mod(j, Val(2)));
}

bool Strips::space_of(const Node& n, const std::vector<Expr>& shape, Space* out) {
  if (shape.size() > 2) {
    fail(n, "a tile of more than two axes in a phase with products", shape_key(shape),
         "two axes at most");
    return false;
  }
  int64_t bounds[2] = {1, 1};
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const auto bound = most(shape[axis]);
    if (!bound || *bound > 65536) {
      fail(n, "a tile has no bounded size", shape_key(shape),
           "extents bounded by tile parameters or fixed dims",
           "fix `" + shape[axis].str() + "` in the schedule's gpu.dims, or cut it into blocks");
      return false;
    }
    bounds[axis + 2 - shape.size()] = *bound;
  }
  const int down = threads_ / columns_of_threads_;
  out->rows = static_cast<int>(std::max<int64_t>(bounds[0], 1));
  out->columns = static_cast<int>(std::max<int64_t>(bounds[1], 1));
  const int together = mma_ ? 2 : 1;  // rows and columns of a thread in one block
  out->high = together * ceil_of(out->rows, together * down);
  out->wide = together * ceil_of(out->columns, together * columns_of_threads_);
  out->row_extent = shape.size() == 2 ? size(shape[0]) : Val(1);
  out->column_extent = shape.empty() ? Val(1) : size(shape.back());
  if (out->high * out->wide <= kMostRegisters) return true;
  fail(n, "a tile is too large for the registers of its threads", shape_key(shape),
       std::to_string(kMostRegisters) + " elements a thread",
       "smaller tile parameters or more threads");
  return false;
}

// Runs `each` for every element that a thread owns; `before` and `after` around each row.
void Strips::for_tile(const Space& space, const std::vector<Expr>& shape, const EachElement& each,
                      const EachRow& before, const EachRow& after) {
  const int down = threads_ / columns_of_threads_;
  const bool rows_only = shape.size() == 2 && shape[1].is_const(1);
  const auto inside = [](const Val& at, const Val& extent, int covered) {
    return extent.is_int(covered) ? Val() : at < extent;
  };
  const auto both = [](const Val& a, const Val& b) {
    return !a.present() ? b : !b.present() ? a : a && b;
  };
  const std::string i_name = index_.unique("i"), j_name = index_.unique("j");
  const Val i = lanes::var(Ty::kI32, i_name), j = lanes::var(Ty::kI32, j_name);
  lanes::Body rows = scoped([&] {
    const Val row = name_value("row", row_at(i));
    const Val row_inside = inside(row, space.row_extent, down * space.high);
    const Val row_guard = row_inside.present() ? name_value("row_inside", row_inside) : Val();
    if (before) before(i);
    Point point;
    point.row_slot = i;
    if (rows_only) {
      point.at = {row, Val(0)};
      point.guard = row_guard;
      each(point);
    } else {
      lanes::Body columns = scoped([&] {
        const Val column = name_value("column", column_at(j));
        point.at = shape.size() == 2 ? std::vector<Val>{row, column} : std::vector<Val>{column};
        point.slot = slot_of(i, j, space);
        const Val guard =
            both(row_guard, inside(column, space.column_extent, columns_of_threads_ * space.wide));
        point.guard = guard.present() ? name_value("inside", guard) : guard;
        each(point);
      });
      emit(lanes::for_(j_name, 0, space.wide, 1, std::move(columns), lanes::Unroll::kYes));
    }
    if (after) after(i);
  });
  emit(lanes::for_(i_name, 0, space.high, 1, std::move(rows), lanes::Unroll::kYes));
}

// Addresses and barriers of what computing `values` will read.
void Strips::prepare_tile(const std::vector<ValueId>& values, const std::vector<ValueId>& stores,
                          const std::string& mapping) {
  std::set<ValueId> loads;
  for (ValueId id : values) reach_loads(id, &loads);
  order_memory(loads, stores, mapping);
  for (ValueId id : loads) prepare(node(id));
  for (ValueId id : stores) prepare(node(id));
}

// ---- values ------------------------------------------------------------------------------------

void Strips::tile_node(const Node& n) {
  switch (n.op) {
    case Op::kStore:
      return tile_store(n);
    case Op::kCarried:
    case Op::kResult: {
      const auto found = carried_.find({n.operands[0], n.axis});
      if (found != carried_.end()) fragments_[n.id] = found->second;
      break;
    }
    case Op::kMma:
      product(n);
      break;
    case Op::kReduce:
      // Along an axis of extent 1 it is the operand itself, where it is used.
      if (node(n.operands[0]).shape[static_cast<size_t>(n.axis)].is_const(1)) break;
      if (is_scalar(n))
        tile_scalar_reduce(n);
      else
        row_reduce(n);
      break;
    case Op::kScan:
      if (!is_scalar(n))
        fail(n, "a prefix in a phase with products", hint_of(n), "a phase of its own");
      break;
    default:
      tile_value(n);
      break;
  }
  if (n.op != Op::kTranspose && !is_scalar(n) && uses_.feeds_product(n.id)) stage(n.id);
}

void Strips::tile_value(const Node& n) {
  if (uses_.count(n.id) == 0) return;
  if (is_scalar(n)) {
    if (n.op == Op::kLoad) order_memory({n.id}, {}, "every thread");
    scalar(n.id);
    return;
  }
  if (n.op == Op::kLoad || uses_.count(n.id) < 2 || cost_of(n.id) < kExpensive) return;
  // A register holds the element of its own thread; a gather asks for the index of any row.
  if (uses_.feeds_index(n.id)) return;
  Space space;
  if (!space_of(n, n.shape, &space)) return;
  prepare_tile({n.id}, {}, "tile " + shape_key(n.shape));
  const Fragment f = make_fragment(n, space);
  fill_fragment(f, n.id, space);
  fragments_[n.id] = f;
}

Strips::Fragment Strips::make_fragment(const Node& n, const Space& space) {
  Fragment f;
  f.type = register_type(n.dtype);
  f.row = n.shape.size() == 2 && n.shape[1].is_const(1);
  f.count = f.row ? space.high : space.high * space.wide;
  f.name = declare_array(f.type, hint_of(n), f.count);
  note("registers " + f.name + ": " + shape_key(n.shape) + ", " + std::to_string(f.count) +
       " a thread");
  return f;
}

void Strips::fill_fragment(const Fragment& f, ValueId from, const Space& space) {
  prepare_tile({from}, {}, "tile " + shape_key(node(from).shape));
  for_tile(space, node(from).shape, [&](const Point& at) {
    emit(lanes::assign(f.name, f.row ? at.row_slot : at.slot, eval(from, at)[0]));
  });
}

// ---- reductions --------------------------------------------------------------------------------

void Strips::row_reduce(const Node& n) {
  const ValueId from = n.operands[0];
  const Node& operand = node(from);
  Space space, result;
  if (operand.shape.size() != 2 || n.axis != 1) {
    fail(n, "a reduction down the columns in a phase with products", shape_key(operand.shape),
         "reductions along rows, or a phase of its own");
    return;
  }
  if (!space_of(n, operand.shape, &space) || !space_of(n, n.shape, &result)) return;
  prepare_tile({from}, {}, "tile " + shape_key(operand.shape));
  const Fragment f = make_fragment(n, result);
  Reduction r;
  for_tile(
      space, operand.shape,
      [&](const Point& at) { accumulate(&r, eval(from, at)[0], at.at[1], at.guard); },
      [&](const Val&) { r = start(n.id); },
      [&](const Val& slot) {
        join_warp(&r, columns_of_threads_);
        emit(lanes::assign(f.name, slot, r.position.present() ? r.position : r.value));
      });
  fragments_[n.id] = f;
}

void Strips::tile_scalar_reduce(const Node& n) {
  const ValueId from = n.operands[0];
  const Node& operand = node(from);
  Space space;
  if (!space_of(n, operand.shape, &space)) return;
  prepare_tile({from}, {}, "tile " + shape_key(operand.shape));
  std::vector<Reduction> reductions = {start(n.id)};
  const bool rows_only = operand.shape.size() == 2 && operand.shape[1].is_const(1);
  const auto axis = static_cast<size_t>(n.axis);
  for_tile(space, operand.shape, [&](const Point& at) {
    // A row's register is in all threads of the row, and counts once.
    Val guard = at.guard;
    if (rows_only) {
      const Val first = lanes::equal(tx_, 0);
      guard = guard.present() ? guard && first : first;
    }
    accumulate(&reductions[0], eval(from, at)[0], at.at[axis], guard);
  });
  join(&reductions);
  const Reduction& r = reductions[0];
  remember(n.id, point_of(n.shape, {}), {r.position.present() ? r.position : r.value});
}

// ---- stores ------------------------------------------------------------------------------------

void Strips::tile_store(const Node& n) {
  const ValueId value = n.operands[0];
  const std::vector<Expr>& shape = node(value).shape;
  if (walked(shape).empty()) return scalar_stores({{n.id, 0, shape}}, 0);
  Space space;
  if (!space_of(n, shape, &space)) return;
  std::set<ValueId> loads;
  reach_loads(value, &loads);
  for (ValueId load : loads)
    if (may_alias(program_, node(load).name, n.name) && meeting(node(load), n) == Meeting::kUnknown)
      fail(n, "a store overwrites elements that other threads still read", n.name,
           "the region that is read, or one apart from it");
  std::vector<ValueId> values = {value};
  for (const ir::DimIndex& dim : n.region)
    if (dim.kind == ir::DimIndex::kIndirect) values.push_back(dim.indirect);
  prepare_tile(values, {n.id}, "tile " + shape_key(shape));
  const bool rows_only = shape.size() == 2 && shape[1].is_const(1);
  for_tile(space, shape, [&](Point at) {
    if (rows_only) {
      const Val first = lanes::equal(tx_, 0);
      at.guard = name_value("inside", at.guard.present() ? at.guard && first : first);
    }
    const Vec values_now = eval(value, at);
    store(n, at, values_now);
  });
  stored_.push_back(n.id);
  note("store " + n.name + " " + shape_key(shape));
}

}  // namespace rooftile::codegen
