// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/tile/accesses.h"

#include <algorithm>
#include <optional>
#include <set>

#include "rooftile/ir/types.h"
#include "rooftile/verify/tile/tile_terms.h"

namespace rooftile::verify {

using ir::DimIndex;
using ir::Node;
using ir::Op;

namespace {

class Walker {
 public:
  explicit Walker(const ir::Program& program) : program_(program) {}

  Accesses run() {
    Scope top;
    for (ir::ValueId id : program_.body.nodes) {
      const Node& n = program_.node(id);
      if (n.op == Op::kTiles) {
        tiles(n);
        ++phase_;
      } else {
        one(n, top);
      }
    }
    return std::move(out_);
  }

 private:
  // ---- expressions: reads of index tensors, and what workspaces hold

  // `expr` with workspace elements replaced by what was stored there. Each index read becomes an
  // access, the innermost first.
  Expr read(const Expr& expr, const Node& n, Scope& scope) {
    if (expr.args().empty()) return expr;
    std::vector<Expr> args;
    for (const Expr& arg : expr.args()) args.push_back(read(arg, n, scope));
    const Expr whole = Expr::make(expr.kind(), std::move(args), expr.name());
    const bool divides = whole.kind() == ExprKind::kFloorDiv || whole.kind() == ExprKind::kMod;
    if (divides && !whole.args()[1].is_const())
      out_.shapes.push_back({n.id, scope, whole.args()[1] != Expr(0)});
    if (whole.kind() != ExprKind::kIndexLoad) return whole;
    index_read(whole, n, scope);
    const ir::TensorParam* tensor = program_.tensor(whole.name());
    const bool computed = tensor != nullptr && tensor->role != ir::Role::kIn;
    return computed ? looked_up(whole, scope) : whole;
  }

  void index_read(const Expr& term, const Node& n, const Scope& scope) {
    std::string key = std::to_string(n.id) + ":" + term.str();
    for (const Expr& condition : scope.conditions) key += "&" + condition.str();
    if (!index_reads_.insert(key).second) return;
    Access access;
    access.kind = Access::kIndexRead;
    access.node = n.id;
    access.tensor = term.name();
    access.scope = scope;
    access.index = term.args();
    out_.all.push_back(std::move(access));
  }

  // What the only store to the workspace says of its element `term`; the term itself where there is
  // no single store to ask.
  Expr looked_up(const Expr& term, Scope& scope) {
    for (const auto& [seen, value] : values_)
      if (seen.same_as(term)) return value;
    const Access* store = nullptr;
    size_t position = 0, stores = 0;
    for (size_t i = 0; i < out_.all.size(); ++i) {
      const Access& a = out_.all[i];
      if (a.kind != Access::kStore || a.tensor != term.name()) continue;
      store = &a, position = i, ++stores;
    }
    if (stores != 1 || store->adds || !store->unknown.empty() || store->scope.phase == phase_ ||
        !store->scope.lookups.empty())
      return term;
    const std::optional<TileTerm> stored =
        tile_term(program_, program_.node(store->node).operands[0], positions_of(*store));
    if (!stored) return term;
    Lookup lookup;
    lookup.store = position;
    lookup.index = term.args();
    const std::string number = "." + std::to_string(++lookups_);
    for (const std::vector<AxisWalk>* walks :
         {&store->scope.tiles, &store->scope.loops, &store->positions})
      for (const AxisWalk& walk : *walks)
        lookup.renamed.emplace(walk.var, Expr::sym(walk.var + number));
    for (const AxisWalk& walk : store->scope.tiles) lookup.owners.push_back(walk.var + number);
    for (const Expr& fact : facts_of(*store))
      scope.domain.push_back(substitute(fact, lookup.renamed));
    for (size_t d = 0; d < store->index.size(); ++d)
      scope.domain.push_back(substitute(store->index[d], lookup.renamed) == term.args()[d]);
    const Expr value = substitute(stored->value, lookup.renamed);
    // The narrow value is the wide one only if nothing wrapped; asked where it was stored.
    if (out_.all[position].exact.empty()) out_.all[position].exact = stored->exact;
    scope.lookups.push_back(std::move(lookup));
    values_.emplace_back(term, value);
    return value;
  }

  static std::vector<Expr> positions_of(const Access& access) {
    std::vector<Expr> out;
    for (int axis = 0; axis < 4; ++axis) {
      const std::string var = position_name(axis);
      const bool walked = std::any_of(access.positions.begin(), access.positions.end(),
                                      [&](const AxisWalk& w) { return w.var == var; });
      out.push_back(walked ? Expr::sym(var) : Expr(0));
    }
    return out;
  }

  // ---- control flow

  void tiles(const Node& n) {
    Scope scope;
    scope.phase = phase_;
    values_.clear();
    for (size_t i = 0; i < n.vars.size(); ++i) {
      const Expr count = read(n.extents[i], n, scope);
      out_.shapes.push_back({n.id, scope, Expr(0) <= count});
      scope.tiles.push_back({n.vars[i], 0, count, 1});
    }
    for (const AxisWalk& walk : scope.tiles)
      for (const Expr& fact : range_of(walk)) scope.domain.push_back(fact);
    block(n.block, scope);
  }

  void block(const ir::Block& nodes, Scope scope) {
    const auto values = values_;  // what is looked up inside is known inside
    for (ir::ValueId id : nodes.nodes) one(program_.node(id), scope);
    values_ = values;
  }

