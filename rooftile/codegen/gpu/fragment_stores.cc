// SPDX-License-Identifier: Apache-2.0
// Stores of a computing group: from registers, or through shared memory and the copy engine.
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
      if (how != placed_.plan.copy.end() && how->second.via == gpu::Via::kTma)
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

// 16-bit elements of a chunk, 8 x 8 matrices at a time. Lane l names row l % 16 of its warp's 16
// and 16-byte column 2 w + l / 16 of the chunk.
void FragmentLowering::stage_halves(const Node& node, const Val& buffer, Body& out) {
  const DType dtype = program_.tensor(node.name)->dtype;
  const Val lane = reg_i32("lane"), w = reg_i32("piece");
  const Val row = lanes::floor_mod(reg_i32("warp"), 4) * 16 + lanes::floor_mod(lane, 16);
  const Val column16 = w * 2 + lanes::floor_div(lane, 16);
  const Val swizzled = lanes::fn(lanes::Fn::kXor, {column16, lanes::floor_mod(row, 8)});
  Body words;
  lanes::Instr matrix;
  matrix.ins = Ins::kStMatrix;
  matrix.n = 4;
  matrix.args = {buffer + u32(row * 128 + swizzled * 16)};
  words.push_back(lanes::decl_array(Ty::kU32, "word", 4));
  for (int r = 0; r < 4; ++r) {
    const Pos at{reg_i32("block"), reg_i32("chunk") * 8 + w * 2 + r / 2, (r % 2) * 2, {}};
    words.push_back(lanes::assign("word", r, packed_pair(node.operands[0], dtype, at, words)));
  }
  matrix.regs = {{"word", 0, 4}};
  words.push_back(lanes::instr(std::move(matrix)));
  out.push_back(lanes::for_("piece", 0, 4, 1, std::move(words), Unroll::kYes));
}

// 32-bit elements, two neighbours at a time: the 32 lanes of a store meet each bank twice, which is
// the least for 8 bytes a lane.
void FragmentLowering::stage_words(const Node& node, const Val& buffer, Body& out) {
  const Ty type = register_type(program_.tensor(node.name)->dtype);
  const Val half = reg_i32("half"), w = reg_i32("piece");
  const Val row =
      lanes::floor_mod(reg_i32("warp"), 4) * 16 + lanes::floor_div(reg_i32("lane"), 4) + half * 8;
  const Val pair = lanes::floor_mod(reg_i32("lane"), 4);
  const Val column16 = w * 2 + lanes::floor_div(pair, 2);
  const Val swizzled = lanes::fn(lanes::Fn::kXor, {column16, lanes::floor_mod(row, 8)});
  Body words = {lanes::decl_array(type, "word", 2)};
  for (int e = 0; e < 2; ++e) {
    const Pos at{reg_i32("block"), reg_i32("chunk") * 4 + w, half * 2 + e, {}};
    words.push_back(lanes::assign("word", e, element(node.operands[0], at, words)));
  }
  lanes::Instr store;
  store.ins = Ins::kStShared;
  store.bytes = 8;
  store.regs = {{"word", 0, 2}};
  store.args = {buffer + u32(row * 128 + swizzled * 16 + lanes::floor_mod(pair, 2) * 8)};
  words.push_back(lanes::instr(std::move(store)));
  out.push_back(lanes::for_("piece", 0, 4, 1,
                            {lanes::for_("half", 0, 2, 1, std::move(words), Unroll::kYes)},
                            Unroll::kYes));
}

