// SPDX-License-Identifier: Apache-2.0
// The abstract machine: runs the warps of one cluster until all wait, for each other or for a
// decision. Every step is checked; what is wrong is thrown as a Fault, what is not modelled as a
// Refusal.
//
// Copies and products are over as soon as they are issued: that is one order of events, and no
// other order can differ (see explore.h). What matters is not when bytes land but who knows.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rooftile/verify/protocol/access.h"
#include "rooftile/verify/protocol/flatten.h"
#include "rooftile/verify/protocol/liveness.h"
#include "rooftile/verify/protocol/state.h"
#include "rooftile/verify/protocol/terms.h"

namespace rooftile::verify::protocol {

// What a state waits for when nobody can go on: an answer, or nothing.
struct Request {
  AtomId leaf = kNoAtom;  // a condition that all who ask share
  int warp = -1;          // or: a decision of this warp alone
  bool ticket = false;  // of it: that what other CTAs are to add has come; there is no other answer
  bool present() const { return leaf != kNoAtom || warp >= 0; }
};

// How the schedule of barriers looks from the code: compared with L1 (lanes.matches).
struct BarrierUse {
  int cta = 0;
  int64_t offset = 0;
  int arrivals = 0;
  std::set<int64_t> bytes;  // of its phases; {0}: none
};

class Machine {
 public:
  Machine(const Flat& flat, Terms& terms);
  State start() const;
  // Runs until everybody waits. The request says for what; none and not all done: a deadlock.
  Request run(State& state);
  void answer(State& state, const Request& request, bool yes);
  // Forgets what nobody can tell, and renames what is counted. States that behave alike are equal
  // afterwards.
  // `rename` false keeps the numbers of steps, for the story of a path.
  void settle(State& state, Request& request, bool rename = true);
  // Of all of the state, or of all but who knows of what is over.
  std::pair<uint64_t, uint64_t> hash(const State& state, bool exact) const;
  // States of one inexact hash: `into` becomes one in which is known what is known in both. False:
  // it was that already. Whatever is right from there is right from either.
  static bool merge(State& into, const State& from);
  bool finished(const State& state) const;
  // Who waits for what, one line a warp.
  std::vector<std::string> waits(const State& state);
  std::string place(int warp, int op) const;
  // Whether a warp was seen doing what it had not been known to do, after settle() may have
  // forgotten what only such a warp could tell. What was explored is then worth nothing: start
  // again.
  // How much the run has shown that is not yet reckoned with in what is forgotten.
  size_t discoveries() const { return discoveries_; }
  void forget_discoveries() { discoveries_ = 0; }
  const std::map<std::pair<int, int64_t>, BarrierUse>& barrier_uses() const { return uses_; }

 private:
  enum class Progress : uint8_t { kOn, kWait };
  enum class Handing : uint8_t { kAll, kReadsOnly, kOwnCta };
  enum class Truth : uint8_t { kNo, kYes, kUndecided };

  // ---- control (machine.cc, loops.cc)
  static bool behind(const Warp& a, const Warp& b);
  bool advance(int w);
  Progress step(int w, const Op& op);
  Progress branch(int w, const Op& op);
  Progress enter_loop(int w, const Op& op);
  Progress test_loop(int w, const Op& op);
  void next_round(int w, const Op& op);
  void leave_loop(int w, const Op& loop_op);
  void repeat_loop(int w, const Op& op, Frame frame, ValueId begin, ValueId end, ValueId step);
  void undecided_loop(int w, const Op& op, Frame frame, ValueId begin, ValueId end, ValueId step);
  void load(int w, const Op& op);
  void assign(int w, int slot, ValueId v);
  ValueId eval(int w, NodeId node);
  ValueId special(int w, lanes::Special s);

