// SPDX-License-Identifier: Apache-2.0
#include "rooftile/codegen/host/emit_expr.h"

#include <cctype>
#include <limits>

#include "rooftile/codegen/host/emit_errors.h"

namespace rooftile::host {
namespace {

std::string call(const char* function, const Expr& expr) {
  return std::string("rth::") + function + "(" + emit_expr(expr.args()[0]) + ", " +
         emit_expr(expr.args()[1]) + ", bad)";
}

std::string infix(const char* op, const Expr& expr) {
  return "rth::i64(" + emit_expr(expr.args()[0]) + " " + op + " " + emit_expr(expr.args()[1]) + ")";
}

std::string logical(const char* op, const Expr& expr) {
  return "rth::i64(" + emit_expr(expr.args()[0]) + " != 0 " + op + " " + emit_expr(expr.args()[1]) +
         " != 0)";
}

std::string extremum(const char* function, const Expr& expr) {
  return std::string("rth::") + function + "(" + emit_expr(expr.args()[0]) + ", " +
         emit_expr(expr.args()[1]) + ")";
}

std::string constant(int64_t value) {
  if (value == std::numeric_limits<int64_t>::min()) return "(-9223372036854775807ll - 1)";
  return "rth::i64(" + std::to_string(value) + ")";
}

}  // namespace

std::string identifier(std::string_view name) {
  std::string out;
  for (char c : name) out += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return out;
}

std::string symbol_variable(std::string_view symbol) { return "d_" + identifier(symbol); }

std::string emit_expr(const Expr& expr) {
  switch (expr.kind()) {
    case ExprKind::kConst:
      return constant(expr.value());
    case ExprKind::kSym:
      return symbol_variable(expr.name());
    case ExprKind::kAdd:
      return call("add", expr);
    case ExprKind::kSub:
      return call("sub", expr);
    case ExprKind::kMul:
      return call("mul", expr);
    case ExprKind::kFloorDiv:
      return call("floor_div", expr);
    case ExprKind::kMod:
      return call("floor_mod", expr);
    case ExprKind::kMin:
      return extremum("min", expr);
    case ExprKind::kMax:
      return extremum("max", expr);
    case ExprKind::kLt:
      return infix("<", expr);
    case ExprKind::kLe:
      return infix("<=", expr);
    case ExprKind::kEq:
      return infix("==", expr);
    case ExprKind::kNe:
      return infix("!=", expr);
    case ExprKind::kAnd:
      return logical("&&", expr);
    case ExprKind::kOr:
      return logical("||", expr);
    case ExprKind::kNot:
      return "rth::i64(" + emit_expr(expr.args()[0]) + " == 0)";
    case ExprKind::kSelect:
      return "(" + emit_expr(expr.args()[0]) + " != 0 ? " + emit_expr(expr.args()[1]) + " : " +
             emit_expr(expr.args()[2]) + ")";
    case ExprKind::kIndexLoad: {
      std::string out = "at_" + identifier(expr.name()) + "(";
      for (const Expr& index : expr.args()) out += emit_expr(index) + ", ";
      return out + "bad)";
    }
  }
  return "0";
}

std::string value_pattern(const std::vector<Expr>& exprs, std::vector<std::string>& values) {
  std::set<std::string> symbols;
  for (const Expr& expr : exprs) collect_symbols(expr, symbols);
  std::string out;
  for (const std::string& symbol : symbols) {
    if (values.size() == kMaxSiteValues) break;
    if (!out.empty()) out += ", ";
    out += symbol + " = {i" + std::to_string(values.size()) + "}";
    values.push_back(symbol_variable(symbol));
  }
  return out;
}

}  // namespace rooftile::host
