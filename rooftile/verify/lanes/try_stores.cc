// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/lanes/try_stores.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "rooftile/verify/lanes/tape.h"

namespace rooftile::verify {
namespace {

constexpr int64_t kMostPoints = int64_t{1} << 20;  // of a trial
constexpr int64_t kMostElements = int64_t{1} << 20;
// Largest dims of a trial. The odd ones leave tails.
constexpr int64_t kSizes[] = {1, 3, 17, 70, 300, 1100};

struct Place {
  const lanes::Stmt* stmt = nullptr;
  std::vector<std::pair<std::string, int64_t>> at;
  bool same_thread(const Place& other) const {
    const auto outer = [](const Place& place) {
      std::vector<std::pair<std::string, int64_t>> out;
      for (const auto& axis : place.at)
        if (axis.first == "tid" || axis.first.starts_with("cta.")) out.push_back(axis);
      return out;
    };
    return outer(*this) == outer(other);
  }
  std::string text() const {
    std::string out;
    for (const auto& [name, value] : at)
      out += (out.empty() ? "" : ", ") + name + " = " + std::to_string(value);
    return out;
  }
};

// One store made ready to be walked: what it depends on, outermost first.
class Site {
 public:
  Site(Walk& walk, const TensorSite& site) : site_(site), tape_(walk.symbols()) {
    for (const Expr& e : site.index) index_.push_back(add(e));
    // What is said of domains and by lemmas holds of every point that is walked.
    for (size_t i = 0; i < site.facts.size(); ++i)
      if (site.kinds[i] == FactKind::kCondition) conditions_.push_back(add(site.facts[i]));
    for (const LoopAt& loop : site.loops) {
      if (loop.parts != nullptr) exact_ = false;  // which tiles come up is not a count
      if (loop.name.empty()) continue;
      loops_.push_back({add(loop.variable), add(loop.begin), add(loop.end), add(loop.step), -1,
                        loop.name, !loop.variable.same_as(Expr::sym(loop.name))});
      inside_.insert(loop.name);
    }
    for (Axis& axis : loops_) axis.slot = tape_.input(axis.name);
    for (const char* name : {"cta.x", "cta.y", "cta.z", "tid"})
      places_.push_back(tape_.input(name));
    for (const auto& [name, slot] : tape_.inputs()) {
      const Symbol* symbol = walk.symbols().find(name);
      const bool place = name == "tid" || name.starts_with("cta.");
      if (place || inside_.count(name) > 0) continue;
      const bool element = loaded_.count(name) > 0;
      if (element || (symbol != nullptr && symbol->kind == SymbolKind::kCall))
        call_.emplace_back(name, slot);
      else
        exact_ = false;  // of memory, of a register that a loop changes, of a loop that is over
    }
  }

  bool exact() const { return exact_; }
  const std::set<std::string>& loaded() const { return loaded_; }  // tensors
  const TensorSite& site() const { return site_; }

  // Calls `store` for every element of `shape` that is stored. False: too many points, or something
  // has no value.
  template <class Store>
  bool walk(const Env& call, const std::array<int64_t, 3>& grid, int threads, int64_t& points,
            const Store& store) {
    for (const auto& [name, slot] : call_) {
      const auto value = call.find(name);
      if (value == call.end()) return false;  // a stride
      tape_.set(slot, value->second);
    }
    for (int64_t z = 0; z < grid[2]; ++z)
      for (int64_t y = 0; y < grid[1]; ++y)
        for (int64_t x = 0; x < grid[0]; ++x)
          for (int64_t tid = 0; tid < threads; ++tid) {
            now_ = {x, y, z, tid};
            for (size_t i = 0; i < now_.size(); ++i)
              if (places_[i] >= 0) tape_.set(places_[i], now_[i]);
            if (!loop(0, points, store)) return false;
          }
    return true;
  }

  Place place() const {
    Place out{site_.stmt, {}};
    const char* names[] = {"cta.x", "cta.y", "cta.z", "tid"};
    for (size_t i = 0; i < now_.size(); ++i)
      if (i == 0 || i == 3 || now_[i] != 0) out.at.emplace_back(names[i], now_[i]);
    for (const Axis& axis : loops_) out.at.emplace_back(axis.name, tape_.value(axis.variable));
    return out;
  }

 private:
  // Index tensors hold one value everywhere, which is named as they are.
  Expr uniform(const Expr& e) {
    if (e.kind() == ExprKind::kIndexLoad) {
      loaded_.insert(e.name());
      return Expr::sym(e.name());
    }
    if (e.args().empty()) return e;
    std::vector<Expr> args;
    bool same = true;
    for (const Expr& arg : e.args()) {
      args.push_back(uniform(arg));
      same = same && args.back().same_as(arg);
    }
    return same ? e : Expr::make(e.kind(), std::move(args), e.name());
  }
  int add(const Expr& e) { return tape_.add(uniform(e)); }

