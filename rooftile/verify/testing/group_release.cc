// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/testing/group_release.h"

namespace rooftile::verify::testing {

using lanes::Ins;
using lanes::Stmt;
using lanes::StmtKind;
using lanes::Ty;

namespace {

bool names(const lanes::Val& v, const std::string& allocation) {
  if (!v.present()) return false;
  if (v->kind == lanes::ValKind::kShared && v->name == allocation) return true;
  for (const lanes::Val& arg : v->args)
    if (names(arg, allocation)) return true;
  return false;
}

bool is(const Stmt& stmt, Ins ins, const std::string& allocation) {
  return stmt.kind == StmtKind::kInstr && stmt.instr.ins == ins &&
         names(stmt.instr.args[0], allocation);
}

void change(lanes::Body& body, const std::string& barriers, int& inits, int& arrivals) {
  for (Stmt& stmt : body) {
    if (is(stmt, Ins::kBarInit, barriers) && stmt.instr.args[1]->integer == 8) {
      stmt.instr.args[1] = 2;
      ++inits;
    }
    if (stmt.kind == StmtKind::kIf && stmt.body.size() == 1 &&
        is(stmt.body[0], Ins::kBarArrive, barriers)) {
      stmt.value = lanes::equal(lanes::floor_mod(lanes::var(Ty::kI32, "warp"), 4), 0) && stmt.value;
      ++arrivals;
    }
    change(stmt.body, barriers, inits, arrivals);
    change(stmt.orelse, barriers, inits, arrivals);
  }
}

}  // namespace

bool release_for_the_group(lanes::Program& kernel, const std::string& ring) {
  int inits = 0, arrivals = 0;
  change(kernel.body, "empty_" + ring, inits, arrivals);
  return inits > 0 && arrivals > 0;
}

}  // namespace rooftile::verify::testing
