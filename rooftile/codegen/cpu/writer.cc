// SPDX-License-Identifier: Apache-2.0
#include "rooftile/codegen/cpu/writer.h"

namespace rooftile::codegen {

std::string c_symbol(const std::string& name) {
  std::string out = "s_";
  for (char c : name) out += c == '.' ? '_' : c;
  return out;
}

void Writer::line(const std::string& text) {
  text_.append(2 * static_cast<size_t>(indent_), ' ');
  text_ += text;
  text_ += '\n';
}

void Writer::open(const std::string& head) {
  line(head.empty() ? "{" : head + " {");
  ++indent_;
  names_.emplace_back();
}

void Writer::close(const std::string& tail) {
  --indent_;
  names_.pop_back();
  line(tail);
}

std::string Writer::expr(const Expr& e) {
  const std::vector<Expr>& a = e.args();
  auto infix = [&](const char* op) { return "(" + expr(a[0]) + " " + op + " " + expr(a[1]) + ")"; };
  auto call = [&](const char* fn) {
    return std::string(fn) + "(" + expr(a[0]) + ", " + expr(a[1]) + ")";
  };
  switch (e.kind()) {
    case ExprKind::kConst:
      return std::to_string(e.value()) + "l";
    case ExprKind::kSym:
      return c_symbol(e.name());
    case ExprKind::kAdd:
      return infix("+");
    case ExprKind::kSub:
      return infix("-");
    case ExprKind::kMul:
      return infix("*");
    case ExprKind::kFloorDiv:
      return call("fdiv");
    case ExprKind::kMod:
      return call("fmod_");
    case ExprKind::kMin:
      return call("imin");
    case ExprKind::kMax:
      return call("imax");
    case ExprKind::kLt:
      return "(i64)" + infix("<");
    case ExprKind::kLe:
      return "(i64)" + infix("<=");
    case ExprKind::kEq:
      return "(i64)" + infix("==");
    case ExprKind::kNe:
      return "(i64)" + infix("!=");
    case ExprKind::kAnd:
      return "(i64)" + infix("&&");
    case ExprKind::kOr:
      return "(i64)" + infix("||");
    case ExprKind::kNot:
      return "(i64)(!" + expr(a[0]) + ")";
    case ExprKind::kSelect:
      return "(" + expr(a[0]) + " ? " + expr(a[1]) + " : " + expr(a[2]) + ")";
    case ExprKind::kIndexLoad: {
      std::string at;
      for (size_t d = 0; d < a.size(); ++d)
        at += (d ? " + " : "") + expr(a[d]) + " * " + c_symbol(e.name() + ".s" + std::to_string(d));
      return "(i64)t_" + e.name() + "[" + at + "]";
    }
  }
  return "0";
}

std::string Writer::let(const Expr& e) {
  if (e.is_const() || e.kind() == ExprKind::kSym) return expr(e);
  const std::string text = expr(e);
  for (size_t i = names_.size(); i-- > visible_from_;)
    if (auto found = names_[i].find(text); found != names_[i].end()) return found->second;
  std::string name = fresh("e");
  line("const i64 " + name + " = " + text + ";");
  names_.back()[text] = name;
  return name;
}

}  // namespace rooftile::codegen