  // ---- decisions (decide.cc), and what is forgotten (settle.cc)
  Truth truth(ValueId condition);
  Truth atom_truth(AtomId atom);
  Truth implied(ValueId at_least_zero);
  void add_fact(AtomId atom, bool yes);
  struct Least {
    int64_t bound;
    std::vector<AtomId> by;  // the decisions that it rests on
  };
  Least at_least(ValueId v, int steps);
  struct Common {
    Interval bounds = kAnything;
    std::vector<AtomId> by;
    std::pair<int, int> told{-1, -1};  // the warp and operation that was the last to ask
  };
  const Common& common_bounds(SumId sum);
  Interval known_bounds(ValueId v, int lane);
  bool past(const State& state, int w, LoopId loop, int64_t index);
  int signature(LoopId loop);
  bool past_first(const State& state, int signature);
  void forget_decisions(State& state);
  void rename_steps(State& state, Request& request);
  void forget_records(State& state);
  void renumber_batches(State& state, int group);

  // ---- instructions
  struct At {
    int w;
    const Op& op;
    const lanes::Instr& instr;
    uint32_t mask;
    bool may;
  };
  Progress instruction(int w, const Op& op);
  Progress exec_barrier(const At& at);  // barriers.cc
  void init_barriers(const At& at);
  void arrive_at(const At& at);
  Progress wait_at(const At& at);
  void use_barrier(const At& at, int barrier, bool remote, bool engine);
  void arrive(const At& at, int barrier, int arrivals, uint32_t lanes, Handing handing);
  void complete_if_due(int barrier);
  void complete(int barrier);
  Progress wait_for_ticket(const At& at);
  bool adds_from(int pc) const;
  int hindmost_waiting(const State& state) const;
  Progress exec_meeting(const At& at);
  Progress named(const At& at, int id, int threads, bool wait);
  Progress cluster(const At& at);
  void cluster_complete_if_due();
  Progress registers(const At& at);

  void exec_copy(const At& at);  // copies.cc
  void engine_write(const At& at, AccessId a, int64_t bytes, int barrier);
  void tensor_load(const At& at);
  void store_async(const At& at);
  void tensor_store(const At& at);
  void bulk_group(const At& at);
  void thread_copy(const At& at);
  void exec_shared(const At& at);  // hazards.cc
  AccessId access_of(const At& at, ValueId address, int64_t bytes);
  void flush(int w);
  void flush_accesses(int w);
  void flush_operands(int w);
  void check(int w, int op, int cta, AccessId a, bool write, bool async, uint32_t lanes,
             bool as_group);
  void remember(Record r);
  bool knows(int w, uint32_t lanes, const Record& r) const;
  void release(int w, uint32_t mask, Agent to, Handing handing);
  void release_control(int w, Agent to);
  void acquire(int w, uint32_t mask, Agent from, Handing handing);
  Agent part_of(int w, uint32_t mask);
  void meet_lanes(int w);
  void fence_proxy(int w, uint32_t mask);
  void hand(Agent from, Agent to);
  void clear(Agent agent);

  void product(const At& at);  // products.cc
  Progress wait_products(const At& at);
  AccessId operand(int64_t descriptor, int rows, bool mn_major);
  void touch(int w, const Op& op);
  void finish_warp(int w);

  // ---- names
  Agent all(int w) const { return 2 * w; }
  Agent part(int w) const { return 2 * w + 1; }
  Agent agent(int kind, int index);
  Agent gathered(int barrier) { return agent(0, barrier); }
  Agent done(int barrier) { return agent(1, barrier); }
  Agent batch_agent(int group, uint32_t batch) {
    return agent(2, group * static_cast<int>(kBatchTags) + static_cast<int>(batch % kBatchTags));
  }
  int cta_of(int w) const { return w / warps_a_cta_; }
  int barrier_at(const At& at, int cta, int64_t address) const;
  int named_index(int w, int id) const { return first_named_ + cta_of(w) * 16 + id; }
  std::string barrier_text(int barrier) const;
  std::string record_text(const Record& r) const;
  std::string who(const Record& r) const;
  std::string address_text(int64_t offset) const;
  int64_t lane_number(const At& at, size_t arg, int lane);
  Record* find(Of of, int barrier, int owner = -1);
  [[noreturn]] void fault(Kind kind, const At& at, std::string reason) const;
  [[noreturn]] void refuse(const Op& op, std::string why) const;

