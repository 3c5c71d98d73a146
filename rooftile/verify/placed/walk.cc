// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/placed/walk.h"

#include <algorithm>
#include <compare>
#include <set>
#include <utility>

#include "rooftile/codegen/gpu/place.h"
#include "rooftile/verify/placed/ring_facts.h"

namespace rooftile::verify {

using codegen::Event;
using codegen::Home;
using codegen::Placed;
using codegen::PlacedCopy;
using codegen::PlacedRing;
using codegen::PlacedValue;
using codegen::ValueId;
using ir::Node;
using ir::Op;

namespace {

struct Running {
  ValueId product = -1;
  std::set<std::string> reads, writes;     // register arrays
  std::vector<std::pair<int, int>> slots;  // ring, place among the slots held
  std::vector<size_t> behind;              // of each ring: slots held that it started behind
  auto operator<=>(const Running&) const = default;
};

struct Slot {
  int alternative = -1;
  // All warps of the group have seen it arrive: a product that started behind it is over. A product
  // is started by all four, and nothing else makes them meet.
  bool met = false;
  auto operator<=>(const Slot&) const = default;
};

struct State {
  std::vector<std::vector<Slot>> held;  // of each ring: the slots held, oldest first
  std::vector<Running> running;         // oldest first
  bool has_turn = false;
  auto operator<=>(const State&) const = default;
};

// A state and how one gets there.
struct Way {
  State state;
  std::vector<std::string> story;
  bool operator<(const Way& other) const { return state < other.state; }
};
using Ways = std::set<Way>;

constexpr int kMostStates = 100'000;
// Products that run at once; a schedule that starts more has forgotten to wait.
constexpr size_t kMostRunning = 32;

class Walk {
 public:
  Walk(const ir::Program& program, const Placed& placed) : program_(program), placed_(placed) {}

  WalkResult run() {
    Way start;
    start.state.held.resize(placed_.rings.size());
    const Ways ends = walk(placed_.computing, {start}, nullptr);
    for (const Way& end : ends) check_end(end);
    if (states_ > kMostStates && problems_.empty())
      for (const Kind kind :
           {Kind::kRingCredit, Kind::kRingHazard, Kind::kRingParity, Kind::kTokens, Kind::kTurns})
        problems_.push_back({.kind = kind,
                             .subject = "computing role",
                             .what = "more than " + std::to_string(kMostStates) + " states",
                             .story = {},
                             .loc = program_.node(placed_.phase).loc,
                             .verdict = Verdict::kUnknown});
    return {std::move(problems_), states_};
  }

 private:
  // Steps that the loop around has done, and the most that matter.
  struct Loop {
    ValueId id;
    int steps;
  };

  void problem(Kind kind, std::string subject, std::string what, const Way& way, ValueId at) {
    PlacedProblem found{.kind = kind,
                        .subject = std::move(subject),
                        .what = std::move(what),
                        .story = way.story,
                        .loc = program_.node(at < 0 ? placed_.phase : at).loc};
    if (std::find(problems_.begin(), problems_.end(), found) == problems_.end())
      problems_.push_back(std::move(found));
  }
  std::string ring_name(int ring) const {
    return "ring " + placed_.rings[static_cast<size_t>(ring)].name;
  }

  // ---- control

  Ways walk(const std::vector<Event>& events, Ways ways, const Loop* loop) {
    for (const Event& event : events) {
      if (states_ > kMostStates) return ways;
      switch (event.kind) {
        case Event::kLoop:
          ways = walk_loop(event, ways);
          break;
        case Event::kWhen:
        case Event::kOwner:
          ways = walk_when(event, ways, loop);
          break;
        default: {
          Ways next;
          for (Way way : ways) {
            ++states_;
            step(event, way, loop);
            next.insert(std::move(way));
          }
          ways = std::move(next);
        }
      }
    }
    return ways;
  }

