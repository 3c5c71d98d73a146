// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/tile/covers.h"

#include <algorithm>

#include "rooftile/verify/tile/linear.h"

namespace rooftile::verify {
namespace {

// x runs over 0, 1, ..., count - 1.
struct Runner {
  std::string var;
  Expr count;
};

// Stores to the same elements under conditions that exclude each other count as one.
struct StoreGroup {
  Access access;  // of the first, its indices and loops counted from 0
  std::vector<Runner> runners;
  Expr condition;                    // of any of them
  std::vector<std::string> tensors;  // looked up in
};

Expr all_of(const std::vector<Expr>& conditions) {
  Expr out = 1;
  for (const Expr& c : conditions) out = out.is_const(1) ? c : out && c;
  return out;
}

bool same_walks(const std::vector<AxisWalk>& a, const std::vector<AxisWalk>& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](auto& x, auto& y) {
           return x.var == y.var && x.begin.same_as(y.begin) && x.end.same_as(y.end) &&
                  x.step.same_as(y.step);
         });
}

bool same_elements(const Access& a, const Access& b) {
  return a.scope.phase == b.scope.phase && same_walks(a.positions, b.positions) &&
         same_walks(a.scope.loops, b.scope.loops) &&
         a.scope.lookups.size() == b.scope.lookups.size() && a.index.size() == b.index.size() &&
         std::equal(a.index.begin(), a.index.end(), b.index.begin(),
                    [](const Expr& x, const Expr& y) { return x.same_as(y); });
}

class Cover {
 public:
  Cover(Reasoner& reasoner, const Accesses& accesses, const ir::TensorParam& tensor)
      : reasoner_(reasoner), accesses_(accesses), tensor_(tensor) {
    for (const Expr& extent : tensor.shape)
      if (!extent.is_const()) not_empty_.push_back(Expr(1) <= extent);
  }

  Coverage run(size_t phase) {
    std::vector<StoreGroup> groups = groups_before(phase);
    Coverage out;
    if (groups.empty()) {
      out.reason = "no store to `" + tensor_.name + "`";
      return out;
    }
    for (StoreGroup& group : groups) {
      reason_.clear();
      if (name_instances(group) && covers(group)) {
        out.verdict = Verdict::kProved;
        out.tensors = group.tensors;
        return out;
      }
      out.reason = reason_;
    }
    out.models = models_;
    return out;
  }

 private:
  std::vector<StoreGroup> groups_before(size_t phase) const {
    std::vector<StoreGroup> groups;
    for (const Access& a : accesses_.all) {
      if (a.kind != Access::kStore || a.tensor != tensor_.name || a.adds ||
          a.scope.phase >= phase || !a.unknown.empty())
        continue;
      const Expr condition = all_of(a.scope.conditions);
      auto at = std::find_if(groups.begin(), groups.end(),
                             [&](const StoreGroup& g) { return same_elements(g.access, a); });
      if (at == groups.end()) {
        groups.push_back({a, {}, condition, {}});
      } else {
        at->condition = at->condition || condition;
      }
    }
    return groups;
  }

  // ---- runners: indices that count from 0

  void replace(StoreGroup& group, const std::string& var, const Expr& by) {
    const Substitution values = {{var, by}};
    for (Expr& e : group.access.index) e = substitute(e, values);
    for (AxisWalk& w : group.access.positions) w.end = substitute(w.end, values);
    for (Runner& r : group.runners) r.count = substitute(r.count, values);
    group.condition = substitute(group.condition, values);
  }

  // Innermost first: that is the order in which they are most likely laid side by side.
  bool name_instances(StoreGroup& group) {
    const std::vector<AxisWalk>&loops = group.access.scope.loops, &tiles = group.access.scope.tiles;
    for (auto walk = loops.rbegin(); walk != loops.rend(); ++walk) {
      const Expr count = max(ceil_div(walk->end - walk->begin, walk->step), Expr(0));
      if (!walk->begin.is_const(0) || !walk->step.is_const(1))
        replace(group, walk->var, walk->begin + Expr::sym(walk->var) * walk->step);
      group.runners.push_back({walk->var, count});
    }
    for (auto walk = tiles.rbegin(); walk != tiles.rend(); ++walk) {
      if (const Lookup* lookup = lookup_by(group, *walk)) {
        if (!name_by_lookup(group, *walk, *lookup)) return false;
      } else {
        group.runners.push_back({walk->var, walk->end});
      }
    }
    return true;
  }

