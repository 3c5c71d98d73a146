// SPDX-License-Identifier: Apache-2.0
// mbarriers, named barriers and the cluster's barrier.
//
// Three rules make the order in which ready warps run irrelevant, for barriers that are told apart
// by a parity only. An arrival, or bytes, must know of the last completion: else they might count
// in the phase before. A wait that passes must know of the completion before the last: else it
// might have passed then. A completion must know of all waits that the last one ended: else one of
// them might still stand there, and see the wrong parity.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "rooftile/verify/protocol/machine.h"

namespace rooftile::verify::protocol {
namespace {

using lanes::Ins;

constexpr int kMaxArrivals = 1 << 20;
constexpr int64_t kMaxBytes = (1 << 20) - 1;

template <class Each>
void each_lane(uint32_t mask, Each each) {
  for (; mask != 0; mask &= mask - 1) each(std::countr_zero(mask));
}

}  // namespace

Machine::Progress Machine::exec_barrier(const At& at) {
  if (at.instr.ins != Ins::kBarWait && at.instr.ins != Ins::kBarWaitCluster) flush(at.w);
  switch (at.instr.ins) {
    case Ins::kBarInit:
      init_barriers(at);
      return Progress::kOn;
    case Ins::kBarInitFence:
      for (Record& r : s_->records)
        if (r.of == Of::kInit && r.owner == at.w && (r.lanes & ~at.mask) == 0) r.flag = true;
      return Progress::kOn;
    case Ins::kProxyFence:
      fence_proxy(at.w, at.mask);
      return Progress::kOn;
    case Ins::kBarWait:
    case Ins::kBarWaitCluster:
      return wait_at(at);
    default:
      arrive_at(at);
      return Progress::kOn;
  }
}

int Machine::barrier_at(const At& at, int cta, int64_t address) const {
  const int per_cta = static_cast<int>(barrier_offsets_.size());
  for (int i = 0; i < per_cta; ++i)
    if (barrier_offsets_[static_cast<size_t>(i)] == address - kWindow) return cta * per_cta + i;
  fault(Kind::kBarriers, at, fmt::format("no mbarrier is at {}", address_text(address - kWindow)));
}

void Machine::init_barriers(const At& at) {
  each_lane(at.mask, [&](int lane) {
    const int b = barrier_at(at, cta_of(at.w), lane_number(at, 0, lane));
    const int64_t count = lane_number(at, 1, lane);
    Barrier& barrier = s_->barriers[static_cast<size_t>(b)];
    if (barrier.ready) fault(Kind::kBarriers, at, barrier_text(b) + " is initialised again");
    if (count < 1 || count >= kMaxArrivals)
      fault(Kind::kBarriers, at,
            fmt::format("{} is initialised for {} arrivals", barrier_text(b), count));
    barrier.ready = true;
    barrier.count = barrier.pending = static_cast<int>(count);
    Record r;
    r.of = Of::kInit;
    r.cta = static_cast<int16_t>(cta_of(at.w));
    r.owner = static_cast<int16_t>(at.w);
    r.barrier = b;
    r.lanes = 1u << lane;
    r.stmt = static_cast<int32_t>(&at.op - flat_.ops.data());
    s_->records.push_back(r);
    const auto key =
        std::pair(cta_of(at.w), barrier_offsets_[static_cast<size_t>(b) % barrier_offsets_.size()]);
    uses_[key].cta = key.first;
    uses_[key].offset = key.second;
    uses_[key].arrivals = barrier.count;
  });
}

// The barrier must be known to be initialised; to the copy engine and to peers, past a fence.
void Machine::use_barrier(const At& at, int b, bool remote, bool engine) {
  if (!s_->barriers[static_cast<size_t>(b)].ready)
    fault(Kind::kBarriers, at, barrier_text(b) + " is used before it is initialised");
  if (const Record* init = find(Of::kInit, b)) {
    const bool own = init->owner == at.w && (at.mask & ~init->lanes) == 0;
    if (!own && !knows(at.w, at.mask, *init))
      fault(Kind::kBarriers, at,
            fmt::format("{} is used by a thread that is not ordered after its initialisation",
                        barrier_text(b)));
    if ((remote || engine) && !init->flag)
      fault(Kind::kBarriers, at,
            fmt::format("{} is used by {} without fence.mbarrier_init", barrier_text(b),
                        engine ? "the copy engine" : "another CTA"));
  }
  const int cta = b / static_cast<int>(barrier_offsets_.size());
  if (remote) {
    bool running = false;
    for (int w = cta * warps_a_cta_; w < (cta + 1) * warps_a_cta_; ++w)
      running = running || !s_->warps[static_cast<size_t>(w)].done;
    if (!running)
      fault(Kind::kBarriers, at,
            fmt::format("{} belongs to a CTA that may have ended", barrier_text(b)));
  }
}

void Machine::arrive_at(const At& at) {
  const Ins ins = at.instr.ins;
  const bool to_rank = ins == Ins::kBarArriveRemote || ins == Ins::kBarArriveRemoteRelease;
  // Lanes that arrive at one barrier hand in what they know together.
  for (uint32_t left = at.mask; left != 0;) {
    const int first = std::countr_zero(left);
    const auto target = [&](int lane) {
      int cta = cta_of(at.w);
      if (to_rank) {
        const int64_t rank = lane_number(at, 1, lane);
        if (rank < 0 || rank >= ctas_)
          fault(Kind::kBarriers, at, fmt::format("there is no CTA {} in the cluster", rank));
        cta = static_cast<int>(rank);
      }
      return barrier_at(at, cta, lane_number(at, 0, lane));
    };
    const int b = target(first);
    uint32_t same = 0;
    each_lane(left, [&](int lane) { same |= target(lane) == b ? 1u << lane : 0; });
    left &= ~same;
    const int cta = b / static_cast<int>(barrier_offsets_.size());
    const bool remote = cta != cta_of(at.w);
    use_barrier(at, b, remote, false);
    Barrier& barrier = s_->barriers[static_cast<size_t>(b)];
    if (ins == Ins::kBarExpect) {
      barrier.expected += int64_t{at.instr.bytes} * std::popcount(same);
      if (barrier.expected > kMaxBytes)
        fault(Kind::kBarriers, at, barrier_text(b) + " expects more bytes than it can count");
    }
    if (remote) {
      Record r;
      r.of = Of::kOwed;
      r.cta = static_cast<int16_t>(cta);
      r.owner = static_cast<int16_t>(at.w);
      r.barrier = b;
      r.lanes = same;
      r.stmt = static_cast<int32_t>(&at.op - flat_.ops.data());
      r.known.set(all(at.w));
      remember(r);
    }
    arrive(at, b, std::popcount(same), same,
           ins == Ins::kBarArriveRemote ? Handing::kReadsOnly : Handing::kAll);
  }
}

void Machine::arrive(const At& at, int b, int arrivals, uint32_t lanes, Handing handing) {
  Barrier& barrier = s_->barriers[static_cast<size_t>(b)];
  saw(arrives_[b], at.w, lanes);
  if (const Record* done = find(Of::kDone, b); done != nullptr && !knows(at.w, lanes, *done))
    fault(Kind::kBarriers, at,
          fmt::format("an arrival at {} may come before the phase before it is over",
                      barrier_text(b)));
  if (barrier.pending < arrivals)
    fault(Kind::kBarriers, at,
          fmt::format("more arrivals at {} than the {} that it was initialised for",
                      barrier_text(b), barrier.count));
  barrier.pending -= arrivals;
  release(at.w, lanes, gathered(b), handing);
  complete_if_due(b);
}

void Machine::complete_if_due(int b) {
  Barrier& barrier = s_->barriers[static_cast<size_t>(b)];
  if (barrier.pending > 0) return;
  if (barrier.issued > barrier.expected)
    throw Fault{Kind::kBarriers, fmt::format("{} expects {} bytes in a phase, and {} are copied",
                                             barrier_text(b), barrier.expected, barrier.issued)};
  if (barrier.issued < barrier.expected) return;
  complete(b);
}

void Machine::complete(int b) {
  Barrier& barrier = s_->barriers[static_cast<size_t>(b)];
  for (const Record& r : s_->records)
    if (r.of == Of::kWaited && r.barrier == b && !r.known.has(gathered(b)))
      throw Fault{Kind::kBarriers,
                  fmt::format("{} completes a phase while {} may still wait for the one before: it "
                              "would see the wrong parity",
                              barrier_text(b), place(r.owner, r.stmt)),
                  r.owner, r.stmt};
  std::erase_if(s_->records, [&](const Record& r) {
    return r.barrier == b && (r.of == Of::kWaited || r.of == Of::kDoneBefore);
  });
  if (Record* last = find(Of::kDone, b)) last->of = Of::kDoneBefore;
  for (Record& r : s_->records)
    if (r.by == By::kEngine && r.running && r.barrier == b) {
      r.running = false;
      r.known.set(done(b));
    }
  hand(gathered(b), done(b));
  clear(gathered(b));
  Record now;
  now.of = Of::kDone;
  now.barrier = b;
  now.cta = static_cast<int16_t>(b / static_cast<int>(barrier_offsets_.size()));
  now.known.set(done(b));
  s_->records.push_back(now);
  const size_t per_cta = barrier_offsets_.size();
  BarrierUse& use = uses_[{static_cast<int>(static_cast<size_t>(b) / per_cta),
                           barrier_offsets_[static_cast<size_t>(b) % per_cta]}];
  use.bytes.insert(barrier.expected);
  barrier.phase = !barrier.phase;
  barrier.pending = barrier.count;
  barrier.expected = barrier.issued = 0;
}

Machine::Progress Machine::wait_at(const At& at) {
  bool over = true;
  std::vector<std::pair<int, uint32_t>> waited;
  each_lane(at.mask, [&](int lane) {
    const int b = barrier_at(at, cta_of(at.w), lane_number(at, 0, lane));
    const int64_t parity = lane_number(at, 1, lane);
    if (parity < 0 || parity > 1)
      fault(Kind::kBarriers, at, fmt::format("a wait for parity {}", parity));
    over = over && (parity != 0) != s_->barriers[static_cast<size_t>(b)].phase;
    if (waited.empty() || waited.back().first != b) waited.emplace_back(b, 0);
    waited.back().second |= 1u << lane;
  });
  for (const auto& [b, lanes] : waited) {
    saw(waits_[b], at.w, lanes);
    use_barrier(at, b, false, false);
  }
  if (!over) return Progress::kWait;
  flush(at.w);
  for (const auto& [b, lanes] : waited) {
    if (const Record* before = find(Of::kDoneBefore, b);
        before != nullptr && !knows(at.w, lanes, *before))
      fault(Kind::kBarriers, at,
            fmt::format("a wait at {} may pass for the phase before the last, which has the same "
                        "parity",
                        barrier_text(b)));
    acquire(at.w, lanes, done(b),
            at.instr.ins == Ins::kBarWait && ctas_ > 1 ? Handing::kOwnCta : Handing::kAll);
    Record r;
    r.of = Of::kWaited;
    r.cta = static_cast<int16_t>(cta_of(at.w));
    r.owner = static_cast<int16_t>(at.w);
    r.barrier = b;
    r.stmt = static_cast<int32_t>(&at.op - flat_.ops.data());
    r.known.set(all(at.w));
    r.known.set(part(at.w));
    remember(r);
  }
  return Progress::kOn;
}

// ---- threads and CTAs meeting

Machine::Progress Machine::exec_meeting(const At& at) {
  switch (at.instr.ins) {
    case Ins::kSyncWarp:
      flush(at.w);
      meet_lanes(at.w);
      return Progress::kOn;
    case Ins::kSyncThreads:
      return named(at, 0, flat_.program.threads, true);
    case Ins::kNamedSync:
    case Ins::kNamedArrive: {
      const int64_t id = lane_number(at, 0, 0);
      if (!terms_.uniform(eval(at.w, at.op.args[0])))
        fault(Kind::kUniform, at, "lanes name different barriers");
      const int threads = at.instr.n;
      if (id < 0 || id > 15 || threads % kLanes != 0 || threads < kLanes ||
          threads > flat_.program.threads)
        fault(Kind::kBarriers, at,
              fmt::format("there is no barrier {} of {} threads", id, threads));
      return named(at, static_cast<int>(id), threads, at.instr.ins == Ins::kNamedSync);
    }
    default:
      return cluster(at);
  }
}

Machine::Progress Machine::named(const At& at, int id, int threads, bool wait) {
  Warp& warp = s_->warps[static_cast<size_t>(at.w)];
  const int b = named_index(at.w, id);
  if (warp.arrived) {
    if (!warp.released) return Progress::kWait;
    warp.arrived = warp.released = false;
    return Progress::kOn;
  }
  flush(at.w);
  NamedBarrier& barrier = s_->named[static_cast<size_t>(int64_t{cta_of(at.w)} * 16 + id)];
  if (barrier.arrived > 0 && barrier.threads != threads)
    fault(Kind::kBarriers, at,
          fmt::format("{} threads are to meet at barrier {} here, {} elsewhere", threads, id,
                      barrier.threads));
  if (const Record* last = find(Of::kDone, b); last != nullptr && !knows(at.w, at.mask, *last))
    fault(Kind::kBarriers, at,
          fmt::format("an arrival at barrier {} may come before those that it is not for have met",
                      id));
  saw(arrives_[b], at.w, kAllLanes);
  if (wait) saw(waits_[b], at.w, kAllLanes);
  barrier.threads = threads;
  barrier.arrived += kLanes;
  if (barrier.arrived > threads)
    fault(Kind::kBarriers, at,
          fmt::format("{} threads come to barrier {}, which is for {}", barrier.arrived, id,
                      threads));
  release(at.w, kAllLanes, gathered(b), Handing::kAll);
  if (wait) warp.arrived = true;
  if (barrier.arrived < threads) return wait ? Progress::kWait : Progress::kOn;
  barrier.arrived = 0;
  std::erase_if(s_->records, [&](const Record& r) { return r.of == Of::kDone && r.barrier == b; });
  Record now;
  now.of = Of::kDone;
  now.barrier = b;
  now.cta = static_cast<int16_t>(cta_of(at.w));
  now.known.set(gathered(b));
  s_->records.push_back(now);
  const int first = cta_of(at.w) * warps_a_cta_;
  for (int w = first; w < first + warps_a_cta_; ++w) {
    Warp& other = s_->warps[static_cast<size_t>(w)];
    if (!other.arrived || other.released) continue;
    const Op& op = flat_.ops[static_cast<size_t>(other.pc)];
    const bool here = op.stmt->instr.ins == Ins::kSyncThreads
                          ? id == 0
                          : lane_number({w, op, op.stmt->instr, kAllLanes, false}, 0, 0) == id;
    if (!here) continue;
    other.released = true;
    acquire(w, kAllLanes, gathered(b), Handing::kAll);
    meet_lanes(w);
  }
  clear(gathered(b));
  if (!wait) return Progress::kOn;
  warp.arrived = warp.released = false;
  return Progress::kOn;
}

// Every thread that has not ended arrives once, then waits once.
Machine::Progress Machine::cluster(const At& at) {
  Warp& warp = s_->warps[static_cast<size_t>(at.w)];
  const int b = first_named_ + 16 * ctas_;
  if (at.instr.ins == Ins::kClusterWait) {
    saw(waits_[b], at.w, at.mask);
    if ((at.mask & ~(warp.cluster_arrived | warp.cluster_over)) != 0)
      fault(Kind::kBarriers, at, "a thread waits at the cluster's barrier without having arrived");
    if ((at.mask & ~warp.cluster_over) != 0) return Progress::kWait;
    flush(at.w);
    warp.cluster_over &= ~at.mask;
    acquire(at.w, at.mask, done(b), Handing::kAll);
    if (at.mask == kAllLanes) meet_lanes(at.w);
    return Progress::kOn;
  }
  flush(at.w);
  if ((at.mask & (warp.cluster_arrived | warp.cluster_over)) != 0)
    fault(Kind::kBarriers, at, "a thread arrives twice at the cluster's barrier without a wait");
  warp.cluster_arrived |= at.mask;
  release(at.w, at.mask, gathered(b),
          at.instr.ins == Ins::kClusterArriveRelease ? Handing::kAll : Handing::kReadsOnly);
  cluster_complete_if_due();
  return Progress::kOn;
}

void Machine::cluster_complete_if_due() {
  bool any = false;
  for (const Warp& w : s_->warps) {
    if (!w.done && w.cluster_arrived != kAllLanes) return;
    any = any || w.cluster_arrived != 0;
  }
  if (!any) return;
  for (Warp& w : s_->warps) {
    w.cluster_over |= w.cluster_arrived;
    w.cluster_arrived = 0;
  }
  const int b = first_named_ + 16 * ctas_;
  clear(done(b));
  hand(gathered(b), done(b));
  clear(gathered(b));
}

Machine::Progress Machine::registers(const At& at) {
  Warp& warp = s_->warps[static_cast<size_t>(at.w)];
  const int wanted = at.instr.n, more = wanted - warp.registers;
  if (wanted % 8 != 0 || wanted < 24 || wanted > 256 ||
      (at.instr.ins == Ins::kRegsInc) != (more >= 0))
    fault(Kind::kBudget, at,
          fmt::format("setmaxnreg from {} to {} registers", warp.registers, wanted));
  int& free = s_->free_registers[static_cast<size_t>(cta_of(at.w))];
  if (more * kLanes > free) return Progress::kWait;
  free -= more * kLanes;
  warp.registers = wanted;
  return Progress::kOn;
}

// ---- texts

std::string Machine::barrier_text(int b) const {
  if (b >= num_mbarriers_) {
    if (b - first_named_ >= 16 * ctas_) return "the cluster's barrier";
    return fmt::format("barrier {}", (b - first_named_) % 16);
  }
  const size_t per_cta = barrier_offsets_.size();
  const std::string where = address_text(barrier_offsets_[static_cast<size_t>(b) % per_cta]);
  if (ctas_ == 1) return where;
  return fmt::format("{} of CTA {}", where, static_cast<size_t>(b) / per_cta);
}

std::string Machine::address_text(int64_t offset) const {
  for (const lanes::SharedAlloc& a : flat_.program.shared)
    if (offset >= a.offset && offset < a.offset + a.bytes) {
      if (a.barriers) return fmt::format("{}[{}]", a.name, (offset - a.offset) / 8);
      return fmt::format("{} + {}", a.name, offset - a.offset);
    }
  return fmt::format("byte {} of shared memory", offset);
}

std::vector<std::string> Machine::waits(const State& state) {
  s_ = const_cast<State*>(&state);
  std::vector<std::string> out;
  for (size_t w = 0; w < state.warps.size(); ++w) {
    const Warp& warp = state.warps[w];
    if (warp.done) continue;
    const Op& op = flat_.ops[static_cast<size_t>(warp.pc)];
    std::string line = place(static_cast<int>(w), warp.pc) + " waits";
    if (op.kind == OpKind::kInstr &&
        (op.stmt->instr.ins == Ins::kBarWait || op.stmt->instr.ins == Ins::kBarWaitCluster)) {
      const At at{static_cast<int>(w), op, op.stmt->instr, warp.mask, false};
      const int lane = std::countr_zero(warp.mask);
      const int b = barrier_at(at, cta_of(at.w), lane_number(at, 0, lane));
      const Barrier& barrier = state.barriers[static_cast<size_t>(b)];
      line += fmt::format(" for {}: {} of {} arrivals and {} of {} bytes are missing",
                          barrier_text(b), barrier.pending, barrier.count,
                          barrier.expected - barrier.issued, barrier.expected);
    }
    out.push_back(std::move(line));
  }
  return out;
}

}  // namespace rooftile::verify::protocol
