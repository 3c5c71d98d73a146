// SPDX-License-Identifier: Apache-2.0
// mbarriers, fences, and the barriers where threads and CTAs meet.
#include <fmt/format.h>

#include <bit>

#include "rooftile/emulate/machine.h"

namespace rooftile::emulate {
namespace {

using lanes::Ins;

template <class Each>
void each_lane(uint32_t mask, Each each) {
  for (; mask != 0; mask &= mask - 1) each(std::countr_zero(mask));
}

constexpr int kMaxBarriers = 16;           // named ones of a CTA
constexpr int64_t kMaxArrivals = 1 << 20;  // of an mbarrier
constexpr int64_t kMaxTx = (1 << 20) - 1;

}  // namespace

bool Machine::exec_barrier(const At& at) {
  Warp& warp = at.warp;
  switch (at.instr.ins) {
    case Ins::kBarInit:
      each_lane(at.mask, [&](int lane) { barrier_init(at, lane); });
      return true;
    case Ins::kBarWait:
    case Ins::kBarWaitCluster:
      return barrier_wait(at);
    case Ins::kBarInitFence:
      for (auto& [offset, barrier] : at.cta().barriers)
        if (barrier.init.agent() == warp.clock.writes() &&
            (at.mask >> barrier.init.lane() & 1) != 0)
          barrier.fenced = true;
      return true;
    case Ins::kProxyFence:
      warp.clock.fence_proxy(at.mask, at.cluster().agents.num_warp_agents());
      return true;
    case Ins::kFence:
      return true;
    default:
      barrier_arrive(at);
      return true;
  }
}

// ---- mbarriers

void Machine::barrier_init(const At& at, int lane) {
  const int64_t offset = static_cast<int64_t>(arg(at, 0).u[lane]) - kWindowStart;
  const int64_t count = arg(at, 1).i[lane];
  bool inside = false;
  for (const lanes::SharedAlloc& a : code_.program.shared)
    inside |= a.barriers && offset >= a.offset && offset + 8 <= a.offset + a.bytes;
  if (!inside || offset % 8 != 0)
    throw Fault{.code = ErrorCode::kEmuBounds,
                .message = "an mbarrier is initialised outside the allocations for barriers",
                .found = address_text(offset),
                .expected = "8 aligned bytes of one",
                .lane = lane};
  if (count < 1 || count >= kMaxArrivals)
    throw Fault{.code = ErrorCode::kEmuBarrier,
                .message = "an mbarrier is initialised with an impossible count",
                .found = std::to_string(count),
                .lane = lane};
  Cta& cta = at.cta();
  if (const auto it = cta.barriers.find(offset); it != cta.barriers.end())
    throw Fault{.code = ErrorCode::kEmuBarrier,
                .message = "an mbarrier is initialised again",
                .found = barrier_text(cta, it->second),
                .lane = lane};
  Barrier& barrier = cta.barriers[offset];
  barrier.offset = offset;
  barrier.count = barrier.pending = static_cast<int>(count);
  barrier.agent = at.cluster().agents.add(AgentKind::kBarrier, cta.rank, static_cast<int>(offset));
  barrier.init = at.warp.clock.stamp(at.warp.clock.writes(), lane, at.stmt);
}

// The barrier at a shared address of `cta`, whose initialisation the lane must know of: by any
// release, or, past its fence, by a relaxed arrival too.
Barrier& Machine::barrier_at(const At& at, Cta& cta, int64_t address, int lane, bool remote) {
  const auto it = cta.barriers.find(address - kWindowStart);
  if (it == cta.barriers.end())
    throw Fault{.code = ErrorCode::kEmuBarrier,
                .message = "no mbarrier has been initialised here",
                .found = address_text(address - kWindowStart) +
                         (remote ? fmt::format(" of CTA {}", cta.rank) : ""),
                .expected = "mbarrier.init before the first use, and a barrier between the two",
                .lane = lane};
  Barrier& barrier = it->second;
  const Stamp as_read(barrier.init.agent() - 1, barrier.init.epoch(), barrier.init.lane(), 0);
  const bool known = at.warp.clock.covers(barrier.init, lane) && (!remote || barrier.fenced);
  if (!known && !(barrier.fenced && at.warp.clock.covers(as_read, lane)))
    throw Fault{.code = ErrorCode::kEmuBarrier,
                .message = "use of an mbarrier is not ordered after its initialisation",
                .found = barrier_text(cta, barrier) + ", initialised by " +
                         who_text(*cta.cluster, barrier.init),
                .expected = remote ? "fence.mbarrier_init and a cluster barrier between the two"
                                   : "a barrier between the two",
                .lane = lane};
  if (cta.running == 0)
    throw Fault{.code = ErrorCode::kEmuExit,
                .message = "a barrier of a CTA that has ended is used",
                .found = barrier_text(cta, barrier),
                .fix = "a CTA must wait for what its peers owe it before it ends",
                .lane = lane};
  return barrier;
}

void Machine::barrier_arrive(const At& at) {
  const Ins ins = at.instr.ins;
  const bool to_rank = ins == Ins::kBarArriveRemote || ins == Ins::kBarArriveRemoteRelease;
  const Cell& address = arg(at, 0);
  const uint32_t epoch = at.warp.clock.now();
  const Clock handed = at.warp.clock.release(at.mask);
  each_lane(at.mask, [&](int lane) {
    Cta* cta = &at.cta();
    if (to_rank) {
      const uint32_t rank = arg(at, 1).u[lane];
      if (rank >= static_cast<uint32_t>(code_.program.cluster))
        throw Fault{.code = ErrorCode::kEmuBounds,
                    .message = "no such CTA in the cluster",
                    .found = fmt::format("rank {}", rank),
                    .expected = fmt::format("below {}", code_.program.cluster),
                    .lane = lane};
      cta = at.cluster().ctas[rank].get();
    }
    const bool remote = cta != &at.cta();
    Barrier& barrier = barrier_at(at, *cta, address.u[lane], lane, remote);
    if (ins == Ins::kBarExpect) {
      barrier.tx += at.instr.bytes;
      barrier.expected += at.instr.bytes;
      if (barrier.tx > kMaxTx)
        throw Fault{.code = ErrorCode::kEmuBarrier,
                    .message = "an mbarrier expects more bytes than it can count",
                    .found = barrier_text(*cta, barrier),
                    .expected = fmt::format("at most {}", kMaxTx),
                    .lane = lane};
    }
    if (remote) {
      std::erase_if(barrier.remote_arrivals, [&](const Stamp& s) {
        return s.agent() == at.warp.clock.reads() && s.lane() == lane;
      });
      barrier.remote_arrivals.push_back(Stamp(at.warp.clock.reads(), epoch, lane, at.stmt));
    }
    arrive(*cta, barrier, 1,
           ins == Ins::kBarArriveRemote
               ? at.cluster().agents.filtered(handed, Handing::kReadsOnly, cta->rank)
               : handed);
  });
}

void Machine::arrive(Cta& cta, Barrier& barrier, int arrivals, const Clock& handed) {
  if (barrier.pending < arrivals)
    throw Fault{.code = ErrorCode::kEmuBarrier,
                .message = "more arrivals than an mbarrier expects in a phase",
                .found = barrier_text(cta, barrier),
                .expected = fmt::format("{} arrivals a phase", barrier.count),
                .fix = "initialise it with the number of threads that arrive"};
  barrier.pending -= arrivals;
  barrier.gathered.join(handed);
  complete_if_due(cta, barrier);
}

void Machine::complete_if_due(Cta& cta, Barrier& barrier) {
  if (barrier.pending > 0) return;
  if (barrier.issued > barrier.expected)
    throw Fault{.code = ErrorCode::kEmuBarrier,
                .message = "more bytes are on their way to a barrier than it expects",
                .found = barrier_text(cta, barrier),
                .expected = fmt::format("{} bytes in this phase", barrier.issued),
                .fix = "expect the whole box of each copy, clipped ones included"};
  if (barrier.tx != 0) return;
  ++barrier.phase;
  barrier.done.join(barrier.gathered);
  barrier.done.at(barrier.agent).join({barrier.phase, 0, 0});
  barrier.gathered = {};
  barrier.pending = barrier.count;
  barrier.expected = barrier.issued = 0;
}

bool Machine::barrier_wait(const At& at) {
  const Cell& address = arg(at, 0);
  const Cell& parity = arg(at, 1);
  bool over = true;
  each_lane(at.mask, [&](int lane) {
    if (parity.u[lane] > 1)
      throw Fault{.code = ErrorCode::kEmuBarrier,
                  .message = "a parity is 0 or 1",
                  .found = std::to_string(parity.u[lane]),
                  .lane = lane};
    const Barrier& barrier = barrier_at(at, at.cta(), address.u[lane], lane, false);
    over = over && parity.u[lane] != (barrier.phase & 1);
  });
  if (!over) return false;
  // Lanes that wait on one barrier learn of it together.
  const bool own_cta = at.instr.ins == Ins::kBarWait && code_.program.cluster > 1;
  for (uint32_t left = at.mask; left != 0;) {
    const uint32_t bar = address.u[std::countr_zero(left)];
    uint32_t same = 0;
    each_lane(left, [&](int lane) { same |= address.u[lane] == bar ? 1u << lane : 0; });
    left &= ~same;
    Barrier& barrier = at.cta().barriers.at(static_cast<int64_t>(bar) - kWindowStart);
    if (own_cta)
      at.warp.clock.acquire(
          same, at.cluster().agents.filtered(barrier.done, Handing::kOwnCta, at.cta().rank));
    else
      at.warp.clock.acquire(same, barrier.done);
  }
  return true;
}

// ---- threads and CTAs meeting

bool Machine::exec_meeting(const At& at) {
  switch (at.instr.ins) {
    case Ins::kSyncThreads:
      return named_sync(at, 0, code_.program.threads, true);
    case Ins::kNamedSync:
    case Ins::kNamedArrive: {
      const int id = static_cast<int>(uniform_arg(at, 0));
      const int threads = at.instr.n;
      if (id < 0 || id >= kMaxBarriers || threads % kLanes != 0 || threads < kLanes ||
          threads > code_.program.threads)
        throw Fault{
            .code = ErrorCode::kEmuBarrier,
            .message = "no such named barrier",
            .found = fmt::format("barrier {} of {} threads", id, threads),
            .expected = fmt::format("0 to {}, of whole warps of the CTA", kMaxBarriers - 1)};
      return named_sync(at, id, threads, at.instr.ins == Ins::kNamedSync);
    }
    case Ins::kSyncWarp:
      at.warp.clock.meet_lanes();
      return true;
    case Ins::kClusterWait:
      return cluster_wait(at);
    default:
      cluster_arrive(at, at.instr.ins == Ins::kClusterArriveRelease);
      return true;
  }
}

bool Machine::named_sync(const At& at, int id, int threads, bool wait) {
  NamedBarrier& barrier = at.cta().named[id];
  if (at.strand.entered) {
    if (barrier.generation == at.strand.generation) return false;
    at.warp.clock.acquire(kAllLanes, barrier.done);
    at.warp.clock.meet_lanes();
    return true;
  }
  if (barrier.arrived > 0 && barrier.threads != threads)
    throw Fault{
        .code = ErrorCode::kEmuBarrier,
        .message = fmt::format("threads disagree on how many meet at barrier {}", id),
        .found = fmt::format("{} here, {} by those already there", threads, barrier.threads)};
  barrier.threads = threads;
  barrier.arrived += kLanes;
  barrier.gathered.join(at.warp.clock.release(kAllLanes));
  at.strand.generation = barrier.generation;
  if (barrier.arrived > barrier.threads)
    throw Fault{.code = ErrorCode::kEmuBarrier,
                .message = fmt::format("more threads come to barrier {} than it is for", id),
                .found = fmt::format("{} of {}", barrier.arrived, barrier.threads)};
  if (barrier.arrived == barrier.threads) {
    ++barrier.generation;
    barrier.done = std::move(barrier.gathered);
    barrier.gathered = {};
    barrier.arrived = 0;
  }
  if (!wait) return true;
  at.strand.entered = true;
  return named_sync(at, id, threads, wait);
}

void Machine::cluster_arrive(const At& at, bool release) {
  Cluster& cluster = at.cluster();
  each_lane(at.mask, [&](int lane) {
    if (at.warp.cluster_arrived[lane] > at.warp.cluster_waited[lane])
      throw Fault{.code = ErrorCode::kEmuBarrier,
                  .message = "a thread arrives twice at the cluster's barrier without a wait",
                  .lane = lane};
    ++at.warp.cluster_arrived[lane];
  });
  const Clock handed = at.warp.clock.release(at.mask);
  cluster.gathered.join(
      release ? handed : cluster.agents.filtered(handed, Handing::kReadsOnly, at.cta().rank));
  cluster_complete_if_due(cluster);
}

// Over when every thread that has not ended has arrived.
void Machine::cluster_complete_if_due(Cluster& cluster) {
  bool any = false;
  for (const auto& cta : cluster.ctas)
    for (const auto& warp : cta->warps)
      for (int lane = 0; lane < kLanes; ++lane) {
        const bool arrived = warp->cluster_arrived[lane] > cluster.generation;
        if (!arrived && !warp->done) return;
        any |= arrived;
      }
  if (!any) return;
  ++cluster.generation;
  cluster.done = std::move(cluster.gathered);
  cluster.gathered = {};
}

bool Machine::cluster_wait(const At& at) {
  Cluster& cluster = at.cluster();
  bool over = true;
  each_lane(at.mask, [&](int lane) {
    if (at.warp.cluster_arrived[lane] == at.warp.cluster_waited[lane])
      throw Fault{.code = ErrorCode::kEmuBarrier,
                  .message = "a thread waits at the cluster's barrier without having arrived",
                  .lane = lane};
    over = over && cluster.generation > at.warp.cluster_waited[lane];
  });
  if (!over) return false;
  each_lane(at.mask, [&](int lane) { ++at.warp.cluster_waited[lane]; });
  at.warp.clock.acquire(at.mask, cluster.done);
  // A wait by all lanes is one of the barriers that the warp itself meets at.
  if (at.mask == kAllLanes) at.warp.clock.meet_lanes();
  return true;
}

}  // namespace rooftile::emulate