  // The lookup whose element is this index of the parallel space, forwards or backwards.
  static const Lookup* lookup_by(const StoreGroup& group, const AxisWalk& walk) {
    for (const Lookup& lookup : group.access.scope.lookups)
      if (lookup.index.size() == 1 && mentions(lookup.index[0], walk.var)) return &lookup;
    return nullptr;
  }

  bool name_by_lookup(StoreGroup& group, const AxisWalk& walk, const Lookup& lookup) {
    const Access& store = accesses_.all[lookup.store];
    const ir::TensorParam& table = *reasoner_.program().tensor(store.tensor);
    const std::optional<Split> part = split(lookup.index[0], walk.var);
    const Expr& length = table.shape[0];
    const bool forwards = part && part->coefficient.is_const(1) && part->rest.is_const(0);
    const bool backwards =
        part && part->coefficient.is_const(-1) && part->rest.same_as(length - Expr(1));
    if ((!forwards && !backwards) || !walk.end.same_as(length) || store.scope.tiles.size() != 1 ||
        !store.scope.loops.empty() || !store.scope.conditions.empty() ||
        store.positions.size() > 1) {
      return fail("index `" + walk.var + "` is looked up in `" + table.name +
                  "` in a way that names no instance");
    }
    const Expr found = substitute(store.index[0], lookup.renamed);
    replace(group, walk.var, forwards ? found : length - Expr(1) - found);
    // Inner first: the position in what one instance stored, then that instance.
    const auto renamed = [&](const std::string& var) { return lookup.renamed.at(var).name(); };
    for (const AxisWalk& position : store.positions)
      group.runners.push_back({renamed(position.var), substitute(position.end, lookup.renamed)});
    const AxisWalk& owner = store.scope.tiles[0];
    group.runners.push_back({renamed(owner.var), owner.end});
    group.tensors.push_back(table.name);
    return true;
  }

  // ---- the argument

  // An interval of a dimension that the stores cover, for each value of the runners still free.
  struct Interval {
    Expr begin, end;
    Expr condition = 1;  // under which anything is stored at all
  };

  bool covers(const StoreGroup& group) {
    if (const std::string symbol = stray_symbol(group); !symbol.empty())
      return fail("`" + symbol + "` is known by a look-up only");
    const bool always = ask(ranges(group.runners), group.condition);
    bool conditioned = always;
    std::set<std::string> used;
    for (size_t d = 0; d < tensor_.shape.size(); ++d) {
      const Expr& index = group.access.index[d];
      std::vector<Runner> mine;
      Expr count = 1, first = index;
      for (const AxisWalk& w : group.access.positions)
        if (const std::optional<Split> part = split(index, w.var);
            !part || !part->coefficient.is_const(0)) {
          if (!part || !(part->coefficient.is_const(1) || w.end.is_const(1)))
            return fail("a store with a step between its elements");
          first = part->rest;
          count = w.end;
        }
      for (const Runner& r : group.runners)
        if (mentions(first, r.var) || mentions(count, r.var)) {
          if (!used.insert(r.var).second)
            return fail("`" + r.var + "` moves more than one dimension of `" + tensor_.name + "`");
          mine.push_back(r);
        }
      Interval interval = {first, first + count};
      if (!conditioned && depends_on(group.condition, group.runners, mine)) {
        interval.condition = group.condition;
        conditioned = true;
      }
      if (!lay(interval, mine, tensor_.shape[d]))
        return fail("dimension " + std::to_string(d) + " of `" + tensor_.name +
                    "` is not seen to be stored to its end");
    }
    if (!conditioned) return fail("nothing says that the condition of the store holds");
    for (const Runner& r : group.runners)
      if (used.count(r.var) == 0 && !ask({}, Expr(1) <= r.count))
        return fail("no instance of `" + r.var + "` is certain");
    return true;
  }

  // Indices of looked-up stores that no runner stands for.
  static std::string stray_symbol(const StoreGroup& group) {
    std::vector<Expr> all = group.access.index;
    for (const AxisWalk& w : group.access.positions) all.push_back(w.end);
    all.push_back(group.condition);
    for (const Lookup& lookup : group.access.scope.lookups)
      for (const auto& entry : lookup.renamed) {
        const std::string& to = entry.second.name();
        const bool runs = std::any_of(group.runners.begin(), group.runners.end(),
                                      [&](const Runner& r) { return r.var == to; });
        for (const Expr& e : all)
          if (!runs && mentions(e, to)) return to;
      }
    return "";
  }

  // Whether the runners that `condition` mentions are all among `mine`, and there is one.
  static bool depends_on(const Expr& condition, const std::vector<Runner>& all,
                         const std::vector<Runner>& mine) {
    size_t there = 0, here = 0;
    for (const Runner& r : all) there += mentions(condition, r.var) ? 1 : 0;
    for (const Runner& r : mine) here += mentions(condition, r.var) ? 1 : 0;
    return here > 0 && here == there;
  }