  Ways walk_when(const Event& event, const Ways& ways, const Loop* loop) {
    const std::string name =
        event.kind == Event::kOwner ? "the owner of the sums" : "the condition of " + where(event);
    Ways taken;
    for (Way way : ways) {
      way.story.push_back(name + " holds");
      taken.insert(std::move(way));
    }
    taken = walk(event.body, std::move(taken), loop);
    taken.insert(ways.begin(), ways.end());
    return taken;
  }
  std::string where(const Event& event) const { return node_name(program_, event.id); }

  static int latest(const std::vector<Event>& events) {
    int most = 0;
    for (const Event& event : events)
      if (event.kind == Event::kRelease) most = std::max(most, std::abs(event.n));
    return most;
  }

  // Steps beyond `cap` differ from step `cap` in nothing: releases ask how many there were, up to
  // how late they come.
  Ways walk_loop(const Event& event, const Ways& ways) {
    const int cap = std::max(latest(event.body), latest(event.last)) + 1;
    Ways entered;
    for (Way way : ways) {
      begin_loop(event, way);
      entered.insert(std::move(way));
    }
    std::set<std::pair<int, Way>> seen;
    std::vector<std::pair<int, Way>> fresh;
    const auto reach = [&](int steps, Ways reached) {
      for (Way way : reached) {
        if (way.story.empty() || steps > 0) {
          const std::string prefix = where(event) + ": ";
          if (!way.story.empty() && way.story.back().starts_with(prefix)) way.story.pop_back();
          way.story.push_back(prefix + std::to_string(steps) +
                              (steps == cap ? " or more steps" : " steps"));
        }
        if (seen.emplace(steps, way).second) fresh.emplace_back(steps, std::move(way));
      }
    };
    Ways out;
    if (event.first.empty()) {
      reach(0, entered);
    } else {
      out = entered;  // no step at all: nothing of the loop happens
      const Loop first{event.id, 0};
      reach(1, walk(event.first, entered, &first));
    }
    while (!fresh.empty() && states_ <= kMostStates) {
      const auto [steps, way] = fresh.back();
      fresh.pop_back();
      const Loop at{event.id, steps};
      reach(std::min(steps + 1, cap), walk(event.body, {way}, &at));
    }
    for (const auto& [steps, way] : seen) {
      const Loop at{event.id, steps};
      const Ways ended = walk(event.last, {way}, &at);
      out.insert(ended.begin(), ended.end());
    }
    return out;
  }

  // ---- events

  void step(const Event& event, Way& way, const Loop* loop) {
    State& state = way.state;
    switch (event.kind) {
      case Event::kAcquire:
        return acquire(event, way);
      case Event::kRelease:
        // n > 0: the slot of n steps ago, if there were as many; n < 0: what a loop has left.
        if (event.n > 0 && (loop == nullptr || loop->steps < event.n)) return;
        if (event.n < 0 && (loop == nullptr || loop->steps < -event.n)) return;
        return release(event, way);
      case Event::kIssue:
        return issue(event, way, loop);
      case Event::kWait:
        while (static_cast<int>(state.running.size()) > event.n) {
          for (size_t r = 0; r < state.held.size(); ++r)
            for (size_t i = 0; i < state.running.front().behind[r]; ++i)
              state.held[r][i].met = true;
          state.running.erase(state.running.begin());
        }
        return;
      case Event::kCompute:
        read(event.id, program_.node(event.id).operands, way);
        return write(event.id, reg(event.id), way);
      case Event::kRescale: {
        const Node& product = program_.node(event.id);
        read(event.id, {product.operands[2]}, way);
        return write(event.id, reg(event.id), way);
      }
      case Event::kJoin:
        read(event.id, {event.id}, way);
        return write(event.id, reg(event.id), way);
      case Event::kStore:
        return read(event.id, program_.node(event.id).operands, way);
      case Event::kYield:
        return yield(event, way);
      case Event::kCombine:
        for (ValueId yielded : program_.node(event.id).block.yields) read(event.id, {yielded}, way);
        return;
      case Event::kTakeTurn:
        if (state.has_turn)
          problem(Kind::kTurns, "token", "a group takes the token that it has", way, -1);
        state.has_turn = true;
        return;
      case Event::kPassTurn:
        if (!state.has_turn)
          problem(Kind::kTurns, "token", "a group passes on a token that it does not have", way,
                  -1);
        state.has_turn = false;
        return;
      case Event::kFill:
        problem(Kind::kPlacedOnce, ring_name(event.ring), "a computing group fills a slot", way,
                event.id);
        return;
      case Event::kLoop:
      case Event::kWhen:
      case Event::kOwner:
        return;  // walk()
    }
  }

