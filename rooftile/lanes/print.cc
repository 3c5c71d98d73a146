// SPDX-License-Identifier: Apache-2.0
// L2 as text: one statement a line. An instruction reads
//   results = name regs, args, tensor[index] x width, attributes  if guard
#include <fmt/format.h>

#include <array>

#include "rooftile/lanes/lanes.h"
#include "rooftile/lanes/operands.h"
#include "rooftile/lanes/program_text.h"

namespace rooftile::lanes {
namespace {

std::string join(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : ", ") + part;
  return out;
}

std::string reg_text(const RegRef& ref) {
  if (!ref.first.present()) return ref.name;
  if (ref.count == 1) return fmt::format("{}[{}]", ref.name, str(ref.first));
  return fmt::format("{}[{} +: {}]", ref.name, str(ref.first), ref.count);
}

std::string global_text(const Instr& i) {
  std::vector<std::string> index;
  for (const Val& v : i.global.index) index.push_back(str(v));
  std::string out = fmt::format("{}[{}]", i.global.tensor, join(index));
  if (i.global.width > 1) out += fmt::format(" x {}", i.global.width);
  return out;
}

std::string_view cache_name(Cache cache) {
  constexpr std::array<std::string_view, 5> kNames = {"", "evict_first", "evict_last", "no_l1",
                                                      "stream"};
  return kNames[static_cast<size_t>(cache)];
}

std::string instr_text(const Instr& i) {
  const Operands& rule = operands(i.ins);
  const auto needs = [&](char letter) { return rule.needs.find(letter) != std::string_view::npos; };
  std::vector<std::string> results, rest;
  for (const RegRef& ref : i.results) results.push_back(reg_text(ref));
  if (needs('m')) rest.push_back(i.map);
  if (needs('g')) rest.push_back(global_text(i));
  for (const RegRef& ref : i.regs) rest.push_back(reg_text(ref));
  for (const Val& arg : i.args) rest.push_back(str(arg));
  if (needs('b')) rest.push_back(fmt::format("bytes={}", i.bytes));
  if (needs('n')) rest.push_back(fmt::format("n={}", i.n));
  if (needs('o')) rest.push_back(std::string(fn_info(i.op).name));
  const bool typed = i.ins == Ins::kWgmma || i.ins == Ins::kMmaSync || needs('g') || needs('o');
  if (typed && i.ins != Ins::kRedux) rest.push_back(std::string(name(i.dtype)));
  if (i.trans_a) rest.emplace_back("trans_a");
  if (i.trans_b) rest.emplace_back("trans_b");
  if (i.cache != Cache::kPlain) rest.push_back(std::string(cache_name(i.cache)));
  std::string out = results.empty() ? "" : join(results) + " = ";
  out += std::string(ins_info(i.ins).name);
  if (!rest.empty()) out += " " + join(rest);
  if (i.guard.present()) out += "  if " + str(i.guard);
  return out;
}

std::string decl_text(const Stmt& stmt) {
  std::string out = fmt::format("{} {}", ty_name(stmt.type), stmt.name);
  if (stmt.count > 0) out += fmt::format("[{}]", stmt.count);
  if (stmt.value.present()) out += " = " + str(stmt.value);
  return out;
}

std::string for_text(const Stmt& stmt) {
  std::string out = fmt::format("for {} = {} .. {}", stmt.name, str(stmt.begin), str(stmt.end));
  if (!stmt.step.is_int(1)) out += " by " + str(stmt.step);
  if (stmt.unroll == Unroll::kYes) out += ", unrolled";
  if (!stmt.uniform) out += ", divergent";
  return out;
}

void body_text(const Body& body, int depth, std::string& out) {
  const std::string indent(static_cast<size_t>(2 * depth), ' ');
  for (const Stmt& stmt : body) {
    const bool region =
        stmt.kind == StmtKind::kIf || stmt.kind == StmtKind::kFor || stmt.kind == StmtKind::kWhile;
    out += indent + print_head(stmt) + (region ? " {\n" : "\n");
    if (!region) continue;
    body_text(stmt.body, depth + 1, out);
    if (!stmt.orelse.empty()) {
      out += indent + "} else {\n";
      body_text(stmt.orelse, depth + 1, out);
    }
    out += indent + "}\n";
  }
}

std::string swizzle_text(Swizzle swizzle) {
  return swizzle == Swizzle::kNone ? ""
                                   : fmt::format(" swizzle {}B", 16 << static_cast<int>(swizzle));
}

void declarations_text(const Program& program, std::string& out) {
  for (const TensorUse& t : program.tensors) {
    std::vector<std::string> shape;
    for (const Expr& extent : t.shape) shape.push_back(extent.str());
    out += fmt::format("  tensor {} {}[{}]{}{}{}{} align {}\n", t.name, name(t.dtype), join(shape),
                       t.read ? " read" : "", t.written ? " written" : "",
                       t.workspace ? " workspace" : "", t.zeroed ? " zeroed" : "", t.align_bytes);
  }
  for (const TensorMapUse& m : program.maps) {
    std::vector<std::string> box;
    for (const int side : m.box) box.push_back(std::to_string(side));
    out += fmt::format("  map {} of {} box [{}]{}{}\n", m.name, m.tensor, join(box),
                       swizzle_text(m.swizzle),
                       m.l2_promotion > 0 ? fmt::format(" promote {}B", m.l2_promotion) : "");
  }
  for (const ScalarUse& s : program.scalars)
    out += fmt::format("  param {} {}\n", ty_name(s.type), s.name);
  for (const SharedAlloc& a : program.shared)
    out += fmt::format("  shared {} {} bytes align {}{}{}\n", a.name, a.bytes, a.align,
                       a.offset >= 0 ? fmt::format(" at {}", a.offset) : "",
                       a.barriers ? " barriers" : "");
}

}  // namespace

std::string print_head(const Stmt& stmt) {
  switch (stmt.kind) {
    case StmtKind::kDecl:
      return decl_text(stmt);
    case StmtKind::kAssign:
      return reg_text(stmt.target) + " = " + str(stmt.value);
    case StmtKind::kInstr:
      return instr_text(stmt.instr);
    case StmtKind::kIf:
      return fmt::format("if {}{}{}", str(stmt.value), stmt.uniform ? ", uniform" : "",
                         stmt.unlikely ? ", unlikely" : "");
    case StmtKind::kFor:
      return for_text(stmt);
    case StmtKind::kWhile:
      return fmt::format("while {}{}", str(stmt.value), stmt.uniform ? ", uniform" : "");
    case StmtKind::kComment:
      return "# " + stmt.text;
  }
  return "";
}

std::string print(const Program& program) {
  std::string out = fmt::format("kernel {}: {} threads", program.name, program.threads);
  if (program.cluster > 1) out += fmt::format(", cluster {}", program.cluster);
  out += fmt::format(", grid [{}, {}, {}], at least {} a multiprocessor", program.grid_x.str(),
                     program.grid_y.str(), program.grid_z.str(), program.min_ctas_per_sm);
  if (program.dependent_launch) out += ", dependent launch";
  if (program.shared_bytes > 0) out += fmt::format(", {} bytes shared", program.shared_bytes);
  out += "\n";
  declarations_text(program, out);
  body_text(program.body, 1, out);
  return out;
}

}  // namespace rooftile::lanes