  // Lays the intervals of the runners side by side, in whichever order works.
  bool lay(const Interval& at, const std::vector<Runner>& runners, const Expr& extent) {
    if (runners.empty()) return ask({}, at.begin <= Expr(0)) && ask({}, extent <= at.end);
    for (size_t i = 0; i < runners.size(); ++i) {
      const Runner& x = runners[i];
      std::vector<Runner> outer = runners;
      outer.erase(outer.begin() + static_cast<std::ptrdiff_t>(i));
      // The inner one runs inside the others, so no number of theirs may depend on it.
      if (std::any_of(outer.begin(), outer.end(),
                      [&](const Runner& r) { return mentions(r.count, x.var); }))
        continue;
      if (!ask(ranges(outer), Expr(0) <= x.count)) continue;
      for (const bool backwards : directions(at.begin, x.var)) {
        const Interval turned = backwards ? turn_around(at, x) : at;
        for (const Expr& cap : caps(turned, x, outer, extent))
          if (side_by_side(turned, x, outer, cap)) {
            const Interval joined = {put(turned.begin, x.var, 0),
                                     min(put(turned.begin, x.var, x.count), cap)};
            if (lay(joined, outer, extent)) return true;
          }
      }
    }
    return false;
  }

  bool side_by_side(const Interval& at, const Runner& x, const std::vector<Runner>& outer,
                    const Expr& cap) {
    std::vector<Expr> facts = ranges(outer);
    const std::vector<Expr> own = ranges({x});
    facts.insert(facts.end(), own.begin(), own.end());
    const Expr next = min(put(at.begin, x.var, Expr::sym(x.var) + Expr(1)), cap);
    if (at.condition.is_const(1)) return ask(facts, next <= at.end);
    // Where nothing is stored, there must be nothing to store.
    std::vector<Expr> stored = facts, skipped = facts;
    stored.push_back(at.condition);
    skipped.push_back(!at.condition);
    return ask(stored, next <= at.end) && ask(skipped, next <= at.begin);
  }

  // How far a row of intervals has to reach: to where the next value of an outer runner begins, or
  // to the end of the dimension.
  static std::vector<Expr> caps(const Interval& at, const Runner& x,
                                const std::vector<Runner>& outer, const Expr& extent) {
    std::vector<Expr> out;
    for (const Runner& r : outer)
      out.push_back(put(put(at.begin, x.var, 0), r.var, Expr::sym(r.var) + Expr(1)));
    out.push_back(extent);
    return out;
  }

  static std::vector<bool> directions(const Expr& begin, const std::string& var) {
    const std::optional<Split> part = split(begin, var);
    if (!part || !part->coefficient.is_const()) return {false, true};
    return {part->coefficient.value() < 0};
  }

  static Interval turn_around(const Interval& at, const Runner& x) {
    const Expr other = x.count - Expr(1) - Expr::sym(x.var);
    return {put(at.begin, x.var, other), put(at.end, x.var, other),
            put(at.condition, x.var, other)};
  }

  static Expr put(const Expr& e, const std::string& var, const Expr& value) {
    return substitute(e, {{var, value}});
  }
  static std::vector<Expr> ranges(const std::vector<Runner>& runners) {
    std::vector<Expr> out;
    for (const Runner& r : runners)
      for (const Expr& fact : range_of({r.var, 0, r.count, 1})) out.push_back(fact);
    return out;
  }

  bool ask(std::vector<Expr> facts, const Expr& goal) {
    facts.insert(facts.end(), not_empty_.begin(), not_empty_.end());
    const Answer answer = reasoner_.prove(facts, goal);
    if (answer.verdict == Verdict::kRefuted && models_.size() < kModels)
      models_.push_back(answer.model);
    return answer.verdict == Verdict::kProved;
  }
  bool fail(const std::string& why) {
    if (reason_.empty()) reason_ = why;
    return false;
  }

  static constexpr size_t kModels = 4;
  Reasoner& reasoner_;
  const Accesses& accesses_;
  const ir::TensorParam& tensor_;
  std::vector<Expr> not_empty_;  // there is something to cover
  std::string reason_;
  std::vector<Env> models_;
};

}  // namespace

Coverage covered_before(Reasoner& reasoner, const Accesses& accesses, const std::string& tensor,
                        size_t phase) {
  const ir::TensorParam* param = reasoner.program().tensor(tensor);
  if (param == nullptr) return {};
  return Cover(reasoner, accesses, *param).run(phase);
}

}  // namespace rooftile::verify
