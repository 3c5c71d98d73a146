// SPDX-License-Identifier: Apache-2.0
// Builders of statements, and the placing of shared memory.
#include <fmt/format.h>

#include "rooftile/lanes/lanes.h"

namespace rooftile::lanes {

Stmt decl(Ty type, std::string name, Val initial) {
  Stmt stmt;
  stmt.kind = StmtKind::kDecl;
  stmt.type = type;
  stmt.name = std::move(name);
  stmt.value = std::move(initial);
  return stmt;
}

Stmt decl_array(Ty type, std::string name, int count) {
  Stmt stmt = decl(type, std::move(name));
  stmt.count = count;
  return stmt;
}

Stmt assign(std::string name, Val value) {
  Stmt stmt;
  stmt.kind = StmtKind::kAssign;
  stmt.target.name = std::move(name);
  stmt.value = std::move(value);
  return stmt;
}

Stmt assign(std::string array, Val index, Val value) {
  Stmt stmt = assign(std::move(array), std::move(value));
  stmt.target.first = std::move(index);
  return stmt;
}

Stmt instr(Instr i) {
  Stmt stmt;
  stmt.kind = StmtKind::kInstr;
  stmt.instr = std::move(i);
  return stmt;
}

Stmt if_(Val condition, Body then, Body orelse, bool uniform) {
  Stmt stmt;
  stmt.kind = StmtKind::kIf;
  stmt.value = std::move(condition);
  stmt.body = std::move(then);
  stmt.orelse = std::move(orelse);
  stmt.uniform = uniform;
  return stmt;
}

Stmt for_(std::string name, Val begin, Val end, Val step, Body body, Unroll unroll, bool uniform) {
  Stmt stmt;
  stmt.kind = StmtKind::kFor;
  stmt.name = std::move(name);
  stmt.begin = std::move(begin);
  stmt.end = std::move(end);
  stmt.step = std::move(step);
  stmt.body = std::move(body);
  stmt.unroll = unroll;
  stmt.uniform = uniform;
  return stmt;
}

Stmt while_(Val condition, Body body) {
  Stmt stmt;
  stmt.kind = StmtKind::kWhile;
  stmt.value = std::move(condition);
  stmt.body = std::move(body);
  return stmt;
}

Stmt comment(std::string text) {
  Stmt stmt;
  stmt.kind = StmtKind::kComment;
  stmt.text = std::move(text);
  return stmt;
}

Status plan_shared(Program& program, int64_t limit) {
  int64_t used = 0;
  for (SharedAlloc& alloc : program.shared) {
    used = (used + alloc.align - 1) / alloc.align * alloc.align;
    alloc.offset = used;
    used += alloc.bytes;
  }
  program.shared_bytes = used;
  if (used <= limit) return {};
  Diag diag;
  diag.code = ErrorCode::kPlacement;
  diag.subject = program.name;
  diag.message = "the kernel needs more shared memory than a CTA can have";
  for (const SharedAlloc& alloc : program.shared)
    diag.found += fmt::format("{}{} {}", diag.found.empty() ? "" : ", ", alloc.name, alloc.bytes);
  diag.found = fmt::format("{} bytes: {}", used, diag.found);
  diag.expected = fmt::format("at most {} bytes", limit);
  diag.fix = "make tiles smaller or rings shallower";
  return diag;
}

}  // namespace rooftile::lanes
