// SPDX-License-Identifier: Apache-2.0
// unrolled(): loops marked kUnroll become their copies, and branches whose condition is then known
// become the side taken. Afterwards every index of a register array is a constant.
//
// Copies land in the scope around the loop, so what they declare gets a name of its own: `x` in the
// copies is `x.0`, `x.1`, ... (counted over the whole program).
#include <map>

#include "rooftile/lanes/lanes.h"

namespace rooftile::lanes {
namespace {

class Unroller {
 public:
  Body run(const Body& body) {
    Body out;
    scope(body, out, /*inlined=*/false);
    return out;
  }

 private:
  // What names stand for here: loop variables their values, renamed registers their new names.
  struct Meaning {
    Val constant;
    std::string name;
  };
  using Names = std::map<std::string, Meaning, std::less<>>;

  Val value(const Val& v) const {
    if (!v.present()) return v;
    switch (v->kind) {
      case ValKind::kVar: {
        const auto it = names_.find(v->name);
        if (it == names_.end()) return v;
        return it->second.constant.present() ? it->second.constant : var(v.type(), it->second.name);
      }
      case ValKind::kElem:
        return elem(v.type(), renamed(v->name), value(v->args[0]));
      case ValKind::kFn: {
        bool changed = false;
        std::vector<Val> args;
        args.reserve(v->args.size());
        for (const Val& arg : v->args) {
          args.push_back(value(arg));
          changed |= args.back().present() && &*args.back() != &*arg;
        }
        return changed ? fn(v->fn, v.type(), std::move(args)) : v;
      }
      default:
        return v;
    }
  }

  std::string renamed(const std::string& name) const {
    const auto it = names_.find(name);
    return it == names_.end() || it->second.constant.present() ? name : it->second.name;
  }

  RegRef reg(RegRef ref) const {
    ref.name = renamed(ref.name);
    ref.first = value(ref.first);
    return ref;
  }

  Instr instruction(Instr i) const {
    i.guard = value(i.guard);
    for (RegRef& ref : i.results) ref = reg(std::move(ref));
    for (RegRef& ref : i.regs) ref = reg(std::move(ref));
    for (Val& arg : i.args) arg = value(arg);
    for (Val& index : i.global.index) index = value(index);
    return i;
  }

  // The statements of a scope, appended to `out`. Inlined: `out` is the scope around it.
  void scope(const Body& body, Body& out, bool inlined) {
    const Names outer = names_;
    for (const Stmt& stmt : body) statement(stmt, out, inlined);
    names_ = outer;
  }

  void declare(const std::string& name, bool inlined) {
    if (inlined)
      names_[name] = {Val(), name + "." + std::to_string(copies_[name]++)};
    else
      names_.erase(name);
  }

  void statement(const Stmt& stmt, Body& out, bool inlined) {
    switch (stmt.kind) {
      case StmtKind::kFor:
        return loop(stmt, out);
      case StmtKind::kIf:
        return branch(stmt, out);
      default:
        break;
    }
    Stmt copy = stmt;
    copy.value = value(stmt.value);
    if (stmt.kind == StmtKind::kDecl) {
      declare(stmt.name, inlined);
      copy.name = renamed(stmt.name);
    } else if (stmt.kind == StmtKind::kAssign) {
      copy.target = reg(stmt.target);
    } else if (stmt.kind == StmtKind::kInstr) {
      copy.instr = instruction(stmt.instr);
    } else if (stmt.kind == StmtKind::kWhile) {
      copy.body.clear();
      scope(stmt.body, copy.body, false);
    }
    out.push_back(std::move(copy));
  }

  void branch(const Stmt& stmt, Body& out) {
    const Val condition = value(stmt.value);
    if (condition.present() && condition->kind == ValKind::kInt)
      return scope(condition->integer != 0 ? stmt.body : stmt.orelse, out, true);
    Stmt copy = stmt;
    copy.value = condition;
    copy.body.clear();
    copy.orelse.clear();
    scope(stmt.body, copy.body, false);
    scope(stmt.orelse, copy.orelse, false);
    out.push_back(std::move(copy));
  }

  void loop(const Stmt& stmt, Body& out) {
    const Val begin = value(stmt.begin), end = value(stmt.end), step = value(stmt.step);
    const auto known = [](const Val& v) { return v.present() && v->kind == ValKind::kInt; };
    const Names outer = names_;
    if (stmt.unroll == Unroll::kYes && known(begin) && known(end) && known(step) &&
        step->integer > 0) {
      for (int64_t i = begin->integer; i < end->integer; i += step->integer) {
        names_[stmt.name] = {int_val(Ty::kI32, i), ""};
        scope(stmt.body, out, true);
      }
    } else {
      Stmt copy = stmt;
      copy.begin = begin;
      copy.end = end;
      copy.step = step;
      copy.body.clear();
      names_.erase(stmt.name);
      scope(stmt.body, copy.body, false);
      out.push_back(std::move(copy));
    }
    names_ = outer;
  }

  Names names_;
  std::map<std::string, int, std::less<>> copies_;
};

}  // namespace

Program unrolled(const Program& program) {
  Program out = program;
  out.body = Unroller().run(program.body);
  return out;
}

}  // namespace rooftile::lanes