  void one(const Node& n, Scope& scope) {
    visit(n, scope);
    out_.scopes.emplace(n.id, scope);
  }

  void visit(const Node& n, Scope& scope) {
    switch (n.op) {
      case Op::kTiles:
        return;  // only at the top level
      case Op::kLoop: {
        const AxisWalk walk = {n.name, read(n.begin, n, scope), read(n.end, n, scope),
                               read(n.step, n, scope)};
        if (!walk.step.is_const()) out_.shapes.push_back({n.id, scope, Expr(1) <= walk.step});
        Scope inside = scope;
        inside.loops.push_back(walk);
        for (const Expr& fact : range_of(walk)) inside.domain.push_back(fact);
        inside.regions.push_back(n.id);
        return block(n.block, inside);
      }
      case Op::kWhen: {
        const Expr condition = read(n.expr, n, scope);
        Scope inside = scope;
        add_conditions(condition, inside);
        inside.regions.push_back(n.id);
        return block(n.block, inside);
      }
      case Op::kLoad:
      case Op::kStore:
        return access(n, scope);
      case Op::kFromIndex:
        read(n.expr, n, scope);
        return;
      case Op::kFill:
      case Op::kIota:
        read(n.expr, n, scope);
        for (const Expr& extent : n.shape) not_negative(extent, n, scope);
        return;
      default:
        return;  // shapes of what is computed are those of its operands
    }
  }

  static void add_conditions(const Expr& condition, Scope& scope) {
    if (condition.kind() == ExprKind::kAnd) {
      for (const Expr& part : condition.args()) add_conditions(part, scope);
      return;
    }
    scope.conditions.push_back(condition);
  }

  void not_negative(const Expr& extent, const Node& n, Scope& scope) {
    if (extent.is_const() && extent.value() >= 0) return;
    const Expr value = read(extent, n, scope);
    out_.shapes.push_back({n.id, scope, Expr(0) <= value});
  }

  // ---- loads and stores

  void access(const Node& n, Scope& scope) {
    Access a;
    a.kind = n.op == Op::kLoad ? Access::kLoad : Access::kStore;
    a.node = n.id;
    a.tensor = n.name;
    a.adds = n.op == Op::kStore && n.mode == ir::StoreMode::kAdd;
    std::set<int> walked;
    std::vector<Expr> index;
    for (const DimIndex& dim : n.region) {
      const Expr begin = read(dim.begin, n, scope);
      if (dim.kind == DimIndex::kPoint) {
        index.push_back(begin);
        continue;
      }
      const Expr at = Expr::sym(position_name(dim.tile_axis));
      const bool indirect = dim.kind == DimIndex::kIndirect;
      const Expr count =
          read(indirect ? program_.node(dim.indirect).shape[0] : dim.extent, n, scope);
      if (walked.insert(dim.tile_axis).second) {
        not_negative(count, n, scope);
        a.positions.push_back({position_name(dim.tile_axis), 0, count, 1});
      }
      if (!indirect) {
        index.push_back(begin + at * Expr(dim.step));
        continue;
      }
      std::optional<TileTerm> term = tile_term(program_, dim.indirect, {at});
      if (!term) {
        a.unknown = "the values of index tile " + ir::node_str(program_.node(dim.indirect)) +
                    " are not a formula over indices and index tensors";
        index.push_back(0);
        continue;
      }
      // Elements of index tensors that the tile holds were loaded, in bounds, where it was made.
      index.push_back(term->value);
      a.exact.insert(a.exact.end(), term->exact.begin(), term->exact.end());
    }
    a.index = std::move(index);
    a.scope = scope;
    out_.all.push_back(std::move(a));
  }

  const ir::Program& program_;
  Accesses out_;
  size_t phase_ = 0;
  int lookups_ = 0;
  std::set<std::string> index_reads_;
  std::vector<std::pair<Expr, Expr>> values_;  // workspace elements met so far -> what they hold
};

}  // namespace

Accesses collect_accesses(const ir::Program& program) { return Walker(program).run(); }

std::vector<Expr> range_of(const AxisWalk& walk) {
  const Expr var = Expr::sym(walk.var);
  std::vector<Expr> out = {walk.begin <= var, var < walk.end};
  if (walk.step.is_const() && !walk.step.is_const(1))
    out.push_back((var - walk.begin) % walk.step == Expr(0));
  return out;
}

std::vector<Expr> facts_of(const Access& access) {
  std::vector<Expr> out = access.scope.domain;
  out.insert(out.end(), access.scope.conditions.begin(), access.scope.conditions.end());
  for (const AxisWalk& walk : access.positions)
    for (const Expr& fact : range_of(walk)) out.push_back(fact);
  return out;
}

std::string subject_of(const ir::Program& program, const Access& access) {
  const Node& n = program.node(access.node);
  const std::string who = "`" + access.tensor + "`, " + ir::node_str(n);
  switch (access.kind) {
    case Access::kLoad:
      return "load of " + who;
    case Access::kStore:
      return "store to " + who;
    case Access::kIndexRead:
      break;
  }
  std::string at;
  for (const Expr& index : access.index) at += (at.empty() ? "" : ", ") + index.str();
  return "index read " + access.tensor + "[" + at + "] in " + std::string(ir::op_name(n.op)) + " " +
         ir::node_str(n);
}

}  // namespace rooftile::verify