  const Flat& flat_;
  const Liveness live_;
  Bits adding_;  // operations from which a warp may yet come to add to a ticket
  Terms& terms_;
  Accesses accesses_;
  State* s_ = nullptr;
  Request request_;
  const int warps_a_cta_, ctas_;
  int first_named_ = 0;  // barriers: mbarriers of all CTAs, then named ones, then the cluster's
  int num_mbarriers_ = 0;
  std::vector<int64_t> barrier_offsets_;
  std::array<std::vector<Agent>, 3> agents_;  // by kind and index; -1: not yet
  int num_agents_ = 0;
  std::vector<std::pair<ValueId, AtomId>>
      facts_;  // >= 0, in the state that runs; by which decision
  // What follows from facts: of each set of decisions, and of the one that holds now.
  struct Follows {
    std::map<std::pair<ValueId, int>, Least> least;
    std::unordered_map<ValueId, std::pair<Truth, std::vector<AtomId>>> implied;
    std::unordered_map<SumId, Common> common;
  };
  std::map<std::vector<std::pair<AtomId, bool>>, Follows> follows_;
  Follows* now_ = nullptr;
  // Of each function in the code and each warp: the last arguments and what came of them.
  struct LastCall {
    std::array<ValueId, 4> args{};
    ValueId out = -1;
  };
  std::vector<LastCall> last_calls_;
  std::set<int> wants_facts_;                              // operations that found too few
  std::map<AtomId, std::set<std::pair<int, int>>> users_;  // of a decision: warps and operations
  // Decisions that are asked for in the first round of one loop alone, by its signature; -1:
  // elsewhere too. A first round's terms have no step in them.
  std::map<AtomId, int> first_rounds_;
  int running_ = 0;  // the warp
  std::vector<std::map<lanes::Special, ValueId>> specials_;
  std::map<std::string, int> signatures_;
  std::map<LoopId, int> signature_of_;
  // What each warp has been seen doing, in whatever state: loops that it walks, by signature;
  // accesses that it makes; barriers that it waits for, or arrives at.
  using Lanes = std::map<int, uint32_t>;  // by warp
  struct Need {
    Lanes to_know, fenced;
  };
  using Touch = std::tuple<int, AccessId, bool, bool>;  // CTA, bytes, write, async
  const Need& need(const Record& r);
  // Of those of `who` that may still use the allocation.
  bool all_know(const State& state, const Lanes& who, int cta, int allocation,
                const Agents& known) const;
  bool may_use(const State& state, int w, int cta, int allocation) const;
  int allocation_of(const Record& r) const;
  int allocation_at(int64_t offset) const;
  void forget_dead(State& state);
  void forget_loops(State& state);
  void used(AtomId decision);
  void want_facts(int w);
  void saw(Lanes& lanes, int w, uint32_t mask);
  void forget_carriers(const State& state, Record& r);
  bool known_in_cta(const Record& r) const;
  std::vector<std::set<int>> enters_;
  std::map<Touch, Lanes> touches_;
  std::map<int, Lanes> waits_, arrives_;
  std::map<std::tuple<int, AccessId, bool>, Need> needs_;
  size_t discoveries_ = 0;
  std::map<std::tuple<int64_t, int, bool>, AccessId> operands_;
  std::map<std::tuple<ValueId, uint32_t, int64_t, bool>, AccessId> plain_;
  std::map<std::pair<int, int64_t>, BarrierUse> uses_;
};

}  // namespace rooftile::verify::protocol
