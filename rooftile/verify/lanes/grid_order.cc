// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/lanes/grid_order.h"

#include <algorithm>

namespace rooftile::verify {

using lanes::Ins;
using lanes::Stmt;
using lanes::StmtKind;

namespace {

bool touches_global(const Stmt& stmt) {
  const auto any = [](const lanes::Body& body) {
    return std::any_of(body.begin(), body.end(), touches_global);
  };
  if (any(stmt.body) || any(stmt.orelse)) return true;
  if (stmt.kind != StmtKind::kInstr) return false;
  const lanes::InsInfo& info = lanes::ins_info(stmt.instr.ins);
  return ((info.reads | info.writes) & lanes::kGlobal) != 0;
}

}  // namespace

void prove_grid_order(const lanes::Program& program, Report& report) {
  if (!program.dependent_launch) return;
  const auto first = std::find_if(program.body.begin(), program.body.end(), touches_global);
  if (first == program.body.end()) return;
  // At the top of the body: no branch or loop leaves it out.
  const bool waits = std::any_of(program.body.begin(), first, [](const Stmt& stmt) {
    return stmt.kind == StmtKind::kInstr && stmt.instr.ins == Ins::kGridWait &&
           !stmt.instr.guard.present();
  });
  report.kernel(Kind::kGlobalRace, "griddepcontrol.wait", waits, Prover::kDataflow,
                "global memory is touched while the kernel before may still run");
}

}  // namespace rooftile::verify
