// SPDX-License-Identifier: Apache-2.0
// Coordinate descent over a few candidates a variable, from several starts; what is found has been
// evaluated. Conditions on floats are left open: they choose between texts of one protocol.
#include "rooftile/verify/protocol/witness.h"

#include <algorithm>
#include <functional>
#include <set>

namespace rooftile::verify::protocol {
namespace {

constexpr size_t kMostOfAPair = 40;
constexpr int kStarts = 4, kRounds = 6;
constexpr int64_t kMostTimes = 32, kLargest = 1 << 14;  // of a constant of the conditions

class Search {
 public:
  Search(const Flat& flat, const Terms& terms,
         const std::vector<std::pair<AtomId, bool>>& decisions, const std::vector<Expr>& facts)
      : flat_(flat), terms_(terms), decisions_(decisions), facts_(facts) {
    for (const lanes::TensorUse& t : flat.program.tensors)
      for (const Expr& side : t.shape) collect_symbols(side, names_);
    for (const lanes::ScalarUse& s : flat.program.scalars)
      if (s.type != lanes::Ty::kF32 && s.name.find(".s") == std::string::npos)
        names_.insert(s.name);
    names_.insert({"SMS", "cta.x"});
    for (const auto& [leaf, yes] : decisions) see(leaf);
    for (const Expr& fact : facts) {
      collect_symbols(fact, names_);
      see_constants(fact);
    }
    names_.erase("grid.x");
    names_.erase("clusters");
    names_.erase("cluster.x");
    candidates_ = {0, 1, 2, 3, 4, 5, 7, 8};
    for (const int64_t c : constants_)
      for (int64_t times = 1; times <= kMostTimes && c * times < kLargest; ++times)
        for (const int64_t by : {-1, 0, 1})
          if (c * times + by >= 0) candidates_.insert(c * times + by);
  }

  std::optional<Env> run() {
    uint64_t random = 1;
    Env small;
    for (int start = 0; start < kStarts; ++start) {
      Env env;
      for (const std::string& n : names_) {
        random = random * 6364136223846793005ull + 1442695040888963407ull;
        const std::vector<int64_t> all(candidates_.begin(), candidates_.end());
        env[n] = start == 0 ? 1 : all[(random >> 33) % all.size()];
      }
      env["cta.x"] = 0;
      if (descend(env)) return env;
      if (start == 0) small = std::move(env);
    }
    return by_pairs(small);
  }

 private:
  void see(AtomId id) {
    const Atom& a = terms_.atom(id);
    if (a.kind == AtomKind::kSymbol && a.type != lanes::Ty::kF32) names_.insert(a.name);
    if (a.kind == AtomKind::kLoad) names_.insert(a.name);
    if (a.kind == AtomKind::kStep) see_value(terms_.loop(a.loop).unit);
    for (const ValueId arg : a.args) see_value(arg);
  }
  void see_constants(const Expr& e) {
    if (e.is_const() && e.value() != 0) constants_.insert(std::abs(e.value()));
    for (const Expr& arg : e.args()) see_constants(arg);
  }
  void see_value(ValueId id) {
    const Value& v = terms_.value(id);
    if (v.lane[0] != 0) constants_.insert(std::abs(v.lane[0]));
    for (const auto& [a, by] : terms_.sum(v.sum)) {
      constants_.insert(std::abs(by));
      see(a);
    }
  }

  // Two variables at once, near a small call: a tile that is not the first of many rows.
  std::optional<Env> by_pairs(const Env& small) const {
    std::set<int64_t> few = {0, 1, 2, 3};
    for (const int64_t c : constants_)
      if (c > 3 && c < kLargest / 2) few.insert({c - 1, c, c + 1, 2 * c + 1});
    while (few.size() > kMostOfAPair) few.erase(std::prev(few.end()));
    for (auto a = names_.begin(); a != names_.end(); ++a)
      for (auto b = std::next(a); b != names_.end(); ++b)
        for (const int64_t x : few)
          for (const int64_t y : few) {
            Env env = small;
            env[*a] = x;
            env[*b] = y;
            if (broken(env) == 0) return env;
          }
    return std::nullopt;
  }

  bool descend(Env& env) const {
    int best = broken(env);
    for (int round = 0; round < kRounds && best > 0; ++round) {
      const int before = best;
      for (const std::string& n : names_) {
        const int64_t old = env[n];
        int64_t chosen = old;
        for (const int64_t c : candidates_) {
          env[n] = c;
          if (const int now = broken(env); now < best) {
            best = now;
            chosen = c;
          }
        }
        env[n] = chosen;
      }
      if (best == before) break;
    }
    return best == 0;
  }

  // How many conditions do not hold. What follows from the others is set on the way.
  int broken(Env& env) const {
    int out = 0;
    const int64_t grid = evaluate(flat_.program.grid_x, env).value_or(1);
    env["grid.x"] = grid;
    env["clusters"] = grid / flat_.program.cluster;
    env["cluster.x"] = env["cta.x"] / flat_.program.cluster;
    if (env["SMS"] < 1 || env["cta.x"] >= grid) ++out;
    for (const Expr& fact : facts_)
      if (const auto holds = evaluate(fact, env); holds && *holds == 0) ++out;
    for (const auto& [leaf, yes] : decisions_)
      if (const auto v = number(leaf, env); v && (*v != 0) != yes) ++out;
    return out;
  }

  std::optional<int64_t> number(ValueId id, const Env& env, bool) const {
    const Value& v = terms_.value(id);
    if (v.unknown != 0) return std::nullopt;
    int64_t out = v.lane[0];
    for (const auto& [a, by] : terms_.sum(v.sum)) {
      const auto x = number(a, env);
      if (!x) return std::nullopt;
      out += by * *x;
    }
    return out;
  }
  std::optional<int64_t> number(AtomId id, const Env& env) const {
    const Atom& a = terms_.atom(id);
    switch (a.kind) {
      case AtomKind::kSymbol:
      case AtomKind::kLoad:
        if (const auto it = env.find(a.name); it != env.end()) return it->second;
        return std::nullopt;
      case AtomKind::kFloat:
        return std::nullopt;
      case AtomKind::kStep: {
        const auto unit = number(terms_.loop(a.loop).unit, env, true);
        if (!unit) return std::nullopt;
        return a.index * *unit;
      }
      default:
        break;
    }
    int64_t args[4] = {};
    for (size_t i = 0; i < a.args.size() && i < 4; ++i) {
      const auto x = number(a.args[i], env, true);
      if (!x) return std::nullopt;
      args[i] = *x;
    }
    if (a.kind == AtomKind::kPositive) return args[0] >= 0 ? 1 : 0;
    if (a.kind == AtomKind::kZero) return args[0] == 0 ? 1 : 0;
    int64_t out = 0;
    if (a.type == lanes::Ty::kF32 || !integer_fn(a.fn, a.type, lanes::Ty::kI64, args, &out))
      return std::nullopt;
    return out;
  }

  const Flat& flat_;
  const Terms& terms_;
  const std::vector<std::pair<AtomId, bool>>& decisions_;
  const std::vector<Expr>& facts_;
  std::set<std::string> names_;
  std::set<int64_t> constants_, candidates_;
};

}  // namespace

std::optional<Env> find_call(const Flat& flat, const Terms& terms,
                             const std::vector<std::pair<AtomId, bool>>& decisions,
                             const std::vector<Expr>& facts) {
  return Search(flat, terms, decisions, facts).run();
}

}  // namespace rooftile::verify::protocol
