// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/placed/pairing.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace rooftile::verify {

using codegen::Event;
using codegen::Home;
using codegen::Placed;
using codegen::PlacedCopy;
using codegen::PlacedRing;
using codegen::ValueId;
using ir::Node;
using ir::Op;

std::string node_name(const ir::Program& program, ValueId id) {
  if (id < 0) return "";
  const Node& node = program.node(id);
  if (node.op == Op::kStore || node.op == Op::kLoop) return node.name;
  return node.label.empty() ? "%" + std::to_string(id) : node.label;
}

namespace {

// An event tree cut down to one ring: which alternative is taken, in which regions.
struct Step {
  int alternative = -1;  // of a fill or acquisition
  ValueId region = -1;   // else the loop or condition
  std::vector<Step> body;
  bool operator==(const Step&) const = default;
};
using Steps = std::vector<Step>;

int alternative_of(const PlacedRing& ring, ValueId load) {
  for (size_t a = 0; a < ring.alternatives.size(); ++a)
    for (const PlacedCopy& copy : ring.alternatives[a])
      if (copy.load == load) return static_cast<int>(a);
  return -1;
}

class Cut {
 public:
  Cut(const ir::Program& program, const Placed& placed, int ring)
      : program_(program), ring_(ring), of_(placed.rings[static_cast<size_t>(ring)]) {}

  Steps of(const std::vector<Event>& events) {
    Steps out;
    for (const Event& event : events) add(event, out);
    return out;
  }
  PlacedProblems problems;

 private:
  void add(const Event& event, Steps& out) {
    if (event.kind == Event::kFill && event.ring == ring_) out.push_back({.alternative = event.n});
    if (event.kind == Event::kAcquire && event.ring == ring_)
      out.push_back({.alternative = alternative_of(of_, event.id)});
    if (event.kind == Event::kOwner) {
      if (!of(event.body).empty())
        refuse(event, "the owner of the sums takes slots that others skip");
      return;
    }
    if (event.kind != Event::kLoop && event.kind != Event::kWhen) return;
    Steps body = of(event.body);
    // A first step apart must take what every step takes; behind the last, none is taken.
    if (!event.first.empty() && of(event.first) != body)
      refuse(event, "the first step takes other slots than the steps behind it");
    if (!of(event.last).empty()) refuse(event, "a slot is taken behind the last step");
    if (!body.empty()) out.push_back({.region = event.id, .body = std::move(body)});
  }
  void refuse(const Event& event, std::string what) {
    problems.push_back({.kind = Kind::kRingCredit,
                        .subject = "ring " + of_.name,
                        .what = std::move(what),
                        .story = {"in " + node_name(program_, event.id)},
                        .loc = event.id < 0 ? SourceLoc() : program_.node(event.id).loc});
  }
  const ir::Program& program_;
  const int ring_;
  const PlacedRing& of_;
};

std::string text(const ir::Program& program, const PlacedRing& ring, const Steps& steps) {
  std::string out;
  for (const Step& step : steps) {
    if (!out.empty()) out += "; ";
    if (step.region >= 0) {
      const bool loop = program.node(step.region).op == Op::kLoop;
      out += (loop ? "each step of " + node_name(program, step.region) : std::string("if so")) +
             " {" + text(program, ring, step.body) + "}";
    } else if (step.alternative >= 0) {
      const auto& copies = ring.alternatives[static_cast<size_t>(step.alternative)];
      out += copies.empty() ? "?" : copies[0].label;
    } else {
      out += "what the ring does not hold";
    }
  }
  return out.empty() ? "nothing" : out;
}

// ---- once ---------------------------------------------------------------------------------------

// How often an operation has its event in a region: in the first step apart, each step, behind the
// last.
struct Times {
  int first = 0, body = 0, last = 0;
};

class Once {
 public:
  Once(const ir::Program& program, const Placed& placed) : program_(program), placed_(placed) {}

