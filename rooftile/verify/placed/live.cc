// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/placed/live.h"

#include <algorithm>
#include <map>
#include <utility>

namespace rooftile::verify {

using codegen::Event;
using codegen::Placed;
using codegen::ValueId;

namespace {

// ---- the marked graph of a loop body
// ------------------------------------------------------------

struct RingEvent {
  enum Kind : uint8_t { kFill, kAcquire, kRelease } kind;
  int ring;
  int late;  // steps, of a release
};

struct Edge {
  size_t from, to;
  int tokens;
};

class Graph {
 public:
  Graph(std::vector<RingEvent> copying, std::vector<RingEvent> computing, const Placed& placed,
        const std::vector<int>& held_around)
      : nodes_(copying) {
    const size_t split = nodes_.size();
    nodes_.insert(nodes_.end(), computing.begin(), computing.end());
    sequence(0, split);
    sequence(split, nodes_.size());
    for (size_t r = 0; r < placed.rings.size(); ++r)
      ring(static_cast<int>(r), placed.rings[r].depth - held_around[r]);
  }

  // A cycle whose tokens add up to none: with weights tokens * (n + 1) - 1, one of negative length.
  bool live() const {
    const auto n = static_cast<int64_t>(nodes_.size());
    std::vector<int64_t> distance(nodes_.size(), 0);
    for (int64_t round = 0; round <= n; ++round) {
      bool changed = false;
      for (const Edge& edge : edges_) {
        const int64_t through = distance[edge.from] + edge.tokens * (n + 1) - 1;
        if (through >= distance[edge.to]) continue;
        distance[edge.to] = through;
        changed = true;
      }
      if (!changed) return true;
    }
    return false;
  }

 private:
  void sequence(size_t begin, size_t end) {
    for (size_t i = begin; i + 1 < end; ++i) edges_.push_back({i, i + 1, 0});
    if (end > begin) edges_.push_back({end - 1, begin, 1});
  }

  std::vector<size_t> of(RingEvent::Kind kind, int ring) const {
    std::vector<size_t> out;
    for (size_t i = 0; i < nodes_.size(); ++i)
      if (nodes_[i].kind == kind && nodes_[i].ring == ring) out.push_back(i);
    return out;
  }

  // With k fills a step, fill i of step t takes item k t + i; its slot was that of item k t + i -
  // S.
  void ring(int ring, int slots) {
    const std::vector<size_t> fills = of(RingEvent::kFill, ring),
                              acquires = of(RingEvent::kAcquire, ring),
                              releases = of(RingEvent::kRelease, ring);
    const auto k = static_cast<int>(fills.size());
    if (k == 0 || acquires.size() != fills.size() || releases.size() != fills.size()) return;
    for (int i = 0; i < k; ++i) {
      const auto at = static_cast<size_t>(i);
      edges_.push_back({fills[at], acquires[at], 0});
      const int before = i - slots;  // the item, counted from the first of this step
      const int which = ((before % k) + k) % k, steps = (which - before) / k;
      const size_t release = releases[static_cast<size_t>(which)];
      edges_.push_back({release, fills[at], steps - nodes_[release].late});
    }
  }

  std::vector<RingEvent> nodes_;
  std::vector<Edge> edges_;
};

// Ring events of a body itself, not of the regions in it.
std::vector<RingEvent> ring_events(const std::vector<Event>& events) {
  std::vector<RingEvent> out;
  for (const Event& event : events) {
    if (event.kind == Event::kFill) out.push_back({RingEvent::kFill, event.ring, 0});
    if (event.kind == Event::kAcquire) out.push_back({RingEvent::kAcquire, event.ring, 0});
    if (event.kind == Event::kRelease) out.push_back({RingEvent::kRelease, event.ring, event.n});
  }
  return out;
}

// ---- the run
// ------------------------------------------------------------------------------------

// What a run is about: how often each loop steps, whether each condition holds.
using Choices = std::map<ValueId, int>;

struct Line {
  RingEvent::Kind kind;
  int ring;
};

class Unfolding {
 public:
  Unfolding(const Choices& choices) : choices_(choices) {}

