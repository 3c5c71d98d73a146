// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/lanes/table_runs.h"

#include <algorithm>
#include <utility>

#include "rooftile/verify/lanes/tape.h"

namespace rooftile::verify {

using K = ExprKind;

namespace {

bool mentions(const Expr& e, const Expr& part) {
  return e.same_as(part) || std::any_of(e.args().begin(), e.args().end(),
                                        [&](const Expr& arg) { return mentions(arg, part); });
}

Expr replaced(const Expr& e, const Expr& from, const Expr& to) {
  if (e.same_as(from)) return to;
  std::vector<Expr> args;
  bool changed = false;
  for (const Expr& arg : e.args()) {
    args.push_back(replaced(arg, from, to));
    changed |= args.back().node() != arg.node();
  }
  if (!changed) return e;
  return Expr::make(e.kind(), std::move(args), e.kind() == K::kIndexLoad ? e.name() : "");
}

// An element of a table of which the contract says what each element is.
std::optional<Expr> known_element(const LaneContract& contract, const Expr& e) {
  if (e.kind() == K::kIndexLoad && e.args().size() == 1)
    for (const IndexClause& clause : contract.index)
      if (clause.facts.tensor == e.name() && !clause.each.empty()) return e;
  for (const Expr& arg : e.args())
    if (std::optional<Expr> found = known_element(contract, arg)) return found;
  return std::nullopt;
}

bool by_the_call(const Symbols& symbols, const Expr& e) {
  const std::set<std::string> names = symbols_of(e);
  return std::all_of(names.begin(), names.end(), [&](const std::string& name) {
    const Symbol* symbol = symbols.find(name);
    return symbol != nullptr && symbol->kind == SymbolKind::kCall;
  });
}

// The one term of a sum that the call does not decide, and with which sign.
struct Walker {
  Expr term;
  int sign = 0;
};
bool find_walker(const Symbols& symbols, const Expr& e, int sign, Walker& out) {
  if (by_the_call(symbols, e)) return true;
  if (e.kind() == K::kAdd || e.kind() == K::kSub)
    return find_walker(symbols, e.args()[0], sign, out) &&
           find_walker(symbols, e.args()[1], e.kind() == K::kAdd ? sign : -sign, out);
  if (e.kind() == K::kMul && e.args()[1].is_const(-1))
    return find_walker(symbols, e.args()[0], -sign, out);
  if (out.sign != 0) return false;
  out = {e, sign};
  return true;
}

// a - b, if that is the same number wherever threads and copies stand.
std::optional<int64_t> distance(Walk& walk, const StoreForm& form, const Expr& a, const Expr& b) {
  Tape tape(walk.symbols());
  const int difference = tape.add(a - b);
  for (const auto& [name, slot] : tape.inputs()) {
    if (std::find(form.counted.begin(), form.counted.end(), name) == form.counted.end())
      return std::nullopt;
    tape.set(slot, walk.symbols().find(name)->range.lo);
  }
  if (!tape.run()) return std::nullopt;
  const int64_t apart = tape.value(difference);
  if (!walk.questions().holds(a == b + Expr(apart))) return std::nullopt;
  return apart;
}

}  // namespace

std::optional<TableRuns> TableRuns::find(Walk& walk, const LaneContract& contract,
                                         const lanes::Program& kernel, const StoreForm& form,
                                         size_t dim, int64_t size) {
  Symbols& symbols = walk.symbols();
  const std::optional<Expr> element = known_element(contract, form.base[dim]);
  if (!element) return std::nullopt;
  const lanes::TensorUse* table = tensor_named(kernel, element->name());
  Walker walker;
  if (table == nullptr || !find_walker(symbols, element->args()[0], 1, walker) || walker.sign == 0)
    return std::nullopt;
  TableRuns out;
  out.walker_ = walker.term;
  out.count_ = table->shape[0];
  out.size_ = size;
  const auto slot = [&](const char* name) {
    return symbols.add(name, {.kind = SymbolKind::kPlace, .range = {0, INT32_MAX}});
  };
  out.slot_ = slot("slot");
  out.second_ = slot("slot");
  // The walk goes over the table's elements, forwards or backwards.
  const Expr first = walker.sign > 0 ? Expr(0) : out.count_ - Expr(1);
  if (!walk.questions().holds(replaced(element->args()[0], walker.term, Expr(0)) == first))
    return std::nullopt;
  const Expr there = walker.sign > 0 ? out.slot_ : out.count_ - Expr(1) - out.slot_;
  const Expr at_slot = Expr::index_load(element->name(), {out.slot_});
  const auto over_slots = [&](const Expr& e) {
    return replaced(replaced(e, *element, at_slot), walker.term, there);
  };
  const auto slots_alone = [&](const Expr& e) {
    return by_the_call(symbols, replaced(e, out.slot_, Expr(0)));
  };
  out.element_ = at_slot;
  for (const IndexClause& clause : contract.index) {
    if (clause.facts.tensor != element->name()) continue;
    out.is_element_.insert(out.is_element_.end(), clause.each.begin(), clause.each.end());
    if (!clause.facts.has_range || clause.has_except || !clause.used.empty()) continue;
    out.is_element_.push_back(clause.facts.lo <= Expr::sym("value"));
    out.is_element_.push_back(Expr::sym("value") < clause.facts.hi);
  }
  out.begin_ = over_slots(form.base[dim]);
  if (!slots_alone(out.begin_)) return std::nullopt;
  out.limit_ = size;
  out.stored_ = 1;
  for (const Expr& clip : form.clips) {
    const Expr condition = over_slots(clip);
    if (slots_alone(condition) && mentions(condition, out.slot_)) {
      out.stored_ = out.stored_ && condition;
      out.accounted_.push_back(clip);
    } else if (condition.kind() == K::kLt && slots_alone(condition.args()[1])) {
      const auto apart = distance(walk, form, condition.args()[0], form.offset[dim]);
      if (!apart) continue;
      out.limit_ = min(out.limit_, condition.args()[1] - Expr(*apart));
      out.accounted_.push_back(clip);
    }
  }
  return out;
}

bool TableRuns::accounts_for(const Expr& clip) const {
  return std::any_of(accounted_.begin(), accounted_.end(),
                     [&](const Expr& e) { return e.same_as(clip); });
}

bool TableRuns::same_as(const TableRuns& other) const {
  const auto alike = [&](const Expr& mine, const Expr& theirs) {
    return mine.same_as(replaced(theirs, other.slot_, slot_));
  };
  return walker_.same_as(other.walker_) && size_ == other.size_ && alike(begin_, other.begin_) &&
         alike(limit_, other.limit_) && alike(stored_, other.stored_);
}

TableRuns::At TableRuns::at(const Expr& slot) const {
  const auto there = [&](const Expr& e) { return replaced(e, slot_, slot); };
  const Expr begin = there(begin_);
  const Expr limit = there(limit_);
  return {begin, limit, begin + min(limit, Expr(size_)), there(stored_),
          begin + min(limit, Expr(0))};
}

// Two slots of one sequence, or of two.
std::string TableRuns::apart(Questions& questions) const {
  const At one = at(slot_), other = at(second_);
  const Expr theirs = replaced(element_, slot_, second_);
  const auto under = [&](const std::vector<Expr>& facts, const Expr& goal) {
    questions.push();
    questions.assume(Expr(0) <= slot_ && slot_ < second_ && second_ < count_, FactKind::kDomain);
    for (const Expr& fact : facts) questions.assume(fact);
    const bool holds = questions.holds(goal);
    questions.pop();
    return holds;
  };
  const Expr size = size_;
  const bool holds =
      under({theirs < element_}, theirs == element_) &&
      under({one.stored}, one.begin + size <= replaced(other.begin, theirs, element_)) &&
      under({element_ < theirs, one.stored, other.stored}, one.begin + one.limit <= other.begin);
  return holds ? "" : "two slots of the walk may store the same row from " + one.begin.str();
}

// From a slot to the next: of the same sequence, or of the one behind it, and of no other; where
// the box is whole, and where it is what is left.
bool TableRuns::handed_on(Questions& questions, const Expr& extent, bool stored) const {
  const Expr behind_slot = slot_ + Expr(1);
  const At here = at(slot_), next = at(behind_slot);
  const Expr behind = replaced(element_, slot_, behind_slot);
  const auto under = [&](const std::vector<Expr>& facts, const Expr& goal) {
    questions.push();
    questions.assume(Expr(0) <= slot_ && behind_slot < count_, FactKind::kDomain);
    for (const Expr& fact : facts) questions.assume(fact);
    const bool holds = questions.holds(goal);
    questions.pop();
    return holds;
  };
  if (!under({behind < element_}, behind == element_) ||
      !under({element_ + Expr(1) < behind}, behind == element_))
    return false;
  for (const Expr& sequence : {element_, element_ + Expr(1)}) {
    std::vector<Expr> facts = {stored ? here.stored : !here.stored};
    for (const Expr& fact : is_element_)
      facts.push_back(substitute(fact, {{"value", sequence}, {"at.0", behind_slot}}));
    const Expr reach = min(replaced(next.reach, behind, sequence), extent);
    if (!stored) {
      if (!under(facts, reach <= here.reach)) return false;
      continue;
    }
    facts.push_back(Expr(size_) <= here.limit);
    if (!under(facts, reach <= here.begin + Expr(size_))) return false;
    facts.back() = here.limit < Expr(size_);
    if (!under(facts, reach <= here.begin + here.limit)) return false;
  }
  return true;
}

std::string TableRuns::covers(Questions& questions, const Expr& extent) const {
  const At here = at(slot_), first = at(Expr(0)), last = at(count_ - Expr(1));
  const auto under = [&](const std::vector<Expr>& facts, const Expr& goal) {
    questions.push();
    for (const Expr& fact : facts) questions.assume(fact, FactKind::kDomain);
    const bool holds = questions.holds(goal);
    questions.pop();
    return holds;
  };
  if (!under({}, Expr(1) <= count_)) return "no slot is certain";
  if (!under({}, first.reach <= Expr(0))) return "the first run begins behind the first row";
  const Expr inside = Expr(0) <= slot_ && slot_ < count_;
  if (!under({inside, here.stored}, here.begin <= here.reach))
    return "a slot stores rows that are not its sequence's";
  if (!handed_on(questions, extent, true)) return "a run ends before the next begins";
  if (!handed_on(questions, extent, false)) return "a slot that stores nothing leaves a gap";
  if (!under({last.stored}, extent <= last.end) || !under({!last.stored}, extent <= last.reach))
    return "the last run ends before the tensor does";
  return "";
}

}  // namespace rooftile::verify