  void acquire(const Event& event, Way& way) {
    const PlacedRing& ring = placed_.rings[static_cast<size_t>(event.ring)];
    std::vector<Slot>& held = way.state.held[static_cast<size_t>(event.ring)];
    if (takes_turns(placed_) && !way.state.has_turn)
      problem(Kind::kTurns, ring_name(event.ring),
              "a group looks at a slot while others may still take theirs", way, event.id);
    if (static_cast<int>(held.size()) >= ring.depth) {
      problem(Kind::kLive, ring_name(event.ring),
              "waits for slot " + std::to_string(held.size() + 1) + " of " +
                  std::to_string(ring.depth) + " while it holds the others",
              way, event.id);
      return;  // no further, so that states stay few
    }
    held.push_back({alternative(ring, event.id), false});
  }

  static int alternative(const PlacedRing& ring, ValueId load) {
    for (size_t a = 0; a < ring.alternatives.size(); ++a)
      for (const PlacedCopy& copy : ring.alternatives[a])
        if (copy.load == load) return static_cast<int>(a);
    return -1;
  }

  void release(const Event& event, Way& way) {
    const auto at = static_cast<size_t>(event.ring);
    std::vector<Slot>& held = way.state.held[at];
    if (held.empty())
      return problem(Kind::kRingCredit, ring_name(event.ring),
                     "gives back a slot that it does not hold", way, event.id);
    if (!held.front().met && !placed_.rings[at].by_warps)
      problem(
          Kind::kRingParity, ring_name(event.ring),
          "a slot is given back for the whole group, of which a warp may still wait for it: one "
          "that comes late finds the phase after next, and waits for ever",
          way, event.id);
    held.erase(held.begin());
    for (Running& running : way.state.running) {
      if (running.behind[at] > 0) --running.behind[at];
      for (auto& [ring, place] : running.slots) {
        if (ring != event.ring) continue;
        if (place == 0)
          problem(Kind::kRingHazard, ring_name(event.ring),
                  "gives back a slot that product " + node_name(program_, running.product) +
                      " may still read",
                  way, running.product);
        --place;
      }
      std::erase_if(running.slots,
                    [&](const auto& slot) { return slot.first == event.ring && slot.second < 0; });
    }
  }

  void issue(const Event& event, Way& way, const Loop* loop) {
    const Node& product = program_.node(event.id);
    Running running{.product = event.id};
    running.writes.insert(reg(event.id));
    if (const auto it = placed_.values.find(product.operands[0]);
        it != placed_.values.end() && it->second.home == Home::kOperand)
      running.reads.insert(it->second.reg);
    for (size_t side = 0; side < 2; ++side) {
      const ValueId load = codegen::operand_source(program_, product.operands[side]);
      for (size_t r = 0; r < placed_.rings.size(); ++r) {
        if (placed_.rings[r].find(load) == nullptr) continue;
        const std::vector<Slot>& held = way.state.held[r];
        // The slot acquired last is the one that is read.
        if (held.empty() || held.back().alternative != alternative(placed_.rings[r], load))
          problem(Kind::kRingHazard, ring_name(static_cast<int>(r)),
                  "product " + node_name(program_, event.id) + " starts " +
                      (held.empty() ? "without a slot of its operand"
                                    : "with a slot that holds something else"),
                  way, event.id);
        else
          running.slots.emplace_back(static_cast<int>(r), static_cast<int>(held.size()) - 1);
      }
    }
    for (const std::vector<Slot>& held : way.state.held) running.behind.push_back(held.size());
    for (const Running& other : way.state.running) {
      for (const std::string& r : running.reads)
        if (other.writes.count(r) > 0) touches(event.id, r, other, way);
      for (const std::string& w : running.writes)
        if (other.reads.count(w) > 0) touches(event.id, w, other, way);
    }
    if (loop != nullptr && in_turns(loop->id) && !way.state.has_turn)
      problem(Kind::kTurns, node_name(program_, event.id), "a product starts out of turn", way,
              event.id);
    if (way.state.running.size() >= kMostRunning)
      return problem(Kind::kTokens, node_name(program_, event.id),
                     "products pile up that nobody waits for", way, event.id);
    way.state.running.push_back(std::move(running));
  }

