// SPDX-License-Identifier: Apache-2.0
// Copies: boxes of tensor maps, bulk copies, st.async and cp.async, and their groups.
//
// A copy's bytes are there as soon as it is issued; that somebody may touch them is another matter:
// its record is known to nobody until the barrier's phase, or the group, is over.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>

#include "rooftile/verify/protocol/machine.h"

namespace rooftile::verify::protocol {
namespace {

using lanes::Ins;

constexpr int64_t kLocalMask = (int64_t{1} << kRankShift) - 1;
constexpr uint32_t kOldest = 255;  // groups older than that are alike

template <class Each>
void each_lane(uint32_t mask, Each each) {
  for (; mask != 0; mask &= mask - 1) each(std::countr_zero(mask));
}

Run run_of(int64_t offset, int64_t bytes, int lane) {
  return {static_cast<int32_t>(offset), static_cast<int32_t>(offset + bytes), 1u << lane};
}

int64_t box_bytes(const lanes::Program& p, const std::string& name) {
  for (const lanes::TensorMapUse& m : p.maps) {
    if (m.name != name) continue;
    int64_t bytes = 1;
    for (const int side : m.box) bytes *= side;
    for (const lanes::TensorUse& t : p.tensors)
      if (t.name == m.tensor) bytes *= size_bytes(t.dtype);
    return bytes;
  }
  return 0;
}

}  // namespace

void Machine::exec_copy(const At& at) {
  flush(at.w);
  switch (at.instr.ins) {
    case Ins::kTmaLoad:
    case Ins::kTmaLoadMulticast:
    case Ins::kBulkLoad:
      return tensor_load(at);
    case Ins::kStAsync:
      return store_async(at);
    case Ins::kTmaStore:
      return tensor_store(at);
    case Ins::kBulkCommit:
    case Ins::kBulkWaitRead:
    case Ins::kBulkWait:
      return bulk_group(at);
    case Ins::kCpAsync:
    case Ins::kCpCommit:
    case Ins::kCpWait:
    case Ins::kCpArrive:
      return thread_copy(at);
    default:
      refuse(at.op, "an instruction that the exploration does not know");
  }
}

// Bytes that come asynchronously, and count on a barrier of the CTA that gets them.
void Machine::engine_write(const At& at, AccessId a, int64_t bytes, int b) {
  const int cta = b / static_cast<int>(barrier_offsets_.size());
  const uint32_t lanes = accesses_[a].lanes;
  const int op = static_cast<int>(&at.op - flat_.ops.data());
  use_barrier(at, b, cta != cta_of(at.w), true);
  saw(arrives_[b], at.w, lanes);
  if (const Record* done = find(Of::kDone, b); done != nullptr && !knows(at.w, lanes, *done))
    fault(Kind::kBarriers, at,
          fmt::format("bytes for {} may count in the phase before", barrier_text(b)));
  // st.async is sent by the thread: towards its own accesses no proxy fence is needed.
  check(at.w, op, cta, a, true, at.instr.ins != Ins::kStAsync, lanes, false);
  Record r;
  r.of = Of::kWrite;
  r.by = By::kEngine;
  r.running = true;
  r.cta = static_cast<int16_t>(cta);
  r.owner = static_cast<int16_t>(b);
  r.barrier = b;
  r.access = a;
  r.lanes = lanes;
  r.stmt = op;
  remember(r);
  ExtentId& extent = s_->initialised[static_cast<size_t>(cta)];
  extent = accesses_.extended(extent, a);
  Barrier& barrier = s_->barriers[static_cast<size_t>(b)];
  barrier.issued += bytes;
  if (barrier.pending == 0 && barrier.issued > barrier.expected)
    fault(Kind::kBarriers, at,
          fmt::format("{} expects {} bytes in a phase, and {} are on their way", barrier_text(b),
                      barrier.expected, barrier.issued));
  release_control(at.w, gathered(b));
  complete_if_due(b);
}

void Machine::tensor_load(const At& at) {
  const bool multicast = at.instr.ins == Ins::kTmaLoadMulticast;
  const int64_t bytes =
      at.instr.ins == Ins::kBulkLoad ? at.instr.bytes : box_bytes(flat_.program, at.instr.map);
  if (bytes != at.instr.bytes)
    fault(Kind::kBarriers, at,
          fmt::format("a copy states {} bytes, and its box has {}", at.instr.bytes, bytes));
  each_lane(at.mask, [&](int lane) {
    const int64_t offset = lane_number(at, 0, lane) - kWindow, bar = lane_number(at, 1, lane);
    uint32_t targets = 1u << cta_of(at.w);
    if (multicast) targets = static_cast<uint32_t>(lane_number(at, 2, lane)) & 0xffff;
    if (targets == 0 || targets >> ctas_ != 0)
      fault(Kind::kBarriers, at,
            fmt::format("a multicast to CTAs {:#x} of a cluster of {}", targets, ctas_));
    const AccessId a = accesses_.intern(kNoSum, false, {run_of(offset, bytes, lane)}, {});
    each_lane(targets, [&](int cta) { engine_write(at, a, bytes, barrier_at(at, cta, bar)); });
  });
}

// Lanes that send to one barrier are one access, of the engine too.
void Machine::store_async(const At& at) {
  constexpr int64_t kBytes = 16;
  std::map<int, std::vector<Run>> sent;
  each_lane(at.mask, [&](int lane) {
    const int64_t address = lane_number(at, 0, lane), bar = lane_number(at, 1, lane);
    const int64_t rank = (address >> kRankShift) - 1;
    if (rank < 0 || rank >= ctas_ || bar >> kRankShift != rank + 1)
      fault(Kind::kBarriers, at, "st.async takes addresses of one peer for data and barrier");
    const int b = barrier_at(at, static_cast<int>(rank), bar & kLocalMask);
    sent[b].push_back(run_of((address & kLocalMask) - kWindow, kBytes, lane));
  });
  for (auto& [b, runs] : sent) {
    const int64_t bytes = kBytes * static_cast<int64_t>(runs.size());
    const AccessId a = accesses_.intern(kNoSum, false, std::move(runs), {});
    if (accesses_.self_crossing(a)) fault(Kind::kSharedRace, at, "two lanes send to one place");
    engine_write(at, a, bytes, b);
  }
}

// ---- bulk stores: they read shared memory until their group is waited for

void Machine::tensor_store(const At& at) {
  const int op = static_cast<int>(&at.op - flat_.ops.data());
  const int64_t bytes = box_bytes(flat_.program, at.instr.map);
  each_lane(at.mask, [&](int lane) {
    const int64_t offset = lane_number(at, 0, lane) - kWindow;
    const uint32_t bit = 1u << lane;
    const AccessId a = accesses_.intern(kNoSum, false, {run_of(offset, bytes, lane)}, {});
    const int cta = cta_of(at.w);
    const ExtentId extent = s_->initialised[static_cast<size_t>(cta)];
    if (!accesses_.contains(extent, a))
      fault(Kind::kInitialised, at,
            fmt::format("nothing has been written to {}",
                        address_text(accesses_.first_outside(extent, a))));
    check(at.w, op, cta, a, false, true, bit, false);
    Record r;
    r.of = Of::kRead;
    r.by = By::kBulk;
    r.running = true;
    r.cta = static_cast<int16_t>(cta);
    r.owner = static_cast<int16_t>(at.w);
    r.access = a;
    r.lanes = bit;
    r.stmt = op;
    remember(r);
  });
}

void Machine::bulk_group(const At& at) {
  const auto mine = [&](const Record& r) {
    return r.by == By::kBulk && r.owner == at.w && r.running && (r.lanes & ~at.mask) == 0;
  };
  if (at.instr.ins == Ins::kBulkCommit) {
    for (Record& r : s_->records)
      if (mine(r)) r.group = std::min(r.group + 1, kOldest);
    return;
  }
  const Agent to = part_of(at.w, at.mask);
  for (Record& r : s_->records)
    if (mine(r) && r.group > static_cast<uint32_t>(at.instr.n)) {
      r.running = false;
      r.group = 0;
      r.known.set(to);
    }
}

// ---- cp.async: writes of the thread, from whenever it has waited or told a barrier

void Machine::thread_copy(const At& at) {
  const auto mine = [&](const Record& r) {
    return r.by == By::kCopy && r.owner == at.w && r.running && (r.lanes & ~at.mask) == 0;
  };
  const int op = static_cast<int>(&at.op - flat_.ops.data());
  switch (at.instr.ins) {
    case Ins::kCpAsync: {
      const int64_t bytes = int64_t{at.instr.global.width} * size_bytes(at.instr.dtype);
      const AccessId a = access_of(at, eval(at.w, at.op.args[0]), bytes);
      if (accesses_.self_crossing(a)) fault(Kind::kSharedRace, at, "two lanes copy to one place");
      const int cta = cta_of(at.w);
      check(at.w, op, cta, a, true, false, at.mask, false);
      Record r;
      r.of = Of::kWrite;
      r.by = By::kCopy;
      r.running = true;
      r.cta = static_cast<int16_t>(cta);
      r.owner = static_cast<int16_t>(at.w);
      r.access = a;
      r.lanes = at.mask;
      r.stmt = op;
      remember(r);
      ExtentId& extent = s_->initialised[static_cast<size_t>(cta)];
      extent = accesses_.extended(extent, a);
      return;
    }
    case Ins::kCpCommit:
      for (Record& r : s_->records)
        if (mine(r)) r.group = std::min(r.group + 1, kOldest);
      return;
    case Ins::kCpWait:
      for (Record& r : s_->records)
        if (mine(r) && r.group > static_cast<uint32_t>(at.instr.n)) {
          r.by = By::kThread;
          r.running = false;
          r.group = 0;
        }
      return;
    default: {
      const int b = barrier_at(at, cta_of(at.w), lane_number(at, 0, std::countr_zero(at.mask)));
      each_lane(at.mask, [&](int lane) {
        if (barrier_at(at, cta_of(at.w), lane_number(at, 0, lane)) != b)
          refuse(at.op, "lanes tell different barriers of their copies");
      });
      use_barrier(at, b, false, false);
      for (Record& r : s_->records)
        if (mine(r)) r.known.set(gathered(b));
      arrive(at, b, std::popcount(at.mask), at.mask, Handing::kAll);
    }
  }
}

}  // namespace rooftile::verify::protocol