  PlacedProblems run() {
    const Node& phase = program_.node(placed_.phase);
    region(phase.block, placed_.computing, {}, {});
    check_fills();
    return std::move(problems_);
  }

 private:
  using What = std::pair<Event::Kind, ValueId>;

  static void count(const std::vector<Event>& events, int Times::*where,
                    std::map<What, Times>& times) {
    for (const Event& event : events) {
      if (event.kind == Event::kOwner)
        count(event.body, where, times);
      else
        ++(times[{event.kind, event.id}].*where);
    }
  }

  void refuse(ValueId id, std::string what) {
    problems_.push_back({.kind = Kind::kPlacedOnce,
                         .subject = node_name(program_, id),
                         .what = std::move(what),
                         .loc = program_.node(id).loc});
  }

  const Event* find(const std::vector<Event>& events, Event::Kind kind, ValueId id) const {
    for (const Event& event : events) {
      if (event.kind == kind && event.id == id) return &event;
      if (event.kind == Event::kOwner)
        if (const Event* inner = find(event.body, kind, id)) return inner;
    }
    return nullptr;
  }

  void want(const std::map<What, Times>& times, Event::Kind kind, ValueId id, bool peeled) {
    const auto it = times.find({kind, id});
    const Times t = it == times.end() ? Times{} : it->second;
    const bool each_step = t.body == 1 && t.last == 0 && t.first == (peeled ? 1 : 0);
    // Behind its step: not in the first, and once more behind the last.
    const bool late = peeled && t.first == 0 && t.body == 1 && t.last == 1;
    if (!each_step && !late)
      refuse(id, t.first + t.body + t.last == 0 ? "is not placed"
                                                : "is not placed exactly once a step");
  }

  bool has_registers(ValueId id) const {
    const auto it = placed_.values.find(id);
    if (it == placed_.values.end()) return false;
    return it->second.home != Home::kInline && it->second.home != Home::kRing;
  }
  const std::string& reg(ValueId id) const {
    static const std::string kNone;
    const auto it = placed_.values.find(id);
    return it == placed_.values.end() ? kNone : it->second.reg;
  }
  ValueId carried_of(const Node& loop, size_t position) const {
    for (ValueId id : loop.block.nodes)
      if (const Node& node = program_.node(id);
          node.op == Op::kCarried && node.axis == static_cast<int>(position))
        return id;
    return -1;
  }
  // Sums that products leave where the next step takes them need no event.
  bool moves(const Node& loop) const {
    for (size_t i = 0; i < loop.block.yields.size(); ++i)
      if (const ValueId to = carried_of(loop, i); to >= 0 && reg(to) != reg(loop.block.yields[i]))
        return true;
    return false;
  }

  void region(const ir::Block& block, const std::vector<Event>& body,
              const std::vector<Event>& first, const std::vector<Event>& last) {
    std::map<What, Times> times;
    count(first, &Times::first, times);
    count(body, &Times::body, times);
    count(last, &Times::last, times);
    const bool peeled = !first.empty();
    std::set<ValueId> rescaled;  // values that exist in the registers of a sum only
    for (ValueId id : block.nodes) {
      const Node& node = program_.node(id);
      if (node.op != Op::kMma) continue;
      want(times, Event::kIssue, id, peeled);
      if (node.operands.size() == 3 && program_.node(node.operands[2]).op != Op::kCarried) {
        want(times, Event::kRescale, id, peeled);
        rescaled.insert(node.operands[2]);
      }
    }
    for (ValueId id : block.nodes) {
      const Node& node = program_.node(id);
      const bool own = node.op != Op::kMma && node.op != Op::kCarried && node.op != Op::kResult &&
                       node.has_value() && has_registers(id) && rescaled.count(id) == 0;
      if (own) want(times, Event::kCompute, id, peeled);
      if (node.op == Op::kStore) want(times, Event::kStore, id, peeled);
      if (node.op != Op::kLoop && node.op != Op::kWhen) continue;
      const Event::Kind kind = node.op == Op::kLoop ? Event::kLoop : Event::kWhen;
      want(times, kind, id, peeled);
      if (const Event* inner = find(body, kind, id)) {
        region(node.block, inner->body, inner->first, inner->last);
        if (node.op == Op::kLoop && moves(node)) {
          std::map<What, Times> yields;
          count(inner->first, &Times::first, yields);
          count(inner->body, &Times::body, yields);
          count(inner->last, &Times::last, yields);
          want(yields, Event::kYield, id, !inner->first.empty());
        }
      }
    }
    // Nothing that another region owns is done here.
    for (const auto& [what, t] : times) {
      const bool owned = what.first == Event::kIssue || what.first == Event::kStore ||
                         what.first == Event::kLoop || what.first == Event::kWhen ||
                         what.first == Event::kCompute;
      if (owned &&
          std::find(block.nodes.begin(), block.nodes.end(), what.second) == block.nodes.end())
        refuse(what.second, "is placed in a region that does not own it");
    }
  }

