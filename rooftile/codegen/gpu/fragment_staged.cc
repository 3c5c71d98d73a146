// SPDX-License-Identifier: Apache-2.0
// Stores that go through shared memory: registers -> swizzled chunk of 64 rows x 128 bytes, then
//   the copy engine   clips at the tensor's edge and drains while the group goes on;
//   the warps         each its own 16 rows, whole 16-byte pieces, row by row: where a block of rows
//                     ends inside the tensor (packed sequences), which no box can be told.
#include "rooftile/codegen/gpu/element_ops.h"
#include "rooftile/codegen/gpu/fragment_lowering.h"
#include "rooftile/codegen/gpu/place.h"

namespace rooftile::codegen {

using ir::Node;
using lanes::Ins;
using lanes::Ty;
using lanes::Unroll;
using lanes::Val;

namespace {

constexpr int kChunkRows = 64, kRowBytes = 128, kPieceBytes = 16;
constexpr int kChunkBytes = kChunkRows * kRowBytes;

// 128-byte swizzle: where a 16-byte piece of a row lies in its chunk.
Val place_in_chunk(const Val& row, const Val& piece) {
  const Val turned = lanes::fn(lanes::Fn::kXor, {piece, lanes::floor_mod(row, 8)});
  return u32(row * kRowBytes + turned * kPieceBytes);
}

}  // namespace

// 16-bit elements of a chunk, 8 x 8 matrices at a time. Lane l names row l % 16 of its warp's 16
// and 16-byte column 2 w + l / 16 of the chunk.
void FragmentLowering::stage_halves(const Node& node, const Val& buffer, Body& out) {
  const DType dtype = program_.tensor(node.name)->dtype;
  const Val lane = reg_i32("lane"), w = reg_i32("piece");
  const Val row = lanes::floor_mod(reg_i32("warp"), 4) * 16 + lanes::floor_mod(lane, 16);
  const Val column16 = w * 2 + lanes::floor_div(lane, 16);
  Body words;
  lanes::Instr matrix;
  matrix.ins = Ins::kStMatrix;
  matrix.n = 4;
  matrix.args = {buffer + place_in_chunk(row, column16)};
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
  Body words = {lanes::decl_array(type, "word", 2)};
  for (int e = 0; e < 2; ++e) {
    const Pos at{reg_i32("block"), reg_i32("chunk") * 4 + w, half * 2 + e, {}};
    words.push_back(lanes::assign("word", e, element(node.operands[0], at, words)));
  }
  lanes::Instr store;
  store.ins = Ins::kStShared;
  store.bytes = 8;
  store.regs = {{"word", 0, 2}};
  store.args = {buffer + place_in_chunk(row, column16) + u32(lanes::floor_mod(pair, 2) * 8)};
  words.push_back(lanes::instr(std::move(store)));
  out.push_back(lanes::for_("piece", 0, 4, 1,
                            {lanes::for_("half", 0, 2, 1, std::move(words), Unroll::kYes)},
                            Unroll::kYes));
}

// What staging asks of a store, whoever empties the chunks. False: refused.
bool FragmentLowering::can_stage(const Node& node) {
  const gpu::Copy& how = placed_.plan.copy.at(node.name);
  const DType dtype = program_.tensor(node.name)->dtype;
  const int bytes = size_bytes(dtype), wide = columns(node.operands[0]);
  if (bytes != 2 && bytes != 4) {
    refuse(node, "staged stores take 16-bit and 32-bit types", std::string(name(dtype)));
    return false;
  }
  const int chunk = kRowBytes / bytes;
  if (how.staging_columns != chunk || wide % chunk != 0) {
    refuse(node, "staged stores go in chunks of 128 bytes a row",
           std::to_string(wide) + " columns in chunks of " + std::to_string(how.staging_columns),
           "staging_columns = " + std::to_string(chunk) + ", and a multiple of it");
    return false;
  }
  for (size_t d = 0; d < node.region.size(); ++d) {
    const ir::DimIndex& dim = node.region[d];
    if (dim.tile_axis >= 0 && (dim.tile_axis == 1) != (d + 1 == node.region.size())) {
      refuse(node, "columns of a staged store lie along the tensor's last dimension");
      return false;
    }
  }
  return true;
}

// A chunk is overwritten once its reads are over: by the engine, when so many groups of its copies
// are left; by the warps, which read what they wrote themselves.
void FragmentLowering::store_staged(const Node& node, Body& out) {
  if (!can_stage(node)) return;
  const ir::TensorParam& tensor = *program_.tensor(node.name);
  const gpu::Copy& how = placed_.plan.copy.at(node.name);
  const bool by_engine = how.via == gpu::Via::kTma;
  const std::string stage = "stage_" + node.name, chunk_reg = "chunk_" + node.name;
  if (staged_.count(node.name) == 0) {
    staged_[node.name] = by_engine;
    out_.shared.insert(out_.shared.begin() + static_cast<std::ptrdiff_t>(placed_.rings.size()),
                       {.name = stage,
                        .bytes = int64_t{placed_.groups} * how.staging_buffers * kChunkBytes,
                        .align = 1024});
  }
  const Val buffer = lanes::shared(stage) +
                     u32(reg_i32("group")) * (how.staging_buffers * kChunkBytes) +
                     (how.staging_buffers > 1 ? u32(reg_i32(chunk_reg)) * kChunkBytes
                                              : lanes::int_val(Ty::kU32, 0));
  const Val leader =
      lanes::equal(lanes::floor_mod(reg_i32("warp"), 4), 0) && lanes::equal(reg_i32("lane"), 0);
  const auto meet = [&] {
    return by_engine ? op(Ins::kNamedSync, {reg_i32("group") + 1}, 128) : op(Ins::kSyncWarp);
  };
  Body body;
  if (by_engine)
    body.push_back(lanes::if_(leader, {op(Ins::kBulkWaitRead, {}, how.staging_buffers - 1)}));
  if (by_engine || how.staging_buffers == 1) body.push_back(meet());
  if (size_bytes(tensor.dtype) == 2)
    stage_halves(node, buffer, body);
  else
    stage_words(node, buffer, body);
  if (by_engine) body.push_back(op(Ins::kProxyFence));
  body.push_back(meet());
  if (by_engine)
    body.push_back(lanes::if_(leader, chunk_by_engine(node, buffer)));
  else
    chunk_by_warps(node, buffer, body);
  if (how.staging_buffers > 1) advance(chunk_reg, "", how.staging_buffers, body);
  const int chunks = columns(node.operands[0]) / how.staging_columns;
  out.push_back(lanes::for_("block", 0, placed_.row_blocks, 1,
                            {lanes::for_("chunk", 0, chunks, 1, std::move(body), Unroll::kYes)},
                            Unroll::kYes));
}

// One thread asks the copy engine to take a chunk away.
lanes::Body FragmentLowering::chunk_by_engine(const Node& node, const Val& buffer) {
  const ir::TensorParam& tensor = *program_.tensor(node.name);
  const gpu::Copy& how = placed_.plan.copy.at(node.name);
  const int wide = how.staging_columns;
  std::vector<int> box;
  for (size_t d = node.region.size(); d-- > 0;) {
    const ir::DimIndex& dim = node.region[d];
    const Expr end = tensor.shape[d] - dim.begin;
    if (dim.kind == ir::DimIndex::kRange && !dim.extent.same_as(tensor.shape[d])) {
      bool clipped = false;
      if (dim.extent.kind() == ExprKind::kMin)
        for (const Expr& arm : dim.extent.args()) clipped |= arm.same_as(end);
      if (!clipped)
        refuse(node, "the copy engine clips a store where its tensor ends, nowhere else",
               dim.extent.str(), "min(block, " + end.str() + "), or stores by the warps");
    }
    box.push_back(dim.tile_axis < 0 ? 1 : dim.tile_axis == 1 ? wide : kChunkRows);
  }
  lanes::Instr copy;
  copy.ins = Ins::kTmaStore;
  copy.map = map_for(node.name, box);
  copy.dtype = tensor.dtype;
  copy.bytes = kChunkBytes;
  copy.cache = how.l2 == gpu::L2::kEvictFirst ? lanes::Cache::kEvictFirst : lanes::Cache::kPlain;
  copy.args = {buffer};
  Body leave;
  const Val first_row = (placed_.plan.share == gpu::Share::kRows
                             ? reg_i32("group") * (kChunkRows * placed_.row_blocks)
                             : Val(0)) +
                        reg_i32("block") * kChunkRows;
  for (size_t d = node.region.size(); d-- > 0;) {
    const ir::DimIndex& dim = node.region[d];
    Val at = lanes::cast(Ty::kI32, index_.number(dim.begin, leave));
    if (dim.tile_axis == 0) at = at + first_row;
    if (dim.tile_axis == 1) at = at + reg_i32("chunk") * wide;
    if (dim.tile_axis == 1 && behind_split_ && placed_.split.owners > 1)
      at = at + reg_i32("part_column");
    copy.args.push_back(at);
  }
  leave.push_back(lanes::instr(std::move(copy)));
  leave.push_back(op(Ins::kBulkCommit));
  return leave;
}

// Eight lanes a row of 128 bytes; rows beyond a short tile are not stored.
void FragmentLowering::chunk_by_warps(const Node& node, const Val& buffer, Body& out) {
  const DType dtype = program_.tensor(node.name)->dtype;
  const Node& value = program_.node(node.operands[0]);
  if (!value.shape[1].is_const() || placed_.split.owners > 1)
    return refuse(node, "warps store whole rows of a staged tile",
                  value.shape[1].str() + " columns",
                  "a number of columns known when it is compiled, no split of them");
  const int elements = kPieceBytes / size_bytes(dtype);
  const RawRegisters raw = raw_registers(dtype, elements);
  const Val n = reg_i32("piece"), lane = reg_i32("lane");
  const Val piece = lanes::floor_mod(lane, 8);
  const Val row = lanes::floor_mod(reg_i32("warp"), 4) * 16 + lanes::floor_div(lane, 8) + n * 4;
  const Val first_row = placed_.plan.share == gpu::Share::kRows
                            ? reg_i32("group") * (kChunkRows * placed_.row_blocks)
                            : Val(0);
  const Val tile_row = first_row + (reg_i32("block") * kChunkRows + row);
  Body body = {lanes::decl_array(raw.type, "word", raw.count)};
  lanes::Instr load;
  load.ins = Ins::kLdShared;
  load.bytes = kPieceBytes;
  load.results = {{"word", 0, raw.count}};
  load.args = {buffer + place_in_chunk(row, piece)};
  body.push_back(lanes::instr(std::move(load)));
  lanes::Instr store;
  store.ins = Ins::kStGlobal;
  store.dtype = dtype;
  store.global = region(
      node, tile_row, reg_i32("chunk") * (kRowBytes / size_bytes(dtype)) + piece * elements, body);
  store.global.width = elements;
  if (!value.shape[0].is_const(placed_.tile_rows))
    store.guard = tile_row < lanes::cast(Ty::kI32, index_.number(value.shape[0], body));
  store.regs = {{"word", 0, raw.count}};
  body.push_back(lanes::instr(std::move(store)));
  out.push_back(lanes::for_("piece", 0, 4, 1, std::move(body), Unroll::kYes));
}

// Shared memory must outlive the copy engine's reads of it.
void FragmentLowering::finish_stores(Body& out) {
  bool by_engine = false;
  for (const auto& [tensor, engine] : staged_) by_engine |= engine;
  if (!by_engine) return;
  const Val leader =
      lanes::equal(lanes::floor_mod(reg_i32("warp"), 4), 0) && lanes::equal(reg_i32("lane"), 0);
  out.push_back(lanes::if_(leader, {op(Ins::kBulkWaitRead, {}, 0)}));
}

}  // namespace rooftile::codegen