  void events(const std::vector<Event>& list, int steps_before, int steps) {
    for (const Event& event : list) {
      switch (event.kind) {
        case Event::kFill:
          out.push_back({RingEvent::kFill, event.ring});
          break;
        case Event::kAcquire:
          out.push_back({RingEvent::kAcquire, event.ring});
          break;
        case Event::kRelease:
          if (event.n > 0 ? steps_before >= event.n : event.n == 0 || steps >= -event.n)
            out.push_back({RingEvent::kRelease, event.ring});
          break;
        case Event::kLoop:
          loop(event);
          break;
        case Event::kWhen:
          if (choices_.at(event.id) != 0) events(event.body, steps_before, steps);
          break;
        case Event::kOwner:
          events(event.body, steps_before, steps);
          break;
        default:
          break;
      }
    }
  }
  std::vector<Line> out;

 private:
  void loop(const Event& event) {
    const int steps = choices_.at(event.id);
    int done = 0;
    if (!event.first.empty()) {
      if (steps == 0) return;
      events(event.first, 0, steps);
      done = 1;
    }
    for (; done < steps; ++done) events(event.body, done, steps);
    events(event.last, done, steps);
  }

  const Choices& choices_;
};

// Runs both roles as far as they go; -1: to the end, else how many lines the computing role did.
struct Stuck {
  bool stuck = false;
  size_t copying = 0, computing = 0;
};
Stuck run(const std::vector<Line>& copying, const std::vector<Line>& computing,
          const Placed& placed) {
  std::vector<int> filled(placed.rings.size()), taken = filled, given = filled;
  size_t i = 0, j = 0;
  for (bool moved = true; moved;) {
    moved = false;
    for (; i < copying.size(); ++i, moved = true) {
      const auto ring = static_cast<size_t>(copying[i].ring);
      if (filled[ring] - given[ring] >= placed.rings[ring].depth) break;
      ++filled[ring];
    }
    for (; j < computing.size(); ++j, moved = true) {
      const auto ring = static_cast<size_t>(computing[j].ring);
      if (computing[j].kind == RingEvent::kAcquire) {
        if (taken[ring] >= filled[ring]) break;
        ++taken[ring];
      } else {
        ++given[ring];
      }
    }
  }
  return {i < copying.size() || j < computing.size(), i, j};
}

class Live {
 public:
  Live(const ir::Program& program, const Placed& placed) : program_(program), placed_(placed) {}

  LiveResult run() {
    std::vector<int> held(placed_.rings.size());
    graphs(placed_.copying, placed_.computing, held);
    collect(placed_.copying);
    collect(placed_.computing);
    runs();
    return std::move(result_);
  }

 private:
  void refuse(std::string subject, std::string what, std::vector<std::string> story, ValueId at) {
    result_.problems.push_back({.kind = Kind::kLive,
                                .subject = std::move(subject),
                                .what = std::move(what),
                                .story = std::move(story),
                                .loc = program_.node(at).loc});
  }

  static const Event* find(const std::vector<Event>& events, ValueId id) {
    for (const Event& event : events) {
      if ((event.kind == Event::kLoop || event.kind == Event::kWhen) && event.id == id)
        return &event;
      if (event.kind == Event::kOwner)
        if (const Event* inner = find(event.body, id)) return inner;
    }
    return nullptr;
  }

  // Loops of both roles, each with the slots that are held around it.
  void graphs(const std::vector<Event>& copying, const std::vector<Event>& computing,
              std::vector<int> held) {
    for (const Event& event : computing) {
      if (event.kind == Event::kAcquire) ++held[static_cast<size_t>(event.ring)];
      if (event.kind == Event::kRelease && event.n == 0) --held[static_cast<size_t>(event.ring)];
      if (event.kind == Event::kOwner) graphs(copying, event.body, held);
      if (event.kind != Event::kLoop && event.kind != Event::kWhen) continue;
      const Event* other = find(copying, event.id);
      if (other == nullptr) continue;
      ++result_.graphs;
      const Graph graph(ring_events(other->body), ring_events(event.body), placed_, held);
      if (event.kind == Event::kLoop && !graph.live())
        refuse("loop " + node_name(program_, event.id),
               "the roles wait for each other: a cycle of their events has no slot to spare", {},
               event.id);
      graphs(other->body, event.body, held);
    }
  }