  // ---- the copying role: each alternative of a ring is filled once, in the region of its loads
  void fills_in(const std::vector<Event>& events, const ir::Block& block,
                std::map<std::pair<int, int>, int>& fills) {
    for (const Event& event : events) {
      if (event.kind == Event::kFill) {
        ++fills[{event.ring, event.n}];
        const PlacedRing& ring = placed_.rings[static_cast<size_t>(event.ring)];
        for (const PlacedCopy& copy : ring.alternatives[static_cast<size_t>(event.n)])
          if (std::find(block.nodes.begin(), block.nodes.end(), copy.load) == block.nodes.end())
            refuse(copy.load, "is copied in a region that does not own it");
      } else if (event.kind == Event::kLoop || event.kind == Event::kWhen) {
        fills_in(event.body, program_.node(event.id).block, fills);
      }
    }
  }
  void check_fills() {
    std::map<std::pair<int, int>, int> fills;
    fills_in(placed_.copying, program_.node(placed_.phase).block, fills);
    std::map<ValueId, int> held;
    for (size_t r = 0; r < placed_.rings.size(); ++r)
      for (size_t a = 0; a < placed_.rings[r].alternatives.size(); ++a)
        for (const PlacedCopy& copy : placed_.rings[r].alternatives[a]) {
          ++held[copy.load];
          if (fills[{static_cast<int>(r), static_cast<int>(a)}] != 1)
            refuse(copy.load, "is not copied exactly once");
        }
    for (const auto& [id, value] : placed_.values)
      if (value.home == Home::kRing && program_.node(id).op == Op::kLoad && held[id] != 1)
        refuse(id, "lies in no ring, or in several");
  }

  const ir::Program& program_;
  const Placed& placed_;
  PlacedProblems problems_;
};

}  // namespace

PlacedProblems check_pairing(const ir::Program& program, const Placed& placed) {
  PlacedProblems out;
  for (size_t r = 0; r < placed.rings.size(); ++r) {
    Cut cut(program, placed, static_cast<int>(r));
    const Steps fills = cut.of(placed.copying), taken = cut.of(placed.computing);
    out.insert(out.end(), cut.problems.begin(), cut.problems.end());
    if (cut.problems.empty() && fills != taken)
      out.push_back({.kind = Kind::kRingCredit,
                     .subject = "ring " + placed.rings[r].name,
                     .what = "what is filled is not what is taken",
                     .story = {"filled: " + text(program, placed.rings[r], fills),
                               "taken: " + text(program, placed.rings[r], taken)},
                     .loc = program.node(placed.phase).loc});
  }
  return out;
}

PlacedProblems check_once(const ir::Program& program, const Placed& placed) {
  return Once(program, placed).run();
}

}  // namespace rooftile::verify
