// SPDX-License-Identifier: Apache-2.0
// Who knows of which access: accesses to shared memory against the history, and how knowledge
// moves.
//
// What a warp's threads do between two of its synchronisations is one read and one write, of unions
// of bytes: nothing that it learns or tells could stand between.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "rooftile/verify/protocol/machine.h"

namespace rooftile::verify::protocol {

using lanes::Ins;

// ---- accesses of threads

AccessId Machine::access_of(const At& at, ValueId address, int64_t bytes) {
  const Warp& warp = s_->warps[static_cast<size_t>(at.w)];
  const Value& v = terms_.value(address);
  if ((v.unknown & at.mask) != 0) refuse(at.op, "the address of an access is not known");
  const auto key = std::tuple(address, at.mask, bytes, at.may);
  if (const auto it = plain_.find(key); it != plain_.end()) return it->second;
  std::vector<Run> runs, hull;
  for (uint32_t left = at.mask; left != 0; left &= left - 1) {
    const int lane = std::countr_zero(left);
    const int64_t c = v.lane[static_cast<size_t>(lane)];
    const auto run = [&](int64_t begin, int64_t end) {
      return Run{static_cast<int32_t>(begin), static_cast<int32_t>(end), 1u << lane};
    };
    if (v.sum == kNoSum) {
      runs.push_back(run(c - kWindow, c - kWindow + bytes));
      continue;
    }
    runs.push_back(run(c, c + bytes));
    Interval b = known_bounds(address, lane);
    for (const Frame& f : warp.frames) {  // within the bounds of the loops around
      if (f.kind != Frame::kRepeat) continue;
      const Op& loop = flat_.ops[static_cast<size_t>(f.op)];
      const ValueId left_over = terms_.add(
          terms_.add(eval(at.w, loop.end), warp.slots[static_cast<size_t>(loop.slot)], -1),
          terms_.constant(-1));
      const Coefficients &mine = terms_.sum(v.sum),
                         &bound = terms_.sum(terms_.value(left_over).sum);
      if (bound.empty() || bound[0].first != mine[0].first) continue;
      const int64_t by = -mine[0].second / bound[0].second;
      if (by > 0) b.hi = std::min(b.hi, terms_.bounds(terms_.add(address, left_over, by), lane).hi);
    }
    if (b.lo < kWindow || b.hi >= kOpen) {
      want_facts(at.w);
      refuse(at.op, "the address of an access has no bounds");
    }
    if (b.lo <= b.hi) hull.push_back(run(b.lo - kWindow, b.hi - kWindow + bytes));
  }
  const AccessId out = accesses_.intern(v.sum, at.may, std::move(runs), std::move(hull));
  if (v.sum == kNoSum) plain_.emplace(key, out);  // the hull of a symbol depends on what is known
  return out;
}

void Machine::exec_shared(const At& at) {
  const Ins ins = at.instr.ins;
  if (ins == Ins::kAtomShared) refuse(at.op, "atomics on shared memory order themselves");
  const bool matrix = ins == Ins::kLdMatrix || ins == Ins::kStMatrix;
  At rows = at;
  if (matrix && at.instr.n < 4) rows.mask &= (1u << (8 * at.instr.n)) - 1;
  const AccessId a = access_of(rows, eval(at.w, at.op.args[0]), matrix ? 16 : at.instr.bytes);
  Warp& warp = s_->warps[static_cast<size_t>(at.w)];
  const int op = static_cast<int>(&at.op - flat_.ops.data());
  if (ins == Ins::kLdShared || ins == Ins::kLdMatrix) {
    for (const int slot : at.op.slots) assign(at.w, slot, kUnknownValue);
    ExtentId& extent = s_->initialised[static_cast<size_t>(cta_of(at.w))];
    if (!accesses_.contains(extent, a)) flush(at.w);
    if (!accesses_.contains(extent, a))
      fault(Kind::kInitialised, at,
            fmt::format("nothing has been written to {}",
                        address_text(accesses_.first_outside(extent, a))));
    warp.reads.push_back(a);
    warp.read_op = op;
  } else {
    warp.writes.push_back(a);
    warp.write_op = op;
  }
}

void Machine::flush(int w) {
  flush_accesses(w);
  flush_operands(w);
}

void Machine::flush_accesses(int w) {
  Warp& warp = s_->warps[static_cast<size_t>(w)];
  if (warp.reads.empty() && warp.writes.empty()) return;
  const auto parts = [&](std::vector<AccessId>& list) {
    std::map<std::pair<SumId, bool>, std::vector<AccessId>> by_kind;
    for (const AccessId a : list) by_kind[{accesses_[a].sum, accesses_[a].may}].push_back(a);
    list.clear();
    std::vector<AccessId> out;
    out.reserve(by_kind.size());
    for (auto& [kind, accesses] : by_kind) out.push_back(accesses_.joined(std::move(accesses)));
    return out;
  };
  const std::vector<AccessId> reads = parts(warp.reads), writes = parts(warp.writes);
  const int16_t cta = static_cast<int16_t>(cta_of(w));
  for (size_t i = 0; i < writes.size(); ++i) {
    bool apart = !accesses_.self_crossing(writes[i]);
    for (const AccessId r : reads) apart = apart && !accesses_.overlap(r, writes[i]).lanes_differ;
    for (size_t j = 0; j < i; ++j)
      apart = apart && !accesses_.overlap(writes[j], writes[i]).lanes_differ;
    if (!apart)
      throw Fault{Kind::kSharedRace,
                  "lanes of one warp meet at a byte that one of them writes, with no bar.warp.sync "
                  "between",
                  w, warp.write_op};
  }
  for (const bool write : {false, true})
    for (const AccessId a : write ? writes : reads) {
      const int op = write ? warp.write_op : warp.read_op;
      check(w, op, cta, a, write, false, accesses_[a].lanes, false);
      Record r;
      r.of = write ? Of::kWrite : Of::kRead;
      r.cta = cta;
      r.owner = static_cast<int16_t>(w);
      r.access = a;
      r.lanes = accesses_[a].lanes;
      r.stmt = op;
      remember(r);
      ExtentId& extent = s_->initialised[static_cast<size_t>(cta)];
      if (write) extent = accesses_.extended(extent, a);
    }
}

// An access by `lanes` of a warp (`as_group`: by a product, for all of them) against what others,
// and other lanes, have done.
void Machine::check(int w, int op, int cta, AccessId a, bool write, bool async, uint32_t lanes,
                    bool as_group) {
  const Warp& warp = s_->warps[static_cast<size_t>(w)];
  saw(touches_[{cta, a, write, async}], w, lanes);
  for (const Record& r : s_->records) {
    if (!r.memory() || r.cta != cta || (!write && r.of == Of::kRead)) continue;
    const Overlap overlap = accesses_.overlap(a, r.access);
    if (!overlap.any) continue;
    const bool own = r.by == By::kThread && r.owner == w && !as_group && !overlap.lanes_differ;
    if (!own && !knows(w, lanes, r)) {
      const bool arriving = !write && (r.by == By::kEngine || r.by == By::kCopy);
      throw Fault{arriving ? Kind::kInitialised : Kind::kSharedRace,
                  fmt::format("{} what {}", write ? "overwrites" : "reads", record_text(r)), w, op};
    }
    if (!async || !r.generic_write()) continue;
    const bool fenced =
        r.fenced.has(all(w)) || (r.fenced.has(part(w)) && (lanes & ~warp.part) == 0);
    if (!fenced)
      throw Fault{
          Kind::kFences,
          fmt::format("{} through the async proxy what {}, with no fence.proxy.async between",
                      write ? "overwrites" : "reads", record_text(r)),
          w, op};
  }
}

void Machine::remember(Record r) {
  if (r.of == Of::kWrite)
    std::erase_if(s_->records, [&](const Record& o) {
      return o.memory() && o.cta == r.cta && accesses_.covers(r.access, o.access);
    });
  for (Record& o : s_->records)
    if (o.of == r.of && o.by == r.by && o.cta == r.cta && o.owner == r.owner &&
        o.access == r.access && o.barrier == r.barrier && o.lanes == r.lanes) {
      o = r;
      return;
    }
  s_->records.push_back(r);
}

Record* Machine::find(Of of, int barrier, int owner) {
  for (Record& r : s_->records)
    if (r.of == of && r.barrier == barrier && (owner < 0 || r.owner == owner)) return &r;
  return nullptr;
}

// ---- knowledge

bool Machine::knows(int w, uint32_t lanes, const Record& r) const {
  const Warp& warp = s_->warps[static_cast<size_t>(w)];
  return r.known.has(all(w)) || (r.known.has(part(w)) && (lanes & ~warp.part) == 0);
}

void Machine::release(int w, uint32_t mask, Agent to, Handing handing) {
  const Warp& warp = s_->warps[static_cast<size_t>(w)];
  const bool has_part = (mask & warp.part) != 0;  // each lane hands in what it knows
  for (Record& r : s_->records) {
    const bool publishes = r.generic_write() || (r.of == Of::kInit && !r.flag);
    if (handing == Handing::kReadsOnly && publishes) continue;
    const bool own = r.by == By::kThread && r.owner == w && (r.memory() || r.of == Of::kInit) &&
                     (r.lanes & ~mask) == 0;
    if (own || r.known.has(all(w)) || (has_part && r.known.has(part(w)))) r.known.set(to);
    if (r.fenced.has(all(w)) || (has_part && r.fenced.has(part(w)))) r.fenced.set(to);
  }
}

// Of barriers alone: that a product is over says that its warps have come as far as issuing it.
void Machine::release_control(int w, Agent to) {
  for (Record& r : s_->records)
    if ((r.of == Of::kDone || r.of == Of::kDoneBefore || r.of == Of::kWaited) &&
        (r.known.has(all(w)) || r.known.has(part(w))))
      r.known.set(to);
}

// The agent for what the lanes of `mask` learn. Two masks: what both learn, their common lanes
// know.
Agent Machine::part_of(int w, uint32_t mask) {
  if (mask == kAllLanes) return all(w);
  Warp& warp = s_->warps[static_cast<size_t>(w)];
  if (warp.part == 0) {
    warp.part = mask;
  } else if ((warp.part & mask) != 0) {
    warp.part &= mask;
  } else {
    clear(part(w));
    warp.part = mask;
  }
  return part(w);
}

void Machine::acquire(int w, uint32_t mask, Agent from, Handing handing) {
  const Agent to = part_of(w, mask);
  for (Record& r : s_->records) {
    const bool publishes = r.generic_write() || (r.of == Of::kInit && !r.flag);
    if (handing == Handing::kOwnCta && publishes && r.cta != cta_of(w)) continue;
    if (r.known.has(from)) r.known.set(to);
    if (r.fenced.has(from)) r.fenced.set(to);
  }
}

void Machine::meet_lanes(int w) {
  for (Record& r : s_->records) {
    const bool own = r.by == By::kThread && r.owner == w && (r.memory() || r.of == Of::kInit);
    if (own || r.known.has(part(w))) r.known.set(all(w));
    if (r.fenced.has(part(w))) r.fenced.set(all(w));
  }
  clear(part(w));
  s_->warps[static_cast<size_t>(w)].part = 0;
}

void Machine::fence_proxy(int w, uint32_t mask) {
  const Agent to = part_of(w, mask);
  for (Record& r : s_->records) {
    if (!r.generic_write()) continue;
    const bool own = r.by == By::kThread && r.owner == w && (r.lanes & ~mask) == 0;
    if (own || r.known.has(all(w))) r.fenced.set(to);
    if (r.known.has(part(w))) r.fenced.set(part(w));  // part_of: these lanes are among `mask`
  }
}

void Machine::hand(Agent from, Agent to) {
  for (Record& r : s_->records) {
    if (r.known.has(from)) r.known.set(to);
    if (r.fenced.has(from)) r.fenced.set(to);
  }
}

void Machine::clear(Agent a) {
  for (Record& r : s_->records) {
    r.known.clear(a);
    r.fenced.clear(a);
  }
}

std::string Machine::who(const Record& r) const {
  switch (r.by) {
    case By::kThread:
      return place(r.owner, r.stmt);
    case By::kEngine:
      return "the copy at " + place(-1, r.stmt);
    case By::kProduct:
      return fmt::format("the products of group {}", r.owner % std::max(1, warps_a_cta_ / 4));
    case By::kBulk:
      return "the bulk store of " + place(r.owner, r.stmt);
    case By::kCopy:
      return "cp.async of " + place(r.owner, r.stmt);
  }
  return "";
}

std::string Machine::record_text(const Record& r) const {
  const Access& a = accesses_[r.access];
  const std::string where =
      a.widest().empty() ? "" : " (" + address_text(a.widest()[0].begin) + ")";
  return fmt::format("{} {}{}", who(r),
                     r.of == Of::kRead ? "may still read" : "may still be writing", where);
}

}  // namespace rooftile::verify::protocol
