// SPDX-License-Identifier: Apache-2.0
// Products of warpgroups: the registers and the shared memory that a running one uses.
//
// Products of a warp are over batch by batch (wgmma.commit_group). A batch reads its operands from
// when it is issued; who has waited for it knows that all four warps had issued theirs.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "rooftile/verify/protocol/machine.h"

namespace rooftile::verify::protocol {
namespace {

using lanes::Ins;

constexpr int kGroupWarps = 4;
constexpr int kRows = 64;  // of a product

// A shared-memory matrix descriptor (PTX, "Matrix Descriptor Format"), in bytes.
struct Descriptor {
  int64_t start, leading, stride;
  int swizzle;  // 0 none, 1 32 bytes, 2 64, 3 128
};
Descriptor decode(int64_t bits) {
  const auto field = [&](int first) { return (bits >> first & 0x3fff) << 4; };
  return {field(0), field(16), field(32),
          (4 - static_cast<int>(static_cast<uint64_t>(bits) >> 62)) & 3};
}

// Swizzles permute 16-byte chunks by address bits: bits 4.. with those from bit 7.
int64_t swizzled(int swizzle, int64_t address) {
  const int64_t mask = (int64_t{1} << swizzle) - 1;
  return address ^ ((address >> 7 & mask) << 4);
}

}  // namespace

// The bytes of an operand of `rows` (M or N) by 32 bytes of K: core matrices of 8 rows of 16 bytes
// (PTX, "Shared Memory Matrix Layout").
AccessId Machine::operand(int64_t descriptor, int rows, bool mn_major) {
  const auto [it, is_new] = operands_.emplace(std::tuple(descriptor, rows, mn_major), -1);
  if (!is_new) return it->second;
  const Descriptor d = decode(descriptor);
  const int64_t span = int64_t{16} << d.swizzle, chunks = span / 16;
  const bool plain = d.swizzle == 0;
  std::vector<Run> runs;
  const auto add = [&](int64_t offset) {
    const int64_t at = swizzled(d.swizzle, d.start + offset) - kWindow;
    runs.push_back({static_cast<int32_t>(at), static_cast<int32_t>(at + 16), kAllLanes});
  };
  for (int64_t r = 0; !mn_major && r < rows; ++r)
    for (int64_t c = 0; c < 2; ++c)
      add(r % 8 * span + r / 8 * d.stride + c * (plain ? d.leading : 16));
  for (int64_t j = 0; mn_major && j < rows / 8; ++j)
    for (int64_t k = 0; k < 16; ++k)
      add(plain ? k % 8 * 16 + k / 8 * d.leading + j * d.stride
                : j % chunks * 16 + j / chunks * d.leading + k % 8 * span + k / 8 * d.stride);
  return it->second = accesses_.intern(kNoSum, false, std::move(runs), {});
}

void Machine::product(const At& at) {
  Warp& warp = s_->warps[static_cast<size_t>(at.w)];
  if (at.instr.ins == Ins::kWgmmaFence) {
    warp.touched = 0;
    return;
  }
  const int in_cta = at.w % warps_a_cta_;
  if ((in_cta / kGroupWarps + 1) * kGroupWarps > warps_a_cta_)
    fault(Kind::kUniform, at, "wgmma in a group of fewer than four warps");
  if (at.instr.ins == Ins::kWgmmaCommit) {
    flush(at.w);
    if (warp.committed - warp.over >= kBatchTags)
      refuse(at.op, "more batches of products in flight than are modelled");
    const int group = at.w / kGroupWarps;
    const Agent tag = batch_agent(group, ++warp.committed);
    bool first = true;
    for (int w = group * kGroupWarps; w < (group + 1) * kGroupWarps; ++w)
      first = first && (w == at.w || s_->warps[static_cast<size_t>(w)].committed < warp.committed);
    if (first) clear(tag);
    release_control(at.w, tag);
    warp.batches.push_back(warp.open);
    warp.open = {};
    return;
  }
  flush_accesses(at.w);
  const uint64_t used = at.op.sums | at.op.fragments;
  if ((warp.touched & used) != 0)
    fault(
        Kind::kProductTokens, at,
        fmt::format("{} is used by the thread, and no wgmma.fence stands between",
                    flat_.group_names[static_cast<size_t>(std::countr_zero(warp.touched & used))]));
  warp.open.registers |= used;
  const bool from_registers = at.instr.regs.size() > 1;
  const auto take = [&](size_t arg, int rows, bool mn_major) {
    const int64_t descriptor = lane_number(at, arg, 0);
    if (!terms_.uniform(eval(at.w, at.op.args[arg])))
      fault(Kind::kUniform, at, "a matrix descriptor differs between lanes");
    warp.operands.push_back(operand(descriptor, rows, mn_major));
    warp.open.signature =
        (warp.open.signature ^ static_cast<uint64_t>(descriptor)) * 0x9E3779B97F4A7C15ull;
  };
  warp.open.signature += static_cast<uint64_t>(&at.op - flat_.ops.data());
  if (!from_registers) take(1, kRows, at.instr.trans_a);
  take(from_registers ? 1 : 2, at.instr.n, at.instr.trans_b);
  warp.operand_op = static_cast<int>(&at.op - flat_.ops.data());
}

void Machine::flush_operands(int w) {
  Warp& warp = s_->warps[static_cast<size_t>(w)];
  if (warp.operands.empty()) return;
  const AccessId a = accesses_.joined(std::move(warp.operands));
  warp.operands.clear();
  const int cta = cta_of(w);
  const ExtentId extent = s_->initialised[static_cast<size_t>(cta)];
  if (!accesses_.contains(extent, a))
    throw Fault{Kind::kInitialised,
                fmt::format("nothing has been written to {}",
                            address_text(accesses_.first_outside(extent, a))),
                w, warp.operand_op};
  check(w, warp.operand_op, cta, a, false, true, kAllLanes, true);
  Record r;
  r.of = Of::kRead;
  r.by = By::kProduct;
  r.running = true;
  r.cta = static_cast<int16_t>(cta);
  r.owner = static_cast<int16_t>(w / kGroupWarps);
  r.access = a;
  r.lanes = kAllLanes;
  r.group = warp.committed + 1;
  r.stmt = warp.operand_op;
  remember(r);
}

Machine::Progress Machine::wait_products(const At& at) {
  Warp& warp = s_->warps[static_cast<size_t>(at.w)];
  const uint32_t left = static_cast<uint32_t>(at.instr.n);
  if (warp.committed - warp.over <= left) return Progress::kOn;
  const uint32_t due = warp.committed - left;
  const int group = at.w / kGroupWarps, first = group * kGroupWarps;
  for (int w = first; w < first + kGroupWarps; ++w)
    if (s_->warps[static_cast<size_t>(w)].committed < due) return Progress::kWait;
  for (uint32_t batch = warp.over + 1; batch <= due; ++batch) {
    const Batch& mine = warp.batches[batch - warp.over - 1];
    for (int w = first; w < first + kGroupWarps; ++w) {
      const Warp& other = s_->warps[static_cast<size_t>(w)];
      if (batch > other.over && other.batches[batch - other.over - 1].signature != mine.signature)
        fault(Kind::kUniform, at, "the warps of a group issue different products");
    }
    const Agent tag = batch_agent(group, batch);
    for (Record& r : s_->records)
      if (r.known.has(tag)) r.known.set(all(at.w));
  }
  for (Record& r : s_->records)
    if (r.by == By::kProduct && r.owner == group && r.group <= due) r.known.set(all(at.w));
  warp.batches.erase(warp.batches.begin(),
                     warp.batches.begin() + static_cast<std::ptrdiff_t>(due - warp.over));
  warp.over = due;
  return Progress::kOn;
}

void Machine::touch(int w, const Op& op) {
  if (op.touched == 0) return;
  Warp& warp = s_->warps[static_cast<size_t>(w)];
  uint64_t busy = warp.open.registers;
  for (const Batch& b : warp.batches) busy |= b.registers;
  if ((busy & op.touched) != 0)
    throw Fault{
        Kind::kProductTokens,
        fmt::format("{} belongs to a product that may still run",
                    flat_.group_names[static_cast<size_t>(std::countr_zero(busy & op.touched))]),
        w, static_cast<int>(&op - flat_.ops.data())};
  warp.touched |= op.touched;
}

void Machine::finish_warp(int w) {
  Warp& warp = s_->warps[static_cast<size_t>(w)];
  flush(w);
  if (warp.committed != warp.over || warp.open.registers != 0)
    throw Fault{Kind::kProductTokens, "a warp ends while its products may still run", w, warp.pc};
  warp.done = true;
  cluster_complete_if_due();
  const int cta = cta_of(w), first = cta * warps_a_cta_;
  for (int other = first; other < first + warps_a_cta_; ++other)
    if (!s_->warps[static_cast<size_t>(other)].done) return;
  // The CTA's shared memory goes away: everything that touches it must be known to be over.
  for (const Record& r : s_->records) {
    if (r.cta != cta) continue;
    if (r.by == By::kBulk && r.running)
      throw Fault{Kind::kSharedRace, "a CTA ends while " + record_text(r), w, r.stmt};
    const bool owed = r.of == Of::kOwed || (r.of == Of::kWrite && r.by == By::kEngine);
    if (!owed) continue;
    if (!known_in_cta(r))
      throw Fault{
          Kind::kBarriers,
          r.of == Of::kOwed
              ? fmt::format("a CTA ends without having waited for an arrival of a peer at {}",
                            barrier_text(r.barrier))
              : fmt::format("a CTA ends without having waited for {}", who(r)),
          w, r.stmt};
  }
}

}  // namespace rooftile::verify::protocol
