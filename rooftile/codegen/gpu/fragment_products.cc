// SPDX-License-Identifier: Apache-2.0
// Products of a computing group: wgmma over ring slots and register fragments.
#include <algorithm>

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

namespace {

constexpr int kSwizzle128 = static_cast<int>(lanes::Swizzle::k128);

}  // namespace

// Nothing may touch the registers of a running product; ptxas is told by pins on both sides.
void FragmentLowering::pin(const std::string& reg, int count, Body& out) {
  lanes::Instr i;
  i.ins = Ins::kPin;
  i.regs = {{reg, 0, count}};
  out.push_back(lanes::instr(std::move(i)));
}

void FragmentLowering::issue(const std::vector<ValueId>& products, Body& out) {
  for (ValueId id : products) {
    const Node& product = program_.node(id);
    const PlacedValue& left = placed_.values.at(product.operands[0]);
    if (left.home == Home::kOperand)
      pin(left.reg, placed_.row_blocks * columns(product.operands[0]) / 4, out);
    pin(placed_.values.at(id).reg, placed_.row_blocks * columns(id) / 2, out);
  }
  out.push_back(op(Ins::kWgmmaFence));
  for (ValueId id : products) {
    const std::string& sum = placed_.values.at(id).reg;
    std::erase_if(in_place_, [&](const auto& masked) { return masked.second == sum; });
    multiply(program_.node(id), out);
    out.push_back(op(Ins::kWgmmaCommit));
    running_.push_back(id);
  }
}

// The products of the contraction, 32 bytes of it at a time, over the group's row blocks.
void FragmentLowering::multiply(const Node& product, Body& out) {
  const PlacedValue& sum = placed_.values.at(product.id);
  const Node& b = program_.node(operand_source(program_, product.operands[1]));
  const bool along_k = is_transposed(program_, product.operands[1]);
  const int element_bytes = size_bytes(b.dtype);
  const int depth = static_cast<int>(static_bound(b.shape[along_k ? 1 : 0]).value_or(0));
  const int steps = depth * element_bytes / 32;
  const int registers = columns(product.id) / 2;
  const Val k = reg_i32("step"), mb = reg_i32("block");
  lanes::Instr i;
  i.ins = Ins::kWgmma;
  i.dtype = b.dtype;
  i.n = columns(product.id);
  i.regs = {{sum.reg, mb * registers, registers}};
  i.args = {keep_sum(product, k)};
  const PlacedValue& left = placed_.values.at(product.operands[0]);
  if (left.home == Home::kOperand) {
    i.regs.push_back({left.reg, (mb * steps + k) * 4, 4});
  } else {
    i.args.push_back(descriptor(product, 0, k, mb));
    i.trans_a = is_transposed(program_, product.operands[0]);
  }
  i.args.push_back(descriptor(product, 1, k, mb));
  i.trans_b = !along_k;
  out.push_back(lanes::for_(
      "step", 0, steps, 1,
      {lanes::for_("block", 0, placed_.row_blocks, 1, {lanes::instr(std::move(i))}, Unroll::kYes)},
      Unroll::kYes));
}

// Where an operand of step `k` lies, in the slot acquired last. Tiles are chunks of 128-byte rows:
// along the contraction a step is 32 bytes of a row, across it 32 bytes' worth of rows.
Val FragmentLowering::descriptor(const Node& product, int side, const Val& k, const Val& mb) {
  const ValueId operand = product.operands[static_cast<size_t>(side)];
  const ValueId load = operand_source(program_, operand);
  const PlacedRing* ring = nullptr;
  for (const PlacedRing& candidate : placed_.rings)
    if (candidate.find(load) != nullptr) ring = &candidate;
  const PlacedCopy& copy = *ring->find(load);
  const bool transposed = is_transposed(program_, operand);
  // The left operand [M, K] and the transposed right one [N, K] have the contraction in their rows
  // of memory; the others across them.
  const bool along_k = side == 0 ? !transposed : transposed;
  const int steps_per_chunk = 128 / 32;
  const int k_elements = 32 / copy.element_bytes;
  const Val first_block = placed_.plan.share == gpu::Share::kRows && placed_.groups > 1
                              ? reg_i32("group") * placed_.row_blocks + mb
                              : mb;
  Val offset;
  if (along_k) {
    offset = lanes::floor_div(k, steps_per_chunk) * copy.chunk_bytes() +
             lanes::floor_mod(k, steps_per_chunk) * 32;
    if (side == 0) offset = offset + first_block * (64 * 128);
  } else {
    // A chunk is as many columns as 128 bytes hold: of the left operand, one block of 64 rows.
    offset = k * (k_elements * 128);
    if (side == 0) offset = offset + first_block * copy.chunk_bytes();
  }
  const Val base = lanes::shared("ring_" + ring->name) +
                   u32(reg_i32(ring->name + "_at")) * ring->slot_bytes +
                   (u32(offset) + ring->offset_in_slot(load));
  // Leading offset: unused along the contraction (16 by convention), else from one chunk of 128
  // bytes of columns to the next. Stride offset: eight rows of 128 bytes.
  const int leading = along_k ? 16 : copy.chunk_bytes();
  return lanes::fn(lanes::Fn::kMatrixDesc, {base, leading, 8 * 128, kSwizzle128});
}

// 0 where the first product of a sum overwrites what the registers held.
Val FragmentLowering::keep_sum(const Node& product, const Val& k) {
  const Val one = lanes::int_val(Ty::kU32, 1), zero = lanes::int_val(Ty::kU32, 0);
  if (product.operands.size() == 2) return lanes::select(0 < k, one, zero);
  const Node& sum = program_.node(product.operands[2]);
  if (sum.op == Op::kCarried && !loops_.empty() &&
      starts_from_zero_product(program_, *loops_.back().node, static_cast<size_t>(sum.axis)))
    return lanes::select(loops_.back().begin < loops_.back().var || 0 < k, one, zero);
  return one;
}

void FragmentLowering::wait(int left, Body& out) {
  out.push_back(op(Ins::kWgmmaWait, {}, left));
  while (static_cast<int>(running_.size()) > left) {
    const ValueId done = running_.front();
    running_.erase(running_.begin());
    pin(placed_.values.at(done).reg, placed_.row_blocks * columns(done) / 2, out);
  }
}

// The sum that a product starts from, in place: o * r before pv adds to it.
void FragmentLowering::rescale(const Node& product, Body& out) {
  assign_all(product.operands[2], placed_.values.at(product.id), product.id, out);
}

}  // namespace rooftile::codegen