  void collect(const std::vector<Event>& events) {
    for (const Event& event : events) {
      if (event.kind == Event::kLoop || event.kind == Event::kWhen) {
        if (std::find(deciding_.begin(), deciding_.end(), event.id) == deciding_.end())
          deciding_.push_back(event.id);
        collect(event.body);
      } else if (event.kind == Event::kOwner) {
        collect(event.body);
      }
    }
  }

  // Trip counts 0 .. 2 S + 2; where that is too many runs, those around which something changes.
  std::vector<int> trips(size_t most) const {
    int depth = 1;
    for (const codegen::PlacedRing& ring : placed_.rings) depth = std::max(depth, ring.depth);
    std::vector<int> all;
    for (int t = 0; t <= 2 * depth + 2; ++t) all.push_back(t);
    if (all.size() <= most) return all;
    std::vector<int> few = {0, 1, 2, depth - 1, depth, depth + 1, 2 * depth + 2};
    std::sort(few.begin(), few.end());
    few.erase(std::unique(few.begin(), few.end()), few.end());
    if (few.size() > most) few.resize(std::max<size_t>(most, 3));
    return few;
  }

  void runs() {
    size_t loops = 0;
    for (ValueId id : deciding_) loops += program_.node(id).op == ir::Op::kLoop ? 1 : 0;
    constexpr size_t kMostRuns = 4000;
    size_t most = kMostRuns;
    for (size_t i = 1; i < loops; ++i) {  // the loops-th root
      size_t root = 1;
      auto power = [&](size_t base) {
        size_t p = 1;
        for (size_t k = 0; k < loops; ++k) p *= base;
        return p;
      };
      while (power(root + 1) <= kMostRuns) ++root;
      most = root;
    }
    Choices choices;
    choose(0, trips(most), choices);
  }

  void choose(size_t at, const std::vector<int>& trips, Choices& choices) {
    if (!result_.problems.empty()) return;
    if (at < deciding_.size()) {
      const bool loop = program_.node(deciding_[at]).op == ir::Op::kLoop;
      const std::vector<int> both = {0, 1};
      for (int choice : loop ? trips : both) {
        choices[deciding_[at]] = choice;
        choose(at + 1, trips, choices);
      }
      return;
    }
    // Two tiles: what the first leaves, the second finds.
    Unfolding copying(choices), computing(choices);
    for (int tile = 0; tile < 2; ++tile) {
      copying.events(placed_.copying, 0, 0);
      computing.events(placed_.computing, 0, 0);
    }
    ++result_.runs;
    const Stuck end = verify::run(copying.out, computing.out, placed_);
    if (end.stuck) report(choices, copying.out, computing.out, end);
  }

  void report(const Choices& choices, const std::vector<Line>& copying,
              const std::vector<Line>& computing, const Stuck& at) {
    std::vector<std::string> story;
    for (const auto& [id, choice] : choices)
      story.push_back(program_.node(id).op == ir::Op::kLoop
                          ? node_name(program_, id) + ": " + std::to_string(choice) + " steps"
                          : "condition " + node_name(program_, id) +
                                (choice != 0 ? " holds" : " does not hold"));
    const auto ring = [&](const Line& line) {
      return placed_.rings[static_cast<size_t>(line.ring)].name;
    };
    if (at.copying < copying.size())
      story.push_back("the copying role waits for a free slot of ring " +
                      ring(copying[at.copying]));
    if (at.computing < computing.size())
      story.push_back("the computing role waits for a full slot of ring " +
                      ring(computing[at.computing]));
    refuse("roles", "a wait is for ever", std::move(story), placed_.phase);
  }

  const ir::Program& program_;
  const Placed& placed_;
  std::vector<ValueId> deciding_;
  LiveResult result_;
};

}  // namespace

LiveResult check_live(const ir::Program& program, const Placed& placed) {
  return Live(program, placed).run();
}

}  // namespace rooftile::verify