  struct Axis {
    int variable, begin, end, step, slot;
    std::string name;
    bool counted;  // the symbol counts steps, and is not the variable itself
  };

  template <class Store>
  bool loop(size_t depth, int64_t& points, const Store& store) {
    if (depth == loops_.size()) {
      if (--points < 0) return false;
      const bool defined = tape_.run();
      if (!defined) return false;
      for (const int condition : conditions_)
        if (tape_.value(condition) == 0) return true;
      std::vector<int64_t> index;
      for (const int slot : index_) index.push_back(tape_.value(slot));
      return store(index);
    }
    const Axis& axis = loops_[depth];
    tape_.set(axis.slot, 0);
    if (!tape_.run()) return false;
    const int64_t begin = tape_.value(axis.begin), end = tape_.value(axis.end),
                  step = tape_.value(axis.step);
    if (step <= 0) return false;
    for (int64_t value = begin, count = 0; value < end; value += step, ++count) {
      if (--points < 0) return false;
      tape_.set(axis.slot, axis.counted ? count : value);
      if (!loop(depth + 1, points, store)) return false;
    }
    return true;
  }

  const TensorSite& site_;
  Tape tape_;
  std::vector<int> index_, conditions_, places_;
  std::set<std::string> loaded_;
  std::vector<Axis> loops_;
  std::vector<std::pair<std::string, int>> call_;
  std::set<std::string> inside_;
  std::array<int64_t, 4> now_{};
  bool exact_ = true;
};

class Trial {
 public:
  Trial(Walk& walk, const lanes::TensorUse& tensor, const std::vector<TensorSite>& sites, bool all)
      : walk_(walk), tensor_(tensor), all_(all) {
    for (const TensorSite& site : sites) {
      sites_.emplace_back(walk, site);
      all_ = all_ && sites_.back().exact();
    }
    for (const lanes::TensorUse& use : walk.program().tensors)
      for (const Expr& extent : use.shape) collect_symbols(extent, dims_);
  }

  std::optional<BadStore> run() {
    for (const int64_t most : kSizes)
      for (const bool at_most : {false, true}) {
        const std::optional<Env> sizes = call_of(most, at_most);
        if (!sizes) continue;
        for (const Env& call : with_elements(*sizes)) {
          int64_t points = kMostPoints;
          if (!seen_.insert(call).second) continue;
          if (std::optional<BadStore> bad = at(call, points)) return bad;
        }
      }
    return std::nullopt;
  }

 private:
  // Dims that the contract admits: all `most` but for those that cannot be, or anything up to it.
  std::optional<Env> call_of(int64_t most, bool at_most) {
    Arithmetic arithmetic(ArithmeticLimits{.solver = false});
    for (const IndexClause& clause : walk_.contract().index) arithmetic.assume(clause.facts);
    for (const Expr& fact : walk_.contract().facts) arithmetic.assume(fact);
    for (const std::string& dim : dims_) {
      const Expr d = Expr::sym(dim);
      arithmetic.assume(Expr(1) <= d);
      if (dim != "SMS") arithmetic.assume(d <= Expr(most));
    }
    arithmetic.assume(Expr::sym("SMS") == Expr(4));
    Answer found = arithmetic.consistent();
    if (found.verdict != Verdict::kProved) return std::nullopt;
    if (!at_most)
      for (const std::string& dim : dims_) {
        for (const int64_t least : {most, most - most / 4, most / 2}) {
          arithmetic.push();
          arithmetic.assume(Expr::sym(dim) >= Expr(least));
          const Answer larger = arithmetic.consistent();
          if (larger.verdict != Verdict::kProved) {
            arithmetic.pop();
            continue;
          }
          found = larger;
          break;
        }
      }
    Env out = std::move(found.model);
    for (const std::string& dim : dims_) out.try_emplace(dim, 1);
    for (const lanes::ScalarUse& scalar : walk_.program().scalars)
      if (scalar.name.find('.') == std::string::npos) out.try_emplace(scalar.name, 0);
    out["SMS"] = 4;
    return out;
  }

