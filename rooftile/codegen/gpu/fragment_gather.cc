// SPDX-License-Identifier: Apache-2.0
// Rows that are looked up: by threads, 16 bytes each, or by the copy engine, a box a run of rows.
//
// The copy engine takes rows that lie side by side (a page) as one box; one thread looks up a row a
// run. A run beyond a short tile is not looked up but asked for outside the tensor, where the
// engine reads nothing and writes zeros, so that a slot's bytes are always the same.
//
// Threads side by side take the pieces of a row: thread t takes piece t % pieces of rows
// t / pieces, and every rows_at_once()-th behind it, so that a warp reads whole rows. Which rows
// they are (a page, a slot in it) is asked of the index tiles before the slot of the ring is
// awaited, so that the wait covers the latency; rows beyond a short tile are not looked up, and are
// filled with zeros.
//
// What does not depend on the row is computed before the loops over rows.
//
// The bytes are written through the generic proxy and read by products through the async one: who
// acquires such a slot fences (FragmentLowering::acquire).
#include "rooftile/codegen/gpu/element_ops.h"
#include "rooftile/codegen/gpu/fragment_lowering.h"

namespace rooftile::codegen {

using ir::Node;
using ir::Op;
using lanes::Ins;
using lanes::Ty;
using lanes::Unroll;
using lanes::Val;

namespace {

constexpr int kPieceBytes = 16;

Val thread() { return lanes::cast(Ty::kI32, lanes::special(lanes::Special::kTid)); }

// Copies that look up the same rows can share what they find.
int lookup_way(const PlacedCopy& copy) {
  return copy.by_threads() ? copy.pieces_a_row() : -copy.run_rows;
}

Val plus(const Val& begin, const Val& offset) {
  return begin.type() == Ty::kI64 ? begin + lanes::cast(Ty::kI64, offset) : begin + offset;
}

}  // namespace

// The n-th row (or first row of a run) that this thread brings, inside the tile.
Val FragmentLowering::thread_row(const PlacedCopy& copy, const Val& n) {
  if (!copy.by_threads()) return n * copy.run_rows;
  return lanes::floor_div(thread(), copy.pieces_a_row()) + n * copy.rows_at_once();
}

// Whether a row of the thread's exists; absent: they all do.
Val FragmentLowering::thread_row_exists(const PlacedCopy& copy, const Val& row, Body& out) {
  const Expr& extent = program_.node(copy.load).shape[0];
  if (extent.is_const(copy.rows)) return {};
  return row < lanes::cast(Ty::kI32, index_.number(extent, out));
}

// Loads behind the rows of a copy, one register a row of the thread; kept for the copies of this
// step that ask for the same rows.
void FragmentLowering::look_up(ValueId id, const PlacedCopy& copy, Body& out) {
  const Node& node = program_.node(id);
  for (ValueId operand : node.operands) look_up(operand, copy, out);
  for (const ir::DimIndex& dim : node.region)
    if (dim.kind == ir::DimIndex::kIndirect) look_up(dim.indirect, copy, out);
  if (node.op != Op::kLoad || node.shape.empty()) return;
  const std::pair key{id, lookup_way(copy)};
  if (looked_up_.count(key) != 0) return;
  const Ty type = register_type(node.dtype);
  const std::string reg = index_.unique(node.label.empty() ? "index" : node.label);
  const Val n = reg_i32("piece");
  Body body;
  const Val row = thread_row(copy, n);
  lanes::Instr load;
  load.ins = Ins::kLdGlobal;
  load.dtype = node.dtype;
  load.guard = thread_row_exists(copy, row, out);
  load.global.tensor = node.name;
  for (const ir::DimIndex& dim : node.region)
    load.global.index.push_back(row_index(dim, copy, n, out));
  load.results = {{reg, n, 1}};
  body.push_back(lanes::assign(reg, n, lanes::int_val(type, 0)));
  body.push_back(lanes::instr(std::move(load)));
  out.push_back(lanes::decl_array(type, reg, copy.lookups()));
  out.push_back(lanes::for_("piece", 0, copy.lookups(), 1, std::move(body), Unroll::kYes));
  looked_up_[key] = reg;
}

// Where one dimension stands for row `n` of the thread's.
Val FragmentLowering::row_index(const ir::DimIndex& dim, const PlacedCopy& copy, const Val& n,
                                Body& out) {
  if (dim.kind == ir::DimIndex::kIndirect) return index_element(dim.indirect, copy, n, out);
  const Val begin = index_.number(dim.begin, out);
  if (dim.kind == ir::DimIndex::kPoint) return begin;
  return plus(begin, thread_row(copy, n) * static_cast<int>(dim.step));
}

// The element of an index tile (or of a scalar in its arithmetic) for row `n` of the thread's.
Val FragmentLowering::index_element(ValueId id, const PlacedCopy& copy, const Val& n, Body& out) {
  const Node& node = program_.node(id);
  switch (node.op) {
    case Op::kFill:
      return element_fill(node.dtype, node.number);
    case Op::kFromIndex:
      return lanes::cast(Ty::kI64, index_.number(node.expr, out));
    case Op::kIota:
      return lanes::cast(Ty::kI32, index_.number(node.expr, out)) + thread_row(copy, n);
    case Op::kLoad: {
      if (node.shape.empty()) return index_scalar(node, out);
      const std::string& reg = looked_up_.at({id, lookup_way(copy)});
      return lanes::elem(register_type(node.dtype), reg, n);
    }
    case Op::kSelect:
      return lanes::select(index_element(node.operands[0], copy, n, out),
                           index_element(node.operands[1], copy, n, out),
                           index_element(node.operands[2], copy, n, out));
    case Op::kCast:
      return element_cast(program_.node(node.operands[0]).dtype, node.dtype,
                          index_element(node.operands[0], copy, n, out));
    case Op::kElementwise: {
      std::vector<Val> operands;
      for (ValueId operand : node.operands)
        operands.push_back(index_element(operand, copy, n, out));
      return element_op(node.ew, node.dtype, operands);
    }
    default:
      refuse(node, "this value has no element where rows are looked up");
      return element_fill(node.dtype, 0);
  }
}

// A single element that all rows share.
Val FragmentLowering::index_scalar(const Node& node, Body& out) {
  lanes::Instr load;
  load.ins = Ins::kLdGlobal;
  load.dtype = node.dtype;
  load.global.tensor = node.name;
  for (const ir::DimIndex& dim : node.region)
    load.global.index.push_back(index_.number(dim.begin, out));
  const std::string reg = index_.unique(node.label.empty() ? "index" : node.label);
  load.results = {{reg, {}, 1}};
  out.push_back(lanes::decl(register_type(node.dtype), reg));
  out.push_back(lanes::instr(std::move(load)));
  return lanes::var(register_type(node.dtype), reg);
}

// The thread's pieces of a tile, on their way to the slot that `ring` fills next.
void FragmentLowering::copy_rows(const PlacedRing& ring, const PlacedCopy& copy, Body& out) {
  const Node& load = program_.node(copy.load);
  const Val column = lanes::floor_mod(thread(), copy.pieces_a_row());  // in pieces
  const int pieces_a_chunk = 128 / kPieceBytes;
  const std::string to = index_.unique(copy.label + "_to");
  out.push_back(lanes::decl(Ty::kU32, to,
                            lanes::shared("ring_" + ring.name) +
                                u32(reg_i32(ring.name + "_slot")) * ring.slot_bytes +
                                u32(lanes::floor_div(column, pieces_a_chunk) * copy.chunk_bytes() +
                                    ring.offset_in_slot(copy.load))));
  const Val n = reg_i32("piece");
  const Val row = thread_row(copy, n);
  // 128-byte swizzle: the piece's place in its row is turned by the row's place in its eight.
  const Val place = lanes::fn(lanes::Fn::kXor,
                              {lanes::floor_mod(column, pieces_a_chunk), lanes::floor_mod(row, 8)});
  Body body;
  lanes::Instr i;
  i.ins = Ins::kCpAsync;
  i.dtype = load.dtype;
  i.cache = cache_of(copy.how.l2);
  i.global.tensor = load.name;
  i.global.width = kPieceBytes / copy.element_bytes;
  for (const ir::DimIndex& dim : load.region) {
    if (dim.tile_axis == 1)
      i.global.index.push_back(
          plus(index_.number(dim.begin, out), column * (kPieceBytes / copy.element_bytes)));
    else
      i.global.index.push_back(row_index(dim, copy, n, out));
  }
  const Val exists = thread_row_exists(copy, row, out);
  i.args = {lanes::var(Ty::kU32, to) + u32(row * 128 + place * kPieceBytes),
            exists.present() ? lanes::select(exists, kPieceBytes, 0) : Val(kPieceBytes)};
  body.push_back(lanes::instr(std::move(i)));
  out.push_back(lanes::for_("piece", 0, copy.lookups(), 1, std::move(body), Unroll::kYes));
}

// A box a run of rows, on their way to the slot that `ring` fills next.
void FragmentLowering::copy_runs(const PlacedRing& ring, const PlacedCopy& copy, Body& out) {
  const Node& load = program_.node(copy.load);
  std::vector<int> box;
  for (size_t d = load.region.size(); d-- > 0;)
    box.push_back(load.region[d].tile_axis == 1         ? copy.chunk_columns()
                  : static_cast<int>(d) == copy.run_dim ? copy.run_rows
                                                        : 1);
  const Val slot = reg_i32(ring.name + "_slot"), n = reg_i32("piece");
  Body body;
  lanes::Instr i;
  i.ins = Ins::kTmaLoad;
  i.map = map_for(load.name, box);
  i.dtype = load.dtype;
  i.bytes = copy.run_rows * 128;
  i.cache = cache_of(copy.how.l2);
  const Val exists = thread_row_exists(copy, thread_row(copy, n), out);
  std::vector<Val> at;  // innermost first, without the chunk
  for (size_t d = load.region.size(); d-- > 0;) {
    Val index = lanes::cast(Ty::kI32, load.region[d].tile_axis == 1
                                          ? index_.number(load.region[d].begin, out)
                                          : row_index(load.region[d], copy, n, out));
    if (static_cast<int>(d) == copy.run_dim && exists.present())
      index = lanes::select(
          exists, index,
          lanes::cast(Ty::kI32, index_.number(program_.tensor(load.name)->shape[d], out)));
    at.push_back(index);
  }
  for (int chunk = 0; chunk < copy.chunks(); ++chunk) {
    i.args = {lanes::shared("ring_" + ring.name) + u32(slot) * ring.slot_bytes +
                  (ring.offset_in_slot(copy.load) + chunk * copy.chunk_bytes()) +
                  u32(n * (copy.run_rows * 128)),
              lanes::shared("full_" + ring.name) + u32(slot) * 8};
    i.args.insert(i.args.end(), at.begin(), at.end());
    i.args[2] = i.args[2] + chunk * copy.chunk_columns();
    body.push_back(lanes::instr(i));
  }
  out.push_back(lanes::for_("piece", 0, copy.lookups(), 1, std::move(body), Unroll::kYes));
}

}  // namespace rooftile::codegen