// Registers -> swizzled chunk of 64 rows x 128 bytes -> copy engine, which clips at the tensor's
// edge and drains while the group goes on. A chunk is overwritten once its reads are over.
void FragmentLowering::store_staged(const Node& node, Body& out) {
  const ValueId id = node.operands[0];
  const ir::TensorParam& tensor = *program_.tensor(node.name);
  const gpu::Copy& how = placed_.plan.copy.at(node.name);
  const int bytes = size_bytes(tensor.dtype);
  if (bytes != 2 && bytes != 4)
    return refuse(node, "staged stores take 16-bit and 32-bit types",
                  std::string(name(tensor.dtype)));
  const int wide = 128 / bytes;  // columns of a chunk
  if (how.staging_columns != wide || columns(id) % wide != 0)
    return refuse(node, "staged stores go in chunks of 128 bytes a row",
                  std::to_string(columns(id)) + " columns in chunks of " +
                      std::to_string(how.staging_columns),
                  "staging_columns = " + std::to_string(wide) + ", and a multiple of it");
  std::vector<int> box;
  for (size_t d = node.region.size(); d-- > 0;) {
    const ir::DimIndex& dim = node.region[d];
    const Expr end = tensor.shape[d] - dim.begin;
    if (dim.kind == ir::DimIndex::kRange && !dim.extent.same_as(tensor.shape[d])) {
      bool clipped = false;
      if (dim.extent.kind() == ExprKind::kMin)
        for (const Expr& arm : dim.extent.args()) clipped |= arm.same_as(end);
      if (!clipped)
        return refuse(node, "a staged store is clipped where its tensor ends, nowhere else",
                      dim.extent.str(), "min(block, " + end.str() + ")");
    }
    if (dim.tile_axis >= 0 && (dim.tile_axis == 1) != (d + 1 == node.region.size()))
      return refuse(node, "columns of a staged store lie along the tensor's last dimension");
    box.push_back(dim.tile_axis < 0 ? 1 : dim.tile_axis == 1 ? wide : 64);
  }
  const std::string map = map_for(node.name, box);
  const std::string stage = "stage_" + node.name;
  constexpr int kChunkBytes = 64 * 128;
  if (staged_.count(node.name) == 0) {
    staged_[node.name] = how.staging_buffers;
    out_.shared.insert(out_.shared.begin() + static_cast<std::ptrdiff_t>(placed_.rings.size()),
                       {.name = stage,
                        .bytes = int64_t{placed_.groups} * how.staging_buffers * kChunkBytes,
                        .align = 1024});
  }
  const std::string chunk_reg = "chunk_" + node.name;
  const Val leader =
      lanes::equal(lanes::floor_mod(reg_i32("warp"), 4), 0) && lanes::equal(reg_i32("lane"), 0);
  const Val mb = reg_i32("block"), c = reg_i32("chunk");
  const Val buffer = lanes::shared(stage) +
                     u32(reg_i32("group")) * (how.staging_buffers * kChunkBytes) +
                     (how.staging_buffers > 1 ? u32(reg_i32(chunk_reg)) * kChunkBytes
                                              : lanes::int_val(Ty::kU32, 0));
  const Val barrier_id = reg_i32("group") + 1;
  auto meet = [&] { return op(Ins::kNamedSync, {barrier_id}, 128); };

  Body body;
  body.push_back(lanes::if_(leader, {op(Ins::kBulkWaitRead, {}, how.staging_buffers - 1)}));
  body.push_back(meet());
  if (bytes == 2)
    stage_halves(node, buffer, body);
  else
    stage_words(node, buffer, body);
  body.push_back(op(Ins::kProxyFence));
  body.push_back(meet());
  lanes::Instr copy;
  copy.ins = Ins::kTmaStore;
  copy.map = map;
  copy.dtype = tensor.dtype;
  copy.bytes = kChunkBytes;
  copy.cache = how.l2 == gpu::L2::kEvictFirst ? lanes::Cache::kEvictFirst : lanes::Cache::kPlain;
  copy.args = {buffer};
  Body leave;
  const Val first_row =
      (placed_.plan.share == gpu::Share::kRows ? reg_i32("group") * (64 * placed_.row_blocks)
                                               : Val(0)) +
      mb * 64;
  for (size_t d = node.region.size(); d-- > 0;) {
    const ir::DimIndex& dim = node.region[d];
    Val at = lanes::cast(Ty::kI32, index_.number(dim.begin, leave));
    if (dim.tile_axis == 0) at = at + first_row;
    if (dim.tile_axis == 1) at = at + c * wide;
    if (dim.tile_axis == 1 && behind_split_ && placed_.split.owners > 1)
      at = at + reg_i32("part_column");
    copy.args.push_back(at);
  }
  leave.push_back(lanes::instr(std::move(copy)));
  leave.push_back(op(Ins::kBulkCommit));
  body.push_back(lanes::if_(leader, std::move(leave)));
  if (how.staging_buffers > 1) advance(chunk_reg, "", how.staging_buffers, body);
  out.push_back(
      lanes::for_("block", 0, placed_.row_blocks, 1,
                  {lanes::for_("chunk", 0, columns(id) / wide, 1, std::move(body), Unroll::kYes)},
                  Unroll::kYes));
}

// Shared memory must outlive the copy engine's reads of it.
void FragmentLowering::finish_stores(Body& out) {
  if (staged_.empty()) return;
  const Val leader =
      lanes::equal(lanes::floor_mod(reg_i32("warp"), 4), 0) && lanes::equal(reg_i32("lane"), 0);
  out.push_back(lanes::if_(leader, {op(Ins::kBulkWaitRead, {}, 0)}));
}

}  // namespace rooftile::codegen