  bool in_turns(ValueId loop) const {
    const std::string& name = program_.node(loop).name;
    return std::any_of(placed_.plan.turns.begin(), placed_.plan.turns.end(),
                       [&](const gpu::Turns& turns) { return turns.loop == name; });
  }

  // ---- registers

  std::string reg(ValueId id) const {
    const auto it = placed_.values.find(id);
    return it == placed_.values.end() ? "" : it->second.reg;
  }

  void touches(ValueId at, const std::string& reg, const Running& running, const Way& way) {
    problem(Kind::kTokens, node_name(program_, running.product),
            node_name(program_, at) + " touches registers `" + reg + "` of a product that may run",
            way, at);
  }

  // The register arrays that evaluating `id` reads: its own, or those of what it is made of.
  void sources(ValueId id, std::set<std::string>& out) const {
    const auto it = placed_.values.find(id);
    if (it != placed_.values.end() && !it->second.reg.empty()) {
      out.insert(it->second.reg);
      return;
    }
    for (ValueId operand : program_.node(id).operands)
      if (program_.node(operand).has_value()) sources(operand, out);
  }

  void read(ValueId at, const std::vector<ValueId>& values, const Way& way) {
    std::set<std::string> regs;
    for (ValueId value : values)
      if (program_.node(value).has_value()) sources(value, regs);
    for (const Running& running : way.state.running)
      for (const std::string& r : regs)
        if (running.writes.count(r) > 0) touches(at, r, running, way);
  }
  void write(ValueId at, const std::string& reg, const Way& way) {
    if (reg.empty()) return;
    for (const Running& running : way.state.running)
      if (running.writes.count(reg) > 0 || running.reads.count(reg) > 0)
        touches(at, reg, running, way);
  }

  void yield(const Event& event, const Way& way) {
    const Node& loop = program_.node(event.id);
    for (ValueId id : loop.block.nodes) {
      const Node& carried = program_.node(id);
      if (carried.op != Op::kCarried) continue;
      const ValueId from = loop.block.yields[static_cast<size_t>(carried.axis)];
      if (reg(id) == reg(from)) continue;  // it is there already
      read(event.id, {from}, way);
      write(event.id, reg(id), way);
    }
  }

  void begin_loop(const Event& event, const Way& way) {
    const Node& loop = program_.node(event.id);
    read(event.id, loop.operands, way);
    for (ValueId id : loop.block.nodes)
      if (program_.node(id).op == Op::kCarried) write(event.id, reg(id), way);
  }

  void check_end(const Way& way) {
    for (size_t r = 0; r < placed_.rings.size(); ++r)
      if (!way.state.held[r].empty())
        problem(Kind::kRingCredit, ring_name(static_cast<int>(r)), "a slot is never given back",
                way, -1);
    for (const Running& running : way.state.running)
      problem(Kind::kTokens, node_name(program_, running.product), "nobody waits for the product",
              way, running.product);
    if (way.state.has_turn) problem(Kind::kTurns, "token", "the token is never passed on", way, -1);
  }

  const ir::Program& program_;
  const Placed& placed_;
  PlacedProblems problems_;
  int states_ = 0;
};

}  // namespace

WalkResult walk_computing(const ir::Program& program, const Placed& placed) {
  return Walk(program, placed).run();
}

}  // namespace rooftile::verify
