// SPDX-License-Identifier: Apache-2.0
// The walk through a loop that hands out parts: its registers are numbers of which the lemmas of
// hand_out.h tell, once what these ask for is shown.
#include <algorithm>

#include "rooftile/verify/lanes/walk.h"

namespace rooftile::verify {

using lanes::Stmt;
using lanes::StmtKind;
using lanes::Ty;

namespace {

// Made of the number of the CTA and the size of the grid alone.
bool of_place(const lanes::Val& v) {
  if (v->kind != lanes::ValKind::kFn)
    return v->kind == lanes::ValKind::kSpecial || v->kind == lanes::ValKind::kInt;
  return std::all_of(v->args.begin(), v->args.end(), of_place);
}

}  // namespace

void Walk::hand_out(const Stmt& stmt, const HandOut& form) {
  Symbols& known = symbols();
  const bool runs = form.form == HandOut::kRuns;
  const Expr count = value(form.count), steps = value(form.steps);
  const Expr size = program_.cluster;
  // The lemmas are about CTAs that all know the same tiles and steps.
  for (const Expr& number : {count, steps})
    for (const std::string& name : known.closure(number)) {
      const Symbol* symbol = known.find(name);
      if (symbol == nullptr || symbol->kind != SymbolKind::kCall)
        report_.unknown(Kind::kNoDeadlock, stmt,
                        number.str() + " is not known to be alike in all CTAs");
    }
  // No number of the pattern is larger by more than 1.
  const Expr largest = runs ? count * steps : steps * Expr(form.ways);
  require(Kind::kLaneOverflow, Expr(0) <= count, "0 <= " + count.str());
  require(Kind::kLaneOverflow, Expr(1) <= steps || count <= Expr(0), "1 <= " + steps.str());
  require(Kind::kLaneOverflow, largest < Expr(INT32_MAX), largest.str() + " + 1 fits 32 bits");
  const Expr clusters = program_.grid_x / size;
  if (!runs)
    require(Kind::kNoDeadlock, clusters % Expr(form.ways) == Expr(0) || clusters <= Expr(1),
            clusters.str() + " at once are whole tiles, or one");
  if (!runs)
    require(Kind::kLaneOverflow, count % Expr(form.ways) == Expr(0),
            count.str() + " are whole tiles");

  const std::set<std::string>& changed = assigned(stmt.body);
  forget(changed);
  questions_.push();
  const Interval most = known.range(count) - Interval::point(1);
  const auto place = [&](const std::string& hint) {
    return known.add(hint, {.kind = SymbolKind::kPlace,
                            .range = {0, std::clamp<int64_t>(most.hi, 0, INT32_MAX)}});
  };
  const auto domain = [&](const Expr& fact) { questions_.assume(fact, FactKind::kDomain); };
  PartsAt at;
  at.form = &form;
  at.slots = runs ? program_.grid_x / size : count;
  at.tiles = runs ? count : count / Expr(form.ways);
  const Expr item = place(stmt.name);
  at.slot = runs ? registers_.at(form.slot) : item;
  at.tile = place(form.tile);
  domain(at.tile < at.tiles);
  if (!runs) {
    domain(Expr::sym("cta.x") / size <= item && item < count);
    stmt_ = &stmt;
    fitted(Ty::kI32, item + program_.grid_x / size);
  }
  handed_ = {{form.tile, at.tile}};
  const Interval natural{0, INT32_MAX};
  const Expr first = known.add(form.first, {.kind = SymbolKind::kPlace, .range = natural});
  const Expr last = known.add(form.last, {.kind = SymbolKind::kPlace, .range = natural});
  domain(first <= last && last <= steps);
  handed_.insert({{form.first, first}, {form.last, last}});
  if (!form.owner.empty()) {
    at.owner = known.add(form.owner, {.kind = SymbolKind::kPlace, .range = natural});
    at.others = runs ? known.add(form.others, {.kind = SymbolKind::kPlace, .range = natural})
                     : Expr(form.ways - 1);
    domain(at.slot <= at.owner && at.owner < at.slots);
    domain(at.others <= at.owner);
    handed_.insert({{form.owner, at.owner}, {form.others, at.others}});
  }
  const auto shadowed = registers_.find(stmt.name) == registers_.end()
                            ? std::nullopt
                            : std::optional(registers_.at(stmt.name));
  registers_[stmt.name] = item;
  types_[stmt.name] = Ty::kI32;
  memo_.clear();
  LoopAt here{&stmt, item, item.name(), 0, at.slots, 1};
  here.parts = std::make_shared<const PartsAt>(std::move(at));
  loops_.push_back(std::move(here));
  if (known.dead())
    unreached(stmt.body);
  else
    body(stmt.body);
  loops_.pop_back();
  questions_.pop();
  handed_.clear();
  registers_.erase(stmt.name);
  if (shadowed) registers_[stmt.name] = *shadowed;
  forget(changed);
}

// A statement of a pattern. Before the loop, the place of the CTA alone is of use to anybody.
void Walk::of_hand_out(const Stmt& stmt) {
  report_.proved(Kind::kLaneOverflow, stmt, Prover::kLemma);
  if (stmt.kind != StmtKind::kDecl) return;  // what the branch makes of owners is in handed_
  const auto given = handed_.find(stmt.name);
  const Expr held = given != handed_.end() ? given->second
                    : of_place(stmt.value) ? value(stmt.value)
                                           : fresh(stmt.type, stmt.name, false);
  const auto it = registers_.find(stmt.name);
  scopes_.back().emplace_back(stmt.name,
                              it == registers_.end() ? std::nullopt : std::optional(it->second));
  types_[stmt.name] = stmt.type;
  set(stmt.name, held);
}

}  // namespace rooftile::verify
