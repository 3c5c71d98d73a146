// SPDX-License-Identifier: Apache-2.0
// Who knows of which memory accesses: stamps, vector clocks, and a warp's own ones.
//
// Every access carries a Stamp: who did it (an agent), which lane, in which epoch of the agent, at
// which instruction. A Clock says up to which epoch each agent's accesses are ordered before
// whatever its owner does next. Barriers join clocks; an access that meets an earlier conflicting
// one outside its clock is a race, in whatever order the emulator happened to run the two.
//
// A warp is three agents: its reads, its generic writes, and its generic writes as the async proxy
// sees them (known only past a proxy fence). Asynchronous operations have agents of their own: the
// mbarrier whose phase they complete, a warpgroup's products, a thread's bulk groups.
//
// Lanes of a warp are told apart only as far as needed: what all lanes know, and what the lanes of
// one mask know in addition since the warp last met.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "rooftile/emulate/cell.h"

namespace rooftile::emulate {

using Agent = uint32_t;

// Zero: nothing has touched the byte.
class Stamp {
 public:
  Stamp() = default;
  Stamp(Agent agent, uint32_t epoch, int lane, int pc)
      : bits_(static_cast<uint64_t>(agent) << 50 | static_cast<uint64_t>(lane) << 45 |
              static_cast<uint64_t>(pc & 0x7fff) << 30 | (epoch & 0x3fffffff)) {}
  Agent agent() const { return static_cast<Agent>(bits_ >> 50); }
  int lane() const { return static_cast<int>(bits_ >> 45) & 31; }
  int pc() const { return static_cast<int>(bits_ >> 30) & 0x7fff; }
  uint32_t epoch() const { return static_cast<uint32_t>(bits_) & 0x3fffffff; }
  bool present() const { return bits_ != 0; }
  bool operator==(const Stamp&) const = default;
  uint64_t bits() const { return bits_; }
  static Stamp from_bits(uint64_t bits) {
    Stamp s;
    s.bits_ = bits;
    return s;
  }

 private:
  uint64_t bits_ = 0;  // agent 13, lane 5, pc 15, epoch 30, counted from 1; the top bit is free
};

// What is known of one agent: everything up to epoch `all`, and up to `part` of the lanes in mask.
struct Known {
  uint32_t all = 0, part = 0, mask = 0;
  bool covers(uint32_t epoch, int lane) const {
    return epoch <= all || (epoch <= part && (mask >> lane & 1) != 0);
  }
  void join(const Known& other);
  void meet(const Known& other);  // what both know
};

class Clock {
 public:
  bool covers(const Stamp& s) const {
    return s.agent() < known_.size() && known_[s.agent()].covers(s.epoch(), s.lane());
  }
  Known get(Agent agent) const { return agent < known_.size() ? known_[agent] : Known(); }
  Known& at(Agent agent);
  void join(const Clock& other);
  void meet(const Clock& other);
  size_t size() const { return known_.size(); }

 private:
  std::vector<Known> known_;  // by agent; what lies beyond is unknown
};

// Agents of a cluster: three for each warp, one for each warpgroup, then those made on demand.
enum class AgentKind : uint8_t {
  kReads,
  kWrites,
  kFencedWrites,
  kProducts,
  kBarrier,
  kBulk,
  kCopies,
  kGrids,  // the kernels before this one
};
struct AgentInfo {
  AgentKind kind = AgentKind::kReads;
  int cta = 0;
  int warp = 0;  // kBarrier: address; kProducts: warpgroup
};

// How much of a clock an operation hands on.
enum class Handing : uint8_t {
  kAll,
  kReadsOnly,  // relaxed: ends reads and passes asynchronous completions on, publishes no writes
  kOwnCta,     // as acquired with .cta scope: no generic writes of other CTAs
};

class Agents {
 public:
  Agents(int ctas, int warps_a_cta);
  Agent reads(int cta, int warp) const { return 1 + 3 * static_cast<Agent>(cta * warps_ + warp); }
  Agent writes(int cta, int warp) const { return reads(cta, warp) + 1; }
  Agent fenced(int cta, int warp) const { return reads(cta, warp) + 2; }
  Agent products(int cta, int group) const {
    return 1 + 3 * static_cast<Agent>(ctas_ * warps_) + static_cast<Agent>(cta * groups_ + group);
  }
  Agent add(AgentKind kind, int cta, int warp);
  const AgentInfo& operator[](Agent agent) const { return infos_[agent]; }
  bool full() const { return infos_.size() >= (1u << 13) - 1; }
  int num_warp_agents() const { return 3 * ctas_ * warps_; }
  // `from` as handed on to a thread of `cta`.
  Clock filtered(const Clock& from, Handing handing, int cta) const;

 private:
  int ctas_, warps_, groups_;
  std::vector<AgentInfo> infos_;
};

// The clock of a warp.
class WarpClock {
 public:
  void init(Agent reads) { reads_ = reads; }
  Agent reads() const { return reads_; }
  Agent writes() const { return reads_ + 1; }
  Agent fenced() const { return reads_ + 2; }
  uint32_t now() const { return now_; }
  uint32_t synced() const { return synced_; }

  // Whether an earlier access is ordered before what `lane` does now.
  bool covers(const Stamp& s, int lane) const {
    if (s.agent() - reads_ < 2 && (s.lane() == lane || s.epoch() <= synced_)) return true;
    return all_.covers(s) || ((part_mask_ >> lane & 1) != 0 && part_.covers(s));
  }
  // As above for what all lanes do together.
  bool covers_for_all(const Stamp& s) const {
    return (s.agent() - reads_ < 2 && s.epoch() <= synced_) || all_.covers(s);
  }
  // Whether a generic write has passed a proxy fence on its way to `lane`.
  bool fenced_for(const Stamp& write, int lane) const {
    return covers(Stamp(write.agent() + 1, write.epoch(), write.lane(), 0), lane);
  }
  Stamp stamp(Agent agent, int lane, int pc) const { return Stamp(agent, now_, lane, pc); }

  // All lanes meet: what each did and knows, all know.
  void meet_lanes();
  // What the lanes of `mask` hand on when they release; later accesses are not part of it.
  Clock release(uint32_t mask);
  void acquire(uint32_t mask, const Clock& from);
  void acquire(uint32_t mask, Agent agent, uint32_t epoch);
  // fence.proxy.async by the lanes of `mask`: all generic writes that they know of.
  void fence_proxy(uint32_t mask, int num_warp_agents);
  // What all lanes know, own accesses included: for products of several warps.
  Clock common() const;

 private:
  Clock all_, part_;
  uint32_t part_mask_ = 0;
  Agent reads_ = 0;
  uint32_t now_ = 1, synced_ = 0;
};

}  // namespace rooftile::emulate
