// SPDX-License-Identifier: Apache-2.0
// Stores of a computing group from its registers. Those that go through shared memory are in
// fragment_staged.cc.
#include "rooftile/codegen/gpu/element_ops.h"
#include "rooftile/codegen/gpu/fragment_lowering.h"
#include "rooftile/codegen/gpu/place.h"

namespace rooftile::codegen {

using ir::Node;
using ir::Op;
using lanes::Ins;
using lanes::Ty;
using lanes::Unroll;
using lanes::Val;

// Two neighbouring elements as one 32-bit word of a 16-bit type, rounded once.
Val FragmentLowering::packed_pair(ValueId id, DType dtype, const Pos& at, Body& out) {
  const Node& node = program_.node(id);
  // A cast to this very type is the rounding that packing does.
  const ValueId from = node.op == Op::kCast && node.dtype == dtype ? node.operands[0] : id;
  Pos next = at;
  next.q = at.q + 1;
  const Val low = element(from, at, out), high = element(from, next, out);
  return pack_elements(dtype, {low, high}, 2, 0);
}

void FragmentLowering::store(const Node& node, Body& out) {
  if (node.mode != ir::StoreMode::kSet)
    return refuse(node, "the fragment way has no adding stores");
  switch (tile_class(program_.node(node.operands[0]))) {
    case TileClass::kMatrix: {
      const auto how = placed_.plan.copy.find(node.name);
      if (how != placed_.plan.copy.end() &&
          (how->second.via == gpu::Via::kTma || how->second.staging_columns != 0))
        return store_staged(node, out);
      return store_matrix(node, out);
    }
    case TileClass::kRow:
      return store_rows(node, out);
    case TileClass::kScalar:
      return store_scalar(node, out);
    default:
      refuse(node, "this tile cannot be stored the fragment way");
  }
}

void FragmentLowering::store_matrix(const Node& node, Body& out) {
  const ValueId id = node.operands[0];
  const Node& value = program_.node(id);
  const DType dtype = program_.tensor(node.name)->dtype;
  const Val mb = reg_i32("block"), j = reg_i32("eight"), half = reg_i32("half");
  const Pos at{mb, j, half * 2, {}};
  Pos next = at;
  next.q = at.q + 1;
  Body body;
  const Val row = coordinate(0, at), column = coordinate(1, at);
  const Val first = inside(value, at, body), second = inside(value, next, body);
  lanes::Instr pair;
  pair.ins = Ins::kStGlobal;
  pair.dtype = dtype;
  pair.global = region(node, row, column, body);
  // Element by element: pairs need an alignment that the contract does not promise.
  for (int e = 0; e < 2; ++e) {
    const Pos& pos = e == 0 ? at : next;
    const RawRegisters raw = raw_registers(dtype, 1);
    const std::string name = index_.unique("y");
    const ValueId from = value.op == Op::kCast && value.dtype == dtype && size_bytes(dtype) == 2
                             ? value.operands[0]
                             : id;
    body.push_back(
        lanes::decl(raw.type, name, pack_elements(dtype, {element(from, pos, body)}, 1, 0)));
    lanes::Instr store = pair;
    store.guard = e == 0 ? first : second;
    if (e == 1) store.global = region(node, row, column + 1, body);
    store.regs = {{name, {}, 1}};
    body.push_back(lanes::instr(std::move(store)));
  }
  out.push_back(lanes::for_(
      "block", 0, placed_.row_blocks, 1,
      {lanes::for_("half", 0, 2, 1,
                   {lanes::for_("eight", 0, columns(id) / 8, 1, std::move(body), Unroll::kYes)},
                   Unroll::kYes)},
      Unroll::kYes));
}

// One lane of the four that share a row stores its value.
void FragmentLowering::store_rows(const Node& node, Body& out) {
  const ValueId id = node.operands[0];
  const DType dtype = program_.tensor(node.name)->dtype;
  const Val mb = reg_i32("block"), half = reg_i32("half");
  const Pos at{mb, {}, {}, half};
  Body body;
  const RawRegisters raw = raw_registers(dtype, 1);
  const std::string name = index_.unique("y");
  body.push_back(lanes::decl(raw.type, name, pack_elements(dtype, {element(id, at, body)}, 1, 0)));
  lanes::Instr store;
  store.ins = Ins::kStGlobal;
  store.dtype = dtype;
  const Val own = lanes::equal(reg_i32("column"), 0);
  const Val there = inside(program_.node(id), at, body);
  store.guard = there.present() ? own && there : own;
  store.global = region(node, coordinate(0, at), 0, body);
  store.regs = {{name, {}, 1}};
  body.push_back(lanes::instr(std::move(store)));
  out.push_back(lanes::for_("block", 0, placed_.row_blocks, 1,
                            {lanes::for_("half", 0, 2, 1, std::move(body), Unroll::kYes)},
                            Unroll::kYes));
}

void FragmentLowering::store_scalar(const Node& node, Body& out) {
  const DType dtype = program_.tensor(node.name)->dtype;
  const RawRegisters raw = raw_registers(dtype, 1);
  const std::string name = index_.unique("y");
  out.push_back(lanes::decl(raw.type, name,
                            pack_elements(dtype, {element(node.operands[0], {}, out)}, 1, 0)));
  lanes::Instr store;
  store.ins = Ins::kStGlobal;
  store.dtype = dtype;
  store.guard = lanes::equal(reg_i32("row"), 0) && lanes::equal(reg_i32("column"), 0);
  store.global = region(node, 0, 0, out);
  store.regs = {{name, {}, 1}};
  out.push_back(lanes::instr(std::move(store)));
}

}  // namespace rooftile::codegen
