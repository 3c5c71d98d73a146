// SPDX-License-Identifier: Apache-2.0
// What a kernel leaves in workspaces of integers, for the proofs of the kernels behind it.
#include <algorithm>
#include <optional>

#include "rooftile/lanes/operands.h"
#include "rooftile/verify/lanes/places.h"
#include "rooftile/verify/lanes/prove_lanes.h"

namespace rooftile::verify {
namespace {

using lanes::Ins;

// What every store so far has kept: candidates for a bound of a tensor's elements, and where the
// one store puts what.
struct Stored {
  std::vector<Expr> above;
  std::vector<Expr> each;
  bool known = true;
};

// A CTA that stores its own number, its threads side by side: what it stores at i says which part
// of the tensor i lies in.
std::vector<Expr> runs_of(Walk& walk, const Expr& index, const Expr& value) {
  const Expr cta = Expr::sym("cta.x");
  if (walk.loops().empty() || !value.same_as(cta) || index.kind() != ExprKind::kAdd) return {};
  const LoopAt& loop = walk.loops().back();
  if (!loop.begin.same_as(Expr::sym("tid")) || !loop.step.is_const(walk.program().threads))
    return {};
  const bool last = index.args()[1].same_as(loop.variable);
  if (!last && !index.args()[0].same_as(loop.variable)) return {};
  const Expr& base = index.args()[last ? 0 : 1];
  std::set<std::string> names = symbols_of(base);
  names.merge(symbols_of(loop.end));
  for (const std::string& name : names)
    if (name != "cta.x" && walk.symbols().find(name)->kind != SymbolKind::kCall) return {};
  const std::map<std::string, Expr, std::less<>> whose = {{"cta.x", Expr::sym("value")}};
  const Expr at = Expr::sym("at.0"), begin = substitute(base, whose);
  return {begin <= at, at < begin + substitute(loop.end, whose)};
}

class Watch : public Walk::Observer {
 public:
  explicit Watch(const lanes::Program& program) {
    candidates_ = {program.grid_x, program.grid_y, program.grid_z};
    for (const lanes::TensorUse& tensor : program.tensors)
      candidates_.insert(candidates_.end(), tensor.shape.begin(), tensor.shape.end());
  }

  void instruction(Walk& walk, const lanes::Stmt& stmt) override {
    const lanes::Instr& instr = stmt.instr;
    if ((lanes::ins_info(instr.ins).writes & lanes::kGlobal) == 0) return;
    std::string name = instr.global.tensor;
    for (const lanes::TensorMapUse& map : walk.program().maps)
      if (map.name == instr.map) name = map.tensor;
    const lanes::TensorUse* tensor = tensor_named(walk.program(), name);
    if (tensor == nullptr || !tensor->workspace || is_float(tensor->dtype)) return;
    const auto [it, fresh] = stored.emplace(tensor->name, Stored{candidates_, {}});
    Stored& s = it->second;
    s.known = s.known && !tensor->read && instr.ins == Ins::kStGlobal && instr.global.width == 1 &&
              !instr.regs[0].first.present();
    if (!s.known) return;
    const Expr value = walk.value(lanes::var(lanes::element_type(instr.dtype), instr.regs[0].name));
    s.known = walk.questions().holds(Expr(0) <= value);
    // Of more than one store nothing but bounds.
    s.each.clear();
    if (fresh && instr.global.index.size() == 1)
      s.each = runs_of(walk, walk.value(instr.global.index[0]), value);
    std::erase_if(s.above,
                  [&](const Expr& limit) { return !walk.questions().holds(value < limit); });
  }

  std::map<std::string, Stored> stored;

 private:
  std::vector<Expr> candidates_;
};

}  // namespace

std::vector<IndexClause> stored_indices(const lanes::Program& kernel,
                                        const LaneContract& contract) {
  Walk walk(kernel, contract);
  Watch watch(kernel);
  if (std::any_of(kernel.tensors.begin(), kernel.tensors.end(), [](const lanes::TensorUse& t) {
        return t.workspace && t.written && !is_float(t.dtype);
      }))
    walk.run({&watch});
  std::vector<IndexClause> out;
  for (const auto& [name, stored] : watch.stored) {
    if (!stored.known || stored.above.empty()) continue;
    IndexClause clause;
    clause.facts.tensor = name;
    clause.facts.rank = static_cast<int>(tensor_named(kernel, name)->shape.size());
    clause.facts.has_range = true;
    clause.facts.lo = 0;
    clause.facts.hi = stored.above.front();
    clause.each = stored.each;
    out.push_back(std::move(clause));
  }
  return out;
}

}  // namespace rooftile::verify
