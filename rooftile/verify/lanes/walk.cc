// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/lanes/walk.h"

#include <algorithm>
#include <utility>

#include "rooftile/lanes/value_rules.h"
#include "rooftile/verify/lanes/owed_by_instruction.h"

namespace rooftile::verify {

using lanes::Body;
using lanes::Ins;
using lanes::Instr;
using lanes::RegRef;
using lanes::Stmt;
using lanes::StmtKind;
using lanes::Ty;
using lanes::Unroll;
using lanes::Val;
using lanes::ValKind;

namespace {

// Multiprocessors of a device, for persistent grids.
constexpr int64_t kMostMultiprocessors = 65535;
// Shared memory starts and ends somewhere in the low part of the window.
constexpr int64_t kSharedWindow = int64_t{1} << 20;

void collect_written(const Body& body, std::set<std::string>& out, const lanes::Program& program) {
  for (const Stmt& stmt : body) {
    if (stmt.kind == StmtKind::kInstr) {
      const lanes::InsInfo& info = lanes::ins_info(stmt.instr.ins);
      if ((info.writes & lanes::kGlobal) != 0) {
        if (!stmt.instr.global.tensor.empty()) out.insert(stmt.instr.global.tensor);
        for (const lanes::TensorMapUse& map : program.maps)
          if (map.name == stmt.instr.map) out.insert(map.tensor);
      }
    }
    collect_written(stmt.body, out, program);
    collect_written(stmt.orelse, out, program);
  }
}

}  // namespace

Walk::Walk(const lanes::Program& program, const LaneContract& contract)
    : program_(program),
      contract_(contract),
      questions_(program, contract),
      report_(questions_.symbols()),
      ranges_(program,
              [this](const std::string& name) { return symbols().range(Expr::sym(name)); }),
      tracked_(address_arrays(program)),
      hand_outs_(program) {
  collect_written(program.body, written_, program);
  for (const lanes::TensorUse& tensor : program.tensors)
    if (tensor.written) written_.insert(tensor.name);
  for (const auto& [a, b] : contract.may_alias) {
    if (written_.count(a) != 0) written_.insert(b);
    if (written_.count(b) != 0) written_.insert(a);
  }
}

void Walk::run(const std::vector<Observer*>& observers) {
  observers_ = observers;
  const auto place = [&](const std::string& name, const Interval& range) {
    symbols().add(name, {.kind = SymbolKind::kPlace, .range = range});
  };
  if (symbols().find("SMS") == nullptr)
    symbols().add("SMS", {.kind = SymbolKind::kCall, .range = {1, kMostMultiprocessors}});
  else
    questions_.assume(Expr(1) <= Expr::sym("SMS") && Expr::sym("SMS") <= Expr(kMostMultiprocessors),
                      FactKind::kDomain);
  place("tid", {0, program_.threads - 1});
  const std::pair<const char*, Expr> axes[] = {
      {"cta.x", program_.grid_x}, {"cta.y", program_.grid_y}, {"cta.z", program_.grid_z}};
  for (const auto& [name, count] : axes) {
    place(name, {0, INT32_MAX});
    questions_.assume(Expr::sym(name) < count, FactKind::kDomain);
  }
  for (const lanes::SharedAlloc& alloc : program_.shared)
    place("shared." + alloc.name, {0, kSharedWindow});
  body(program_.body);
}

// ---- statements --------------------------------------------------------------------------------

void Walk::body(const Body& statements) {
  scopes_.emplace_back();
  for (const Stmt& stmt : statements) {
    if (symbols().dead())  // bounds contradict each other
      unreached(stmt);
    else
      statement(stmt);
  }
  for (auto it = scopes_.back().rbegin(); it != scopes_.back().rend(); ++it) {
    if (it->second)
      registers_[it->first] = *it->second;
    else
      registers_.erase(it->first);
  }
  scopes_.pop_back();
}

void Walk::unreached(const Stmt& stmt) {
  if (stmt.kind == StmtKind::kInstr)
    for (const Kind kind : owed_by_instruction(stmt.instr))
      report_.proved(kind, stmt, Prover::kInterval);
  unreached(stmt.body);
  unreached(stmt.orelse);
}

void Walk::unreached(const Body& statements) {
  for (const Stmt& stmt : statements) unreached(stmt);
}

void Walk::set(const std::string& name, const Expr& value) {
  registers_[name] = value;
  memo_.clear();
}

void Walk::statement(const Stmt& stmt) {
  stmt_ = &stmt;
  memo_.clear();
  if (hand_outs_.has(stmt)) return of_hand_out(stmt);
  switch (stmt.kind) {
    case StmtKind::kComment:
      return;
    case StmtKind::kDecl: {
      if (stmt.type == Ty::kF32 || stmt.count > 0) {
        if (stmt.value.present()) scan(stmt.value);
        return;
      }
      const Expr initial = stmt.value.present() ? value(stmt.value) : fresh(stmt.type, stmt.name);
      const auto it = registers_.find(stmt.name);
      scopes_.back().emplace_back(
          stmt.name, it == registers_.end() ? std::nullopt : std::optional(it->second));
      types_[stmt.name] = stmt.type;
      return set(stmt.name, initial);
    }
    case StmtKind::kAssign: {
      const Ty type = stmt.value.type();
      if (type == Ty::kF32) return scan(stmt.value);
      if (!stmt.target.first.present()) return set(stmt.target.name, value(stmt.value));
      if (tracked_.count(stmt.target.name) == 0) return scan(stmt.value);
      const std::string name = element_name(stmt.target);
      types_[name] = type;
      return set(name, value(stmt.value));
    }
    case StmtKind::kInstr:
      return instruction(stmt);
    case StmtKind::kIf:
      return branch(stmt);
    case StmtKind::kFor:
      return loop(stmt);
    case StmtKind::kWhile:
      return while_loop(stmt);
  }
}

std::string Walk::element_name(const RegRef& ref) {
  return ref.name + "[" + value(ref.first).str() + "]";
}

// ---- branches ----------------------------------------------------------------------------------

void Walk::branch(const Stmt& stmt) {
  const Expr condition = value(stmt.value);
  std::set<std::string> changed = assigned(stmt.body);
  changed.insert(assigned(stmt.orelse).begin(), assigned(stmt.orelse).end());
  const std::map<std::string, Expr> before = registers_;
  questions_.push();
  questions_.assume(condition);
  body(stmt.body);
  questions_.pop();
  const std::map<std::string, Expr> then = std::exchange(registers_, before);
  memo_.clear();
  if (!stmt.orelse.empty()) {
    questions_.push();
    questions_.assume(!condition);
    body(stmt.orelse);
    questions_.pop();
  }
  merge(condition, before, then, changed);
}

// Registers now hold the values behind the `else`.
void Walk::merge(const Expr& condition, const std::map<std::string, Expr>& before,
                 const std::map<std::string, Expr>& then, const std::set<std::string>& changed) {
  for (const std::string& name : changed) {
    if (before.count(name) == 0) continue;  // of an inner scope
    const Expr &a = then.at(name), b = registers_.at(name);
    if (!a.same_as(b)) registers_[name] = select(condition, a, b);
  }
  memo_.clear();
}

// ---- loops -------------------------------------------------------------------------------------

// Registers and tracked elements that the statements may change.
const std::set<std::string>& Walk::assigned(const Body& statements) {
  const auto it = assigned_.find(&statements);
  if (it != assigned_.end()) return it->second;
  std::set<std::string> out;
  for (const Stmt& stmt : statements) {
    const auto add = [&](const RegRef& ref) {
      out.insert(ref.first.present() ? ref.name + "[" : ref.name);
    };
    if (stmt.kind == StmtKind::kAssign) add(stmt.target);
    for (const RegRef& result : stmt.instr.results) add(result);
    for (const Body* inner : {&stmt.body, &stmt.orelse}) {
      if (inner->empty()) continue;
      const std::set<std::string>& names = assigned(*inner);
      out.insert(names.begin(), names.end());
    }
  }
  // Elements by their own names, as far as there are any.
  std::set<std::string> names;
  for (const std::string& name : out) {
    if (name.back() != '[') {
      names.insert(name);
      continue;
    }
    const std::string array = name.substr(0, name.size() - 1);
    if (tracked_.count(array) == 0) continue;
    for (int i = 0; i < 64; ++i) names.insert(name + std::to_string(i) + "]");
  }
  return assigned_[&statements] = std::move(names);
}

// What the loop makes of these registers, of which only bounds are known.
void Walk::forget(const std::set<std::string>& names) {
  for (const std::string& name : names) {
    const auto it = registers_.find(name);
    if (it == registers_.end()) continue;
    const Ty type = types_.at(name);
    Interval range = ranges_.of(name, type);
    const bool number =
        symbols().is_data(it->second) || !range.within({INT32_MIN / 2, INT32_MAX / 2});
    it->second = symbols().add(
        name, {.kind = SymbolKind::kChanged, .range = range, .facts = {}, .data = number});
  }
  memo_.clear();
}

// The copies are walked one by one where elements of registers that decide addresses are named.
bool Walk::expands(const Stmt& stmt) {
  if (stmt.unroll != Unroll::kYes || tracked_.empty()) return false;
  const std::string text = lanes::print({.name = {}, .body = {stmt}});
  return std::any_of(tracked_.begin(), tracked_.end(), [&](const std::string& array) {
    return text.find(array + "[") != std::string::npos;
  });
}

void Walk::loop(const Stmt& stmt) {
  if (const HandOut* form = hand_outs_.at(stmt)) return hand_out(stmt, *form);
  Symbols& known = symbols();
  Expr begin = value(stmt.begin);
  {
    const Expr end = value(stmt.end), step = value(stmt.step);
    const bool constant = begin.is_const() && end.is_const() && step.is_const() && step.value() > 0;
    const bool once =
        constant && begin.value() < end.value() && end.value() - begin.value() <= step.value();
    if (constant && (once || expands(stmt))) {
      const auto shadowed = registers_.find(stmt.name) == registers_.end()
                                ? std::nullopt
                                : std::optional(registers_.at(stmt.name));
      for (int64_t i = begin.value(); i < end.value(); i += step.value()) {
        registers_[stmt.name] = i;
        types_[stmt.name] = Ty::kI32;
        loops_.push_back({&stmt, i, "", begin, end, step});
        memo_.clear();
        body(stmt.body);
        loops_.pop_back();
      }
      registers_.erase(stmt.name);
      if (shadowed) registers_[stmt.name] = *shadowed;
      memo_.clear();
      return;
    }
  }
  const std::set<std::string>& changed = assigned(stmt.body);
  forget(changed);
  stmt_ = &stmt;
  const Expr end = value(stmt.end), step = value(stmt.step);
  questions_.push();
  // The variable: begin + step * counter where the step is a number.
  const Interval first = known.range(begin), last = known.range(end) - Interval::point(1);
  LoopAt at{&stmt, 0, "", begin, end, step};
  Expr fact = 1;
  if (step.is_const() && step.value() > 1) {
    const Interval count =
        floor_div(Interval{0, (last - Interval::point(first.lo == kNoLeast ? 0 : first.lo)).hi},
                  Interval::point(step.value()));
    const Expr counter =
        known.add(stmt.name + ".n",
                  {.kind = SymbolKind::kPlace,
                   .range = {0, first.lo == kNoLeast ? kNoMost : std::max<int64_t>(count.hi, 0)}});
    at.name = counter.name();
    at.variable = begin + counter * step;
  } else {
    at.variable = known.add(
        stmt.name, {.kind = SymbolKind::kPlace, .range = {first.lo, std::max(first.lo, last.hi)}});
    at.name = at.variable.name();
    fact = begin <= at.variable;
  }
  questions_.assume(fact && at.variable < end, FactKind::kDomain);
  const auto shadowed = registers_.find(stmt.name) == registers_.end()
                            ? std::nullopt
                            : std::optional(registers_.at(stmt.name));
  registers_[stmt.name] = at.variable;
  types_[stmt.name] = Ty::kI32;
  memo_.clear();
  if (!known.dead()) {
    if (!step.is_const() || step.value() <= 0)
      require(Kind::kLaneOverflow, Expr(1) <= step, "the step is at least 1");
    fitted(Ty::kI32, at.variable + step);
    loops_.push_back(at);
    body(stmt.body);
    loops_.pop_back();
  } else {
    unreached(stmt.body);
  }
  questions_.pop();
  registers_.erase(stmt.name);
  if (shadowed) registers_[stmt.name] = *shadowed;
  forget(changed);
}

void Walk::while_loop(const Stmt& stmt) {
  const std::set<std::string>& changed = assigned(stmt.body);
  forget(changed);
  stmt_ = &stmt;
  const Expr condition = value(stmt.value);
  questions_.push();
  questions_.assume(condition);
  body(stmt.body);
  questions_.pop();
  forget(changed);
}

// ---- instructions ------------------------------------------------------------------------------

void Walk::instruction(const Stmt& stmt) {
  const Instr& instr = stmt.instr;
  std::optional<Expr> guard;
  if (instr.guard.present()) guard = value(instr.guard);
  questions_.push();
  if (guard) questions_.assume(*guard);
  if (symbols().dead())
    unreached(stmt);
  else
    for (Observer* observer : observers_) {
      stmt_ = &stmt;
      observer->instruction(*this, stmt);
    }
  store_results(instr, guard);
  questions_.pop();
}

void Walk::store_results(const Instr& instr, const std::optional<Expr>& guard) {
  for (const RegRef& ref : instr.results) {
    std::string name = ref.name;
    if (ref.first.present()) {
      if (tracked_.count(ref.name) == 0 || ref.count != 1) continue;
      name = element_name(ref);
    } else if (types_.count(name) == 0) {
      continue;  // a float
    }
    const auto old = registers_.find(name);
    const Ty type = types_.count(name) != 0 ? types_.at(name) : Ty::kI32;
    Expr now = 0;
    if (instr.ins == Ins::kLdGlobal && instr.global.width == 1 && !is_float(instr.dtype) &&
        written_.count(instr.global.tensor) == 0 && questions_.describes(instr.global.tensor)) {
      std::vector<Expr> at;
      for (const Val& index : instr.global.index) at.push_back(value(index));
      now = questions_.load(instr.global.tensor, std::move(at), type_range(type));
    } else if (instr.ins == Ins::kMapa) {
      now = value(instr.args[0]);  // the same place in another CTA's window
    } else {
      now = fresh(type, name, instr.ins != Ins::kElect);
    }
    types_[name] = type;
    set(name, guard && old != registers_.end() ? select(*guard, now, old->second) : now);
  }
}

// ---- arrays that decide addresses --------------------------------------------------------------

namespace {

void names_in(const Val& v, std::set<std::string>& out) {
  if (!v.present()) return;
  if (v->kind == ValKind::kVar || v->kind == ValKind::kElem) out.insert(v->name);
  for (const Val& arg : v->args) names_in(arg, out);
}

void deciding(const Body& body, std::set<std::string>& out) {
  for (const Stmt& stmt : body) {
    if (stmt.kind == StmtKind::kIf || stmt.kind == StmtKind::kWhile) names_in(stmt.value, out);
    for (const Val* v : {&stmt.begin, &stmt.end, &stmt.step, &stmt.instr.guard}) names_in(*v, out);
    for (const Val& index : stmt.instr.global.index) names_in(index, out);
    for (const Val& arg : stmt.instr.args) names_in(arg, out);
    if (stmt.kind == StmtKind::kDecl && out.count(stmt.name) != 0) names_in(stmt.value, out);
    if (stmt.kind == StmtKind::kAssign && out.count(stmt.target.name) != 0)
      names_in(stmt.value, out);
    deciding(stmt.body, out);
    deciding(stmt.orelse, out);
  }
}

void integer_arrays(const Body& body, std::set<std::string>& out) {
  for (const Stmt& stmt : body) {
    if (stmt.kind == StmtKind::kDecl && stmt.count > 0 && stmt.count <= 64 &&
        (stmt.type == Ty::kI32 || stmt.type == Ty::kI64))
      out.insert(stmt.name);
    integer_arrays(stmt.body, out);
    integer_arrays(stmt.orelse, out);
  }
}

}  // namespace

std::set<std::string> address_arrays(const lanes::Program& program) {
  std::set<std::string> arrays;
  integer_arrays(program.body, arrays);
  if (arrays.empty()) return arrays;
  std::set<std::string> names;
  for (size_t before = SIZE_MAX; before != names.size();) {
    before = names.size();
    deciding(program.body, names);
  }
  std::set<std::string> out;
  std::set_intersection(arrays.begin(), arrays.end(), names.begin(), names.end(),
                        std::inserter(out, out.begin()));
  return out;
}

}  // namespace rooftile::verify
