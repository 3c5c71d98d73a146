// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/testing/tile_mutants.h"

#include <functional>
#include <set>

namespace rooftile::verify::testing {

using ir::DimIndex;
using ir::Node;
using ir::Op;
using ir::Program;

namespace {

// The first minimum of an expression, replaced by its constant arm.
Expr uncut(const Expr& e, bool& done) {
  if (done) return e;
  if (e.kind() == ExprKind::kMin)
    for (const Expr& arm : e.args())
      if (arm.is_const()) {
        done = true;
        return arm;
      }
  std::vector<Expr> args;
  for (const Expr& arg : e.args()) args.push_back(uncut(arg, done));
  return done ? Expr::make(e.kind(), std::move(args), "") : e;
}

class Maker {
 public:
  explicit Maker(const Program& program) : program_(program) {}

  std::vector<TileMutant> run() {
    for (const Node& node : program_.nodes) {
      if (node.op == Op::kLoad || node.op == Op::kStore) region(node);
      if (node.op == Op::kTiles) space(node);
      if (node.op == Op::kLoop)
        change("loop too long", node.name,
               [&](Program& p) { p.node(node.id).end = node.end + node.step; });
    }
    for (size_t i = 0; i < program_.clauses.size(); ++i)
      change("clause missing", program_.clauses[i].why, [&](Program& p) {
        p.clauses.erase(p.clauses.begin() + static_cast<std::ptrdiff_t>(i));
      });
    return std::move(out_);
  }

 private:
  void change(const char* kind, std::string site, const std::function<void(Program&)>& edit) {
    TileMutant mutant{kind, std::move(site), program_};
    edit(mutant.program);
    if (ir::verify(mutant.program).ok()) out_.push_back(std::move(mutant));
  }

  void region(const Node& node) {
    std::set<std::string> vars;
    for (const Node& other : program_.nodes) vars.insert(other.vars.begin(), other.vars.end());
    for (size_t d = 0; d < node.region.size(); ++d) {
      const DimIndex& dim = node.region[d];
      if (dim.kind == DimIndex::kIndirect) continue;
      const std::string site = node.name + " dimension " + std::to_string(d);
      change("bound one off", site,
             [&](Program& p) { p.node(node.id).region[d].begin = dim.begin + Expr(1); });
      if (node.op != Op::kStore) continue;
      for (const std::string& var : symbols_of(dim.begin))
        if (vars.count(var) > 0)
          change("element stored twice", site + ", " + var, [&](Program& p) {
            p.node(node.id).region[d].begin = substitute(dim.begin, {{var, Expr(0)}});
          });
    }
    cut(node);
  }

  // The whole program loses a cut, so that shapes still agree.
  void cut(const Node& node) {
    for (const DimIndex& dim : node.region) {
      bool done = false;
      const Expr whole = uncut(dim.extent, done);
      if (!done || !cuts_.insert(dim.extent.str()).second) continue;
      change("tail not cut", node.name + ": " + dim.extent.str(), [&](Program& p) {
        for (Node& other : p.nodes) {
          for (DimIndex& d : other.region)
            if (d.extent.same_as(dim.extent)) d.extent = whole;
          for (Expr& extent : other.shape)
            if (extent.same_as(dim.extent)) extent = whole;
        }
      });
    }
  }

  void space(const Node& node) {
    for (size_t axis = 0; axis < node.extents.size(); ++axis)
      for (const int by : {1, -1})
        change(by > 0 ? "space too long" : "space too short", node.vars[axis], [&](Program& p) {
          p.node(node.id).extents[axis] = max(Expr(0), node.extents[axis] + Expr(by));
        });
  }

  const Program& program_;
  std::vector<TileMutant> out_;
  std::set<std::string> cuts_;
};

}  // namespace

std::vector<TileMutant> tile_mutants(const Program& program) { return Maker(program).run(); }

}  // namespace rooftile::verify::testing