  // With the ends of what index tensors may hold. None: of one, no single value will do.
  std::vector<Env> with_elements(const Env& sizes) const {
    std::set<std::string> tensors;
    for (const Site& site : sites_) tensors.insert(site.loaded().begin(), site.loaded().end());
    std::vector<Env> out = {sizes};
    for (const std::string& tensor : tensors) {
      std::vector<Env> more;
      for (const Env& call : out)
        for (const int64_t value : values_of(tensor, call)) {
          more.push_back(call);
          more.back()[tensor] = value;
        }
      out = std::move(more);
    }
    return out;
  }
  std::vector<int64_t> values_of(const std::string& tensor, const Env& call) const {
    for (const IndexClause& clause : walk_.contract().index) {
      if (clause.facts.tensor != tensor) continue;
      if (clause.facts.non_decreasing || clause.facts.distinct || clause.distinct_but ||
          !clause.each.empty() || !clause.used.empty() || !clause.facts.has_range)
        return {};
      const auto lo = evaluate(clause.facts.lo, call), hi = evaluate(clause.facts.hi, call);
      std::set<int64_t> out;
      if (lo && hi && *lo < *hi) out = {*lo, *hi - 1};
      if (clause.has_except)
        if (const auto except = evaluate(clause.except, call)) out.insert(*except);
      return {out.begin(), out.end()};
    }
    return {};
  }

  std::optional<BadStore> at(const Env& call, int64_t& points) {
    std::array<int64_t, 3> grid{};
    const Expr extents[] = {walk_.program().grid_x, walk_.program().grid_y, walk_.program().grid_z};
    for (size_t i = 0; i < grid.size(); ++i) {
      const auto n = evaluate(extents[i], call);
      if (!n || *n < 0) return std::nullopt;
      grid[i] = *n;
    }
    std::vector<int64_t> shape;
    int64_t count = 1;
    for (const Expr& extent : tensor_.shape) {
      const auto n = evaluate(extent, call);
      if (!n || *n < 0 || *n > kMostElements) return std::nullopt;
      shape.push_back(*n);
      count *= *n;
      if (count > kMostElements) return std::nullopt;
    }
    std::vector<int> writer(static_cast<size_t>(count), -1);
    std::vector<Place> places;
    std::optional<BadStore> bad;
    bool whole = true;
    for (Site& site : sites_) {
      if (!site.exact()) continue;
      const bool walked =
          site.walk(call, grid, walk_.program().threads, points, [&](const auto& index) {
            places.push_back(site.place());
            bad = store(site.site(), index, shape, writer, places);
            return !bad;
          });
      if (bad) {
        bad->call = call;
        return bad;
      }
      whole = whole && walked;
    }
    if (!all_ || !whole) return std::nullopt;
    const auto left = std::find(writer.begin(), writer.end(), -1);
    if (left == writer.end()) return std::nullopt;
    BadStore out;
    out.stmt = sites_[0].site().stmt;
    out.call = call;
    out.what = element(left - writer.begin(), shape) + " is not written";
    return out;
  }

  std::string element(int64_t offset, const std::vector<int64_t>& shape) const {
    std::string out;
    for (size_t d = shape.size(); d-- > 0; offset /= shape[d])
      out = std::to_string(offset % shape[d]) + (out.empty() ? "" : ", ") + out;
    return tensor_.name + "[" + out + "]";
  }

  // The elements of a run or box that lie in the tensor.
  std::optional<BadStore> store(const TensorSite& site, const std::vector<int64_t>& index,
                                const std::vector<int64_t>& shape, std::vector<int>& writer,
                                const std::vector<Place>& places) const {
    std::vector<int64_t> step(shape.size(), 0);
    const int me = static_cast<int>(places.size()) - 1;
    for (bool more = true; more;) {
      int64_t offset = 0;
      bool inside = true;
      for (size_t d = 0; d < shape.size(); ++d) {
        const int64_t at = index[d] + step[d];
        inside = inside && at >= 0 && at < shape[d];
        offset = offset * shape[d] + at;
      }
      if (inside) {
        int& before = writer[static_cast<size_t>(offset)];
        if (before >= 0 && (!tensor_.workspace ||
                            !places[static_cast<size_t>(before)].same_thread(places.back()))) {
          const Place &first = places[static_cast<size_t>(before)], &second = places.back();
          BadStore bad;
          bad.stmt = site.stmt;
          bad.at = second.at;
          bad.what = element(offset, shape) + " is written twice";
          bad.story = {"written by " + first.text(), "written by " + second.text()};
          return bad;
        }
        before = me;
      }
      more = false;
      for (size_t d = shape.size(); d-- > 0 && !more;) {
        more = ++step[d] < site.extent[d];
        if (!more) step[d] = 0;
      }
    }
    return std::nullopt;
  }

  Walk& walk_;
  const lanes::TensorUse& tensor_;
  bool all_;
  std::vector<Site> sites_;
  std::set<std::string> dims_;
  std::set<Env> seen_;
};

}  // namespace

std::optional<BadStore> try_stores(Walk& walk, const lanes::TensorUse& tensor,
                                   const std::vector<TensorSite>& sites, bool all) {
  if (tensor.shape.empty()) return std::nullopt;
  return Trial(walk, tensor, sites, all).run();
}

}  // namespace rooftile::verify
