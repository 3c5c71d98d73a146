// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/protocol/explore.h"

#include <fmt/format.h>

#include <deque>
#include <map>

namespace rooftile::verify::protocol {
namespace {

constexpr int kMostStarts = 12;
constexpr int kHastyStarts = 8;  // that end once they have found nothing new for long
constexpr size_t kPatience = 64;
constexpr int kMostDeadEnds = 16;  // faults to which no call is found

using Decisions = std::vector<std::pair<AtomId, bool>>;

// Where a state comes from: the answer that led to it.
struct Node {
  int parent = -1;
  bool yes = false;
};

class Explorer {
 public:
  Explorer(const Flat& flat, Terms& terms, const FindCall& find_call, size_t most)
      : machine_(flat, terms), find_call_(find_call), most_(most) {}

  // States that differ in knowledge alone are merged first, which is quick; what seems wrong then
  // and cannot be replayed is looked at again without merging.
  Exploration run() {
    for (exact_ = false;; exact_ = true) {
      // What may be forgotten depends on what each warp does at all, which the first run finds out.
      for (int start = 0; start < kMostStarts; ++start) {
        machine_.forget_discoveries();
        once(start < kHastyStarts);
        if (machine_.discoveries() == 0 || out_.call) break;
      }
      if (exact_ || !out_.faulty || out_.call) break;
    }
    if (machine_.discoveries() > 0 && !out_.faulty && out_.unknown.empty())
      out_.unknown = "what the warps do was not found out";
    if (out_.faulty && !out_.call)
      out_.unknown = "a fault to which no call was found: " + out_.fault.reason;
    out_.complete = !out_.faulty && out_.unknown.empty();
    out_.barriers = machine_.barrier_uses();
    return std::move(out_);
  }

 private:
  using Key = std::pair<uint64_t, uint64_t>;
  struct Visited {
    State state;  // exact: empty once it has been gone on from
    Request request;
    int node = 0;
    bool pending = false;
  };

  // `hasty`: what is found is mostly found early, and all of it has to be looked at again anyway.
  void once(bool hasty) {
    out_ = {};
    nodes_.assign(1, Node());
    seen_.clear();
    dead_ends_ = 0;
    queue_.clear();
    State first = machine_.start();
    visit(first, 0);
    size_t found = 0, last = 0;  // discoveries, and the size of the tree when the last was made
    while (!queue_.empty() && !over()) {
      if (machine_.discoveries() != found) last = nodes_.size();
      found = machine_.discoveries();
      if (hasty && found > 0 && nodes_.size() > 2 * last + kPatience) return;
      Visited& next = seen_[queue_.front()];
      queue_.pop_front();
      next.pending = false;
      const Request request = next.request;
      const int node = next.node;
      const State from = exact_ ? std::move(next.state) : next.state;
      for (const bool yes : {true, false}) {
        if (request.ticket && !yes) break;
        State state = from;
        machine_.answer(state, request, yes);
        nodes_.push_back({node, yes});
        visit(state, static_cast<int>(nodes_.size()) - 1);
        if (over()) return;
      }
    }
  }
  bool over() const { return out_.call || out_.states > most_ || dead_ends_ > kMostDeadEnds; }

  void visit(State& state, int node) {
    try {
      Request request = machine_.run(state);
      if (!request.present()) {
        if (!machine_.finished(state)) deadlock(state, node);
        return;
      }
      machine_.settle(state, request);
      reach(state, request, node);
    } catch (const Fault& fault) {
      wrong(fault, node);
    } catch (const Refusal& refusal) {
      if (!out_.unknown.empty()) return;  // elsewhere there may still be a fault
      out_.unknown = refusal.why;
      if (refusal.op >= 0) out_.unknown += ", at " + machine_.place(-1, refusal.op);
    }
  }

  void reach(State& state, const Request& request, int node) {
    const Key key = machine_.hash(state, exact_);
    const auto [known, is_new] = seen_.try_emplace(key);
    Visited& there = known->second;
    if (is_new) {
      there = {std::move(state), request, node, false};
      if (++out_.states > most_) out_.unknown = fmt::format("more than {} states", most_);
    } else if (exact_ || !Machine::merge(there.state, state)) {
      return;
    }
    if (!there.pending) queue_.push_back(key);
    there.pending = true;
    there.node = node;
  }

  void deadlock(State& state, int node) {
    std::vector<std::string> waits = machine_.waits(state);
    Fault fault{Kind::kNoDeadlock, "", -1, -1};
    for (size_t w = 0; w < state.warps.size() && fault.warp < 0; ++w)
      if (!state.warps[w].done) {
        fault.warp = static_cast<int>(w);
        fault.op = state.warps[w].pc;
      }
    fault.reason = "nobody can go on: " + (waits.empty() ? "" : waits[0]);
    wrong(fault, node, std::move(waits));
  }

  void wrong(const Fault& fault, int node, std::vector<std::string> waits = {}) {
    const std::optional<Decisions> path = replay(fault, node);
    const std::optional<Env> call = path ? find_call_(*path) : std::nullopt;
    ++dead_ends_;
    if (out_.faulty && !call) return;  // the first is the one to tell of
    out_.faulty = true;
    out_.fault = fault;
    out_.place = machine_.place(fault.warp, fault.op);
    out_.waits = std::move(waits);
    out_.call = call;
    if (path) out_.decisions = *path;
  }

  // The path is run again from the start, with the numbers of steps as they are and nothing merged.
  std::optional<Decisions> replay(const Fault& fault, int node) {
    std::vector<bool> answers;
    for (int at = node; nodes_[static_cast<size_t>(at)].parent >= 0;
         at = nodes_[static_cast<size_t>(at)].parent)
      answers.insert(answers.begin(), nodes_[static_cast<size_t>(at)].yes);
    Decisions out;
    State state = machine_.start();
    try {
      for (const bool yes : answers) {
        Request request = machine_.run(state);
        if (!request.present()) return std::nullopt;
        machine_.settle(state, request, /*rename=*/false);
        if (request.leaf != kNoAtom) out.emplace_back(request.leaf, yes);
        machine_.answer(state, request, yes);
      }
      if (machine_.run(state).present() || machine_.finished(state)) return std::nullopt;
      if (fault.kind == Kind::kNoDeadlock) return out;
    } catch (const Fault& again) {
      if (again.kind == fault.kind) return out;
    } catch (const Refusal&) {
    }
    return std::nullopt;
  }

  Machine machine_;
  const FindCall& find_call_;
  const size_t most_;
  int dead_ends_ = 0;
  Exploration out_;
  std::vector<Node> nodes_;
  bool exact_ = false;
  std::map<Key, Visited> seen_;
  std::deque<Key> queue_;
};

}  // namespace

Exploration explore(const Flat& flat, Terms& terms, const FindCall& find_call, size_t most_states) {
  return Explorer(flat, terms, find_call, most_states).run();
}

}  // namespace rooftile::verify::protocol
