// SPDX-License-Identifier: Apache-2.0
// What may be forgotten of a state, and how states that behave alike become equal.
//
// Each rule drops what no step from here on can tell: it asks who may yet ask, wait, arrive or
// touch, from where the warps stand (liveness.h) and from what they have been seen doing. If a warp
// is then seen doing something new, the exploration starts again.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>

#include "rooftile/verify/protocol/machine.h"

namespace rooftile::verify::protocol {
namespace {

// Records of what is over may be there or not: one that is not there is known to all concerned.
bool forgettable(const Record& r) { return !r.running; }

class Hasher {
 public:
  void add(uint64_t x) {
    a_ = (a_ ^ x) * 0x9E3779B97F4A7C15ull;
    a_ ^= a_ >> 32;
    b_ = (b_ + x) * 0xC2B2AE3D27D4EB4Full;
    b_ = std::rotl(b_, 29) ^ x;
  }
  template <class T>
  void add_all(const std::vector<T>& list) {
    add(list.size());
    for (const T& x : list) add(static_cast<uint64_t>(static_cast<int64_t>(x)));
  }
  std::pair<uint64_t, uint64_t> value() const { return {a_, b_}; }

 private:
  uint64_t a_ = 1, b_ = 2;
};

auto order(const Record& r) {
  return std::tuple(r.cta, r.of, r.by, r.owner, r.access, r.barrier, r.lanes, r.group, r.running,
                    r.flag);
}

}  // namespace

// ---- what may be forgotten

// Loops that are alike but for where the loops around them stand.
int Machine::signature(LoopId l) {
  if (const auto it = signature_of_.find(l); it != signature_of_.end()) return it->second;
  std::string key;
  for (LoopId at = l; at >= 0;) {
    const Loop& loop = terms_.loop(at);
    key += fmt::format("{};{};{}|", terms_.text(loop.base, true), terms_.text(loop.unit, true),
                       terms_.text(loop.end, true));
    at = loop.parent == kNoAtom ? -1 : terms_.atom(loop.parent).loop;
  }
  const int id = signatures_.emplace(key, static_cast<int>(signatures_.size())).first->second;
  return signature_of_[l] = id;
}

// Whether a warp will never again ask for what depends on this step.
bool Machine::past(const State& state, int w, LoopId l, int64_t index) {
  const Warp& warp = state.warps[static_cast<size_t>(w)];
  if (warp.done || enters_[static_cast<size_t>(w)].count(signature(l)) == 0) return true;
  for (const Frame& f : warp.frames)
    if (f.loop == l) return f.index > index;
  if (std::find(warp.left.begin(), warp.left.end(), l) != warp.left.end()) return true;
  const AtomId around = terms_.loop(l).parent;
  return around != kNoAtom && past(state, w, terms_.atom(around).loop, terms_.atom(around).index);
}

// Whether nobody will come to the first round of the loop any more.
bool Machine::past_first(const State& state, int sign) {
  for (size_t w = 0; w < state.warps.size(); ++w) {
    const Warp& warp = state.warps[w];
    if (warp.done || enters_[w].count(sign) == 0) continue;
    bool past = false;
    for (const Frame& f : warp.frames)
      if (f.loop >= 0 && signature(f.loop) == sign) past = f.index > 0;
    for (const LoopId l : warp.left) past = past || signature(l) == sign;
    if (!past) return false;
  }
  return true;
}

// A decision lasts as long as somebody may ask: who has not passed the step that it is about, or,
// of a constant of the launch, who may come to where it has been asked for.
void Machine::forget_decisions(State& state) {
  std::erase_if(state.decided, [&](const auto& d) {
    const AtomId step = terms_.atom(d.first).newest_step;
    if (step != kNoAtom) {
      const LoopId l = terms_.atom(step).loop;
      for (size_t w = 0; w < state.warps.size(); ++w)
        if (!past(state, static_cast<int>(w), l, terms_.atom(step).index)) return false;
      return true;
    }
    const auto first = first_rounds_.find(d.first);
    if (first != first_rounds_.end() && first->second >= 0 && past_first(state, first->second))
      return true;
    const auto comes_to = [&](const Warp& warp, int op) {
      return !warp.done &&
             has_bit(live_.reaches[static_cast<size_t>(warp.pc)], static_cast<size_t>(op));
    };
    for (const auto& [w, op] : users_[d.first])
      if (comes_to(state.warps[static_cast<size_t>(w)], op)) return false;
    if (terms_.atom(d.first).kind == AtomKind::kPositive)
      for (const int op : wants_facts_)
        for (const Warp& warp : state.warps)
          if (comes_to(warp, op)) return false;
    return true;
  });
}

// That a loop has been left matters as long as somebody may still walk it.
void Machine::forget_loops(State& state) {
  std::set<LoopId> open;
  for (const Warp& w : state.warps)
    for (const LoopId l : w.left)
      for (size_t other = 0; other < state.warps.size() && open.count(l) == 0; ++other)
        if (!past(state, static_cast<int>(other), l, INT64_MAX)) open.insert(l);
  for (Warp& w : state.warps) std::erase_if(w.left, [&](LoopId l) { return open.count(l) == 0; });
}

void Machine::saw(Lanes& lanes, int w, uint32_t mask) {
  uint32_t& before = lanes[w];
  if ((mask & ~before) == 0) return;
  before |= mask;
  needs_.clear();
  ++discoveries_;
}

// Who may yet meet an access, and must know of it then.
const Machine::Need& Machine::need(const Record& r) {
  const auto [it, is_new] = needs_.emplace(std::tuple(r.cta, r.access, r.of == Of::kWrite), Need());
  if (!is_new) return it->second;
  for (const auto& [touch, lanes] : touches_) {
    const auto& [cta, access, write, async] = touch;
    if (cta != r.cta || (!write && r.of == Of::kRead) || !accesses_.overlap(access, r.access).any)
      continue;
    for (const auto& [w, mask] : lanes) {
      it->second.to_know[w] |= mask;
      if (async) it->second.fenced[w] |= mask;
    }
  }
  return it->second;
}

// Whether a warp may yet touch an allocation of a CTA; -1: of nobody knows which.
bool Machine::may_use(const State& state, int w, int cta, int allocation) const {
  const Warp& warp = state.warps[static_cast<size_t>(w)];
  if (warp.done) return false;
  if (allocation < 0) return true;
  const auto& uses = cta_of(w) == cta ? live_.own : live_.peers;
  return (uses[static_cast<size_t>(warp.pc)] >> allocation & 1) != 0;
}

bool Machine::all_know(const State& state, const Lanes& who, int cta, int allocation,
                       const Agents& known) const {
  return std::all_of(who.begin(), who.end(), [&](const auto& entry) {
    const auto& [w, mask] = entry;
    const Warp& warp = state.warps[static_cast<size_t>(w)];
    return known.has(all(w)) || (known.has(part(w)) && (mask & ~warp.part) == 0) ||
           !may_use(state, w, cta, allocation);
  });
}

int Machine::allocation_at(int64_t offset) const {
  const auto& allocs = flat_.program.shared;
  for (size_t a = 0; a < allocs.size(); ++a)
    if (offset >= allocs[a].offset && offset < allocs[a].offset + allocs[a].bytes)
      return static_cast<int>(a);
  return -1;
}

int Machine::allocation_of(const Record& r) const {
  if (r.memory()) {
    int out = -1;
    for (const Run& run : accesses_[r.access].widest()) {
      const int a = allocation_at(run.begin);
      if (a < 0 || (out >= 0 && a != out)) return -1;
      out = a;
    }
    return out;
  }
  if (r.barrier >= num_mbarriers_) return -1;
  return allocation_at(barrier_offsets_[static_cast<size_t>(r.barrier) % barrier_offsets_.size()]);
}

// What a barrier knows and all who wait for it know too is nothing that it could tell.
void Machine::forget_carriers(const State& state, Record& r) {
  for (const auto& [b, who] : waits_) {
    if (r.of == Of::kWaited && r.barrier == b) continue;
    const size_t per_cta = barrier_offsets_.size();
    const bool mbarrier = b < num_mbarriers_;
    const int allocation =
        mbarrier ? allocation_at(barrier_offsets_[static_cast<size_t>(b) % per_cta]) : -1;
    const int cta = mbarrier ? b / static_cast<int>(per_cta) : 0;
    for (const Agent carrier : {gathered(b), done(b)}) {
      if (r.known.has(carrier) && all_know(state, who, cta, allocation, r.known))
        r.known.clear(carrier);
      if (r.fenced.has(carrier) && all_know(state, who, cta, allocation, r.fenced))
        r.fenced.clear(carrier);
    }
  }
}

// Registers that are not read again, and barriers that nobody comes to again.
void Machine::forget_dead(State& state) {
  for (Warp& w : state.warps) {
    if (w.done) continue;
    const Bits& live = live_.slots[static_cast<size_t>(w.pc)];
    for (size_t s = 0; s < w.slots.size(); ++s)
      if (!has_bit(live, s)) w.slots[s] = kNothing;
    if (!live_.products[static_cast<size_t>(w.pc)]) w.touched = 0;
  }
  for (int cta = 0; cta < ctas_; ++cta)
    for (size_t a = 0; a < flat_.program.shared.size(); ++a) {
      const lanes::SharedAlloc& alloc = flat_.program.shared[a];
      bool used = alloc.barriers;
      for (size_t w = 0; w < state.warps.size() && !used; ++w)
        used = may_use(state, static_cast<int>(w), cta, static_cast<int>(a));
      ExtentId& extent = state.initialised[static_cast<size_t>(cta)];
      if (!used)
        extent = accesses_.without(extent, static_cast<int32_t>(alloc.offset),
                                   static_cast<int32_t>(alloc.offset + alloc.bytes));
    }
  for (size_t b = 0; b < state.barriers.size(); ++b) {
    Barrier& barrier = state.barriers[b];
    const int allocation = allocation_at(barrier_offsets_[b % barrier_offsets_.size()]);
    const int cta = static_cast<int>(b / barrier_offsets_.size());
    bool used = !barrier.ready;
    for (size_t w = 0; w < state.warps.size(); ++w)
      used = used || may_use(state, static_cast<int>(w), cta, allocation);
    if (used) continue;
    barrier = {};
    barrier.ready = true;
    std::erase_if(state.records, [&](const Record& r) {
      return r.barrier == static_cast<int>(b) && !r.memory() && r.of != Of::kOwed;
    });
  }
}

void Machine::forget_records(State& state) {
  for (Record& r : state.records) {
    if (!r.memory()) continue;
    const SumId sum = accesses_[r.access].sum;
    const AtomId step = terms_.newest_step_of(sum);
    if (sum == kNoSum || step == kNoAtom) continue;
    const LoopId l = terms_.atom(step).loop;
    bool over = true;
    for (size_t w = 0; w < state.warps.size(); ++w)
      over = over && past(state, static_cast<int>(w), l, terms_.atom(step).index);
    if (over) r.access = accesses_.widened(r.access);
  }
  std::erase_if(state.records, [&](const Record& r) {
    if (r.running) return false;
    const int allocation = allocation_of(r);
    switch (r.of) {
      case Of::kInit: {
        Lanes users = waits_[r.barrier];
        for (const auto& [w, mask] : arrives_[r.barrier]) users[w] |= mask;
        return r.flag && all_know(state, users, r.cta, allocation, r.known);
      }
      case Of::kOwed:
        return known_in_cta(r);
      case Of::kRead:
      case Of::kWrite:
        return all_know(state, need(r).to_know, r.cta, allocation, r.known) &&
               (!r.generic_write() ||
                all_know(state, need(r).fenced, r.cta, allocation, r.fenced)) &&
               (r.by != By::kEngine || known_in_cta(r));
      default:
        return false;
    }
  });
  for (Record& r : state.records) forget_carriers(state, r);
  // What all whom it concerns know of a barrier is as if it had not happened.
  std::erase_if(state.records, [&](const Record& r) {
    if (r.of != Of::kWaited && r.of != Of::kDone && r.of != Of::kDoneBefore) return false;
    Lanes who = arrives_[r.barrier];
    if (r.of != Of::kWaited)
      for (const auto& [w, mask] : waits_[r.barrier]) who[w] |= mask;
    return !who.empty() && all_know(state, who, r.cta, allocation_of(r), r.known);
  });
}

// Somebody whose CTA's memory it is knows: the CTA does not end before.
bool Machine::known_in_cta(const Record& r) const {
  for (int w = r.cta * warps_a_cta_; w < (r.cta + 1) * warps_a_cta_; ++w)
    if (r.known.has(all(w)) || r.known.has(part(w))) return true;
  return false;
}

void Machine::rename_steps(State& state, Request& request) {
  std::map<LoopId, int64_t> least;
  std::set<AtomId> seen;
  std::set<LoopId> seen_loops;
  std::function<void(ValueId)> see_value;
  std::function<void(AtomId)> see_atom;
  const auto see_loop = [&](LoopId l) {
    if (l < 0 || !seen_loops.insert(l).second) return;
    const Loop& loop = terms_.loop(l);
    see_atom(loop.parent);
    for (const ValueId v : {loop.base, loop.unit, loop.end}) see_value(v);
  };
  const auto see_step = [&](LoopId l, int64_t index) {
    const auto [it, is_new] = least.emplace(l, index);
    if (!is_new) it->second = std::min(it->second, index);
    see_loop(l);
  };
  see_atom = [&](AtomId id) {
    if (id == kNoAtom || terms_.atom(id).newest_step == kNoAtom || !seen.insert(id).second) return;
    const Atom& a = terms_.atom(id);
    if (a.kind == AtomKind::kStep) see_step(a.loop, a.index);
    for (const ValueId arg : a.args) see_value(arg);
  };
  const auto see_sum = [&](SumId s) {
    for (const auto& [a, by] : terms_.sum(s)) see_atom(a);
  };
  see_value = [&](ValueId v) { see_sum(terms_.value(v).sum); };

  for (const Warp& w : state.warps) {
    for (const ValueId v : w.slots) see_value(v);
    see_atom(w.step);
    for (const Frame& f : w.frames) {
      see_atom(f.outer);
      if (f.loop >= 0) see_step(f.loop, f.index);
    }
    for (const LoopId l : w.left) see_loop(l);
  }
  for (const Record& r : state.records)
    if (r.memory()) see_sum(accesses_[r.access].sum);
  for (const auto& [atom, yes] : state.decided) see_atom(atom);
  see_atom(request.leaf);

  // Renaming must keep apart what is apart: a loop that somebody has begun after others were
  // renamed is not renamed as long as those are there.
  const auto taken = [&](LoopId l) {
    Loop later = terms_.loop(l);
    later.renamed = true;
    return std::any_of(seen_loops.begin(), seen_loops.end(), [&](LoopId other) {
      const Loop& o = terms_.loop(other);
      return other != l && !(o < later) && !(later < o);
    });
  };
  std::map<LoopId, int64_t> shift;
  for (const auto& [l, index] : least)
    if (index > 1 && !taken(l)) shift[l] = index - 1;
  if (shift.empty()) return;
  terms_.begin_renaming(shift);
  for (Warp& w : state.warps) {
    for (ValueId& v : w.slots) v = terms_.renamed(v);
    w.step = terms_.renamed_atom(w.step);
    for (Frame& f : w.frames) {
      f.outer = terms_.renamed_atom(f.outer);
      if (f.loop < 0) continue;
      if (const auto it = shift.find(f.loop); it != shift.end()) f.index -= it->second;
      f.loop = terms_.renamed_loop(f.loop);
    }
    for (LoopId& l : w.left) l = terms_.renamed_loop(l);
  }
  for (Record& r : state.records)
    if (r.memory())
      if (const SumId sum = accesses_[r.access].sum; sum != kNoSum)
        r.access = accesses_.with_sum(r.access, terms_.renamed_sum(sum));
  for (auto& [atom, yes] : state.decided) atom = terms_.renamed_atom(atom);
  std::sort(state.decided.begin(), state.decided.end());
  request.leaf = terms_.renamed_atom(request.leaf);
}

// Both lists are in order(). What one state has forgotten, everybody concerned knew.
bool Machine::merge(State& into, const State& from) {
  bool changed = false;
  std::vector<Record> out;
  out.reserve(into.records.size());
  auto a = into.records.begin();
  auto b = from.records.begin();
  while (a != into.records.end() || b != from.records.end()) {
    if (b == from.records.end() || (a != into.records.end() && order(*a) < order(*b))) {
      out.push_back(*a++);
    } else if (a == into.records.end() || order(*b) < order(*a)) {
      out.push_back(*b++);
      changed = true;
    } else {
      Record both = *a++;
      const Record& other = *b++;
      for (size_t i = 0; i < both.known.words.size(); ++i) {
        both.known.words[i] &= other.known.words[i];
        both.fenced.words[i] &= other.fenced.words[i];
      }
      changed = changed || both.known.words != std::prev(a)->known.words ||
                both.fenced.words != std::prev(a)->fenced.words;
      out.push_back(both);
    }
  }
  into.records = std::move(out);
  return changed;
}

// Batches of products are counted from the oldest that may run.
void Machine::renumber_batches(State& state, int group) {
  const auto first = state.warps.begin() + group * 4;
  const auto last = state.warps.end() - first < 4 ? state.warps.end() : first + 4;
  uint32_t oldest = ~0u, newest = 0;
  for (auto w = first; w != last; ++w) {
    oldest = std::min(oldest, w->over);
    newest = std::max(newest, w->committed);
  }
  if (newest == 0) return;
  for (auto w = first; w != last; ++w) {
    w->over -= oldest;
    w->committed -= oldest;
  }
  for (Record& r : state.records) {
    if (!r.memory()) {
      std::array<bool, kBatchTags> knew{};
      for (uint32_t i = 0; i < kBatchTags; ++i) {
        const Agent tag = batch_agent(group, i);
        knew[i] = r.known.has(tag);
        r.known.clear(tag);
      }
      for (uint32_t batch = oldest + 1; batch <= newest; ++batch)
        if (knew[batch % kBatchTags]) r.known.set(batch_agent(group, batch - oldest));
    }
    if (r.by != By::kProduct || r.owner != group) continue;
    r.group = r.group <= oldest ? 0 : r.group - oldest;
    r.running = r.running && r.group != 0;
  }
}

void Machine::settle(State& state, Request& request, bool rename) {
  forget_decisions(state);
  forget_loops(state);
  forget_dead(state);
  forget_records(state);
  for (Warp& w : state.warps)
    if (w.done) {
      Warp gone;
      gone.done = true;
      gone.registers = w.registers;
      gone.committed = w.committed;
      gone.over = w.over;
      w = std::move(gone);
    }
  if (rename) rename_steps(state, request);
  for (size_t first = 0; first < state.warps.size(); first += 4)
    renumber_batches(state, static_cast<int>(first) / 4);
  std::sort(state.records.begin(), state.records.end(),
            [](const Record& a, const Record& b) { return order(a) < order(b); });
}

std::pair<uint64_t, uint64_t> Machine::hash(const State& state, bool exact) const {
  Hasher h;
  for (const Warp& w : state.warps) {
    h.add(static_cast<uint64_t>(w.pc) << 32 | w.mask);
    h.add(static_cast<uint64_t>(w.may) << 3 | static_cast<uint64_t>(w.done) << 2 |
          static_cast<uint64_t>(w.arrived) << 1 | static_cast<uint64_t>(w.released));
    h.add(static_cast<uint64_t>(static_cast<int64_t>(w.answer)));
    h.add(w.frames.size());
    for (const Frame& f : w.frames) {
      h.add(static_cast<uint64_t>(f.kind) << 33 | static_cast<uint64_t>(f.saved_may) << 32 |
            f.saved);
      h.add(static_cast<uint64_t>(f.op) << 32 | static_cast<uint32_t>(f.loop));
      h.add(static_cast<uint64_t>(f.index));
      h.add(static_cast<uint64_t>(f.stride) << 32 | static_cast<uint32_t>(f.outer));
    }
    h.add_all(w.slots);
    h.add(static_cast<uint32_t>(w.step));
    h.add_all(w.left);
    h.add(static_cast<uint64_t>(w.part));
    h.add(static_cast<uint64_t>(w.cluster_arrived) << 32 | w.cluster_over);
    h.add(static_cast<uint64_t>(w.registers));
    h.add(static_cast<uint64_t>(w.committed) << 32 | w.over);
    h.add(w.batches.size());
    for (const Batch& b : w.batches) h.add(b.registers ^ std::rotl(b.signature, 17));
    h.add(w.open.registers ^ std::rotl(w.open.signature, 17));
    h.add(w.touched);
  }
  for (const Barrier& b : state.barriers) {
    h.add(static_cast<uint64_t>(b.ready) << 1 | static_cast<uint64_t>(b.phase));
    h.add(static_cast<uint64_t>(b.count) << 32 | static_cast<uint32_t>(b.pending));
    h.add(static_cast<uint64_t>(b.expected) << 32 ^ static_cast<uint64_t>(b.issued));
  }
  for (const NamedBarrier& n : state.named)
    h.add(static_cast<uint64_t>(n.arrived) << 32 |
          static_cast<uint32_t>(n.arrived > 0 ? n.threads : 0));
  for (const Record& r : state.records) {
    if (!exact && forgettable(r)) continue;
    h.add(static_cast<uint64_t>(r.of) << 40 | static_cast<uint64_t>(r.by) << 32 |
          static_cast<uint64_t>(r.running) << 31 | static_cast<uint64_t>(r.flag) << 30 |
          static_cast<uint64_t>(static_cast<uint16_t>(r.cta)) << 16 |
          static_cast<uint16_t>(r.owner));
    h.add(static_cast<uint64_t>(static_cast<uint32_t>(r.access)) << 32 |
          static_cast<uint32_t>(r.barrier));
    h.add(static_cast<uint64_t>(r.lanes) << 32 | r.group);
    if (!exact) continue;
    for (const uint64_t word : r.known.words) h.add(word);
    for (const uint64_t word : r.fenced.words) h.add(word);
  }
  h.add_all(state.initialised);
  h.add_all(state.free_registers);
  for (const auto& [atom, yes] : state.decided)
    h.add(static_cast<uint64_t>(atom) << 1 | static_cast<uint64_t>(yes));
  return h.value();
}

}  // namespace rooftile::verify::protocol
