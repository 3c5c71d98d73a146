// SPDX-License-Identifier: Apache-2.0
// Values as people read them: C operators with only the parentheses that C needs.
#include <fmt/format.h>

#include <array>

#include "rooftile/lanes/lanes.h"
#include "rooftile/lanes/value_rules.h"

namespace rooftile::lanes {
namespace {

std::string_view special_name(Special s) {
  constexpr std::array<std::string_view, 10> kNames = {"tid",    "lane",        "warp",   "cta.x",
                                                       "cta.y",  "cta.z",       "grid.x", "grid.y",
                                                       "grid.z", "cluster.rank"};
  return kNames[static_cast<size_t>(s)];
}

std::string int_text(const ValNode& node) {
  switch (node.type) {
    case Ty::kPred:
      return node.integer != 0 ? "true" : "false";
    case Ty::kU32:
      return fmt::format("{}u", node.integer);
    case Ty::kI64:
      return fmt::format("{}L", node.integer);
    case Ty::kU64:
      return fmt::format("{}UL", static_cast<uint64_t>(node.integer));
    default:
      return fmt::format("{}", node.integer);
  }
}

std::string text(const Val& value, int outer);

std::string call_text(const ValNode& node) {
  std::string name(fn_info(node.fn).name);
  if (node.fn == Fn::kCast) name = std::string(ty_name(node.type));
  if (node.fn == Fn::kBits) name += "_" + std::string(ty_name(node.type));
  std::string out = name + "(";
  for (size_t i = 0; i < node.args.size(); ++i) out += (i == 0 ? "" : ", ") + text(node.args[i], 0);
  return out + ")";
}

std::string fn_text(const ValNode& node, int outer) {
  if (node.fn == Fn::kLogicalNot) return "!" + text(node.args[0], kUnaryPrecedence);
  if (node.fn == Fn::kNeg) return "-" + text(node.args[0], kUnaryPrecedence);
  if (node.fn == Fn::kSelect) {
    const std::string out = fmt::format("{} ? {} : {}", text(node.args[0], 3),
                                        text(node.args[1], 3), text(node.args[2], 2));
    return outer > 2 ? "(" + out + ")" : out;
  }
  const Infix* op = infix(node.fn);
  if (op == nullptr) return call_text(node);
  const OperandPrecedence inner = operand_precedence(*op);
  const std::string out = fmt::format("{} {} {}", text(node.args[0], inner.left), op->symbol,
                                      text(node.args[1], inner.right));
  return outer > op->precedence ? "(" + out + ")" : out;
}

// `outer`: the text is parenthesised if it binds less tightly than this.
std::string text(const Val& value, int outer) {
  if (!value.present()) return "<absent>";
  const ValNode& node = *value;
  switch (node.kind) {
    case ValKind::kInt: {
      const std::string out = int_text(node);
      return out[0] == '-' && outer >= kUnaryPrecedence ? "(" + out + ")" : out;
    }
    case ValKind::kFloat:
      return float_text(node.number);
    case ValKind::kVar:
    case ValKind::kParam:
      return node.name;
    case ValKind::kElem:
      return node.name + "[" + text(node.args[0], 0) + "]";
    case ValKind::kSpecial:
      return std::string(special_name(node.special));
    case ValKind::kShared:
      return "&" + node.name;
    case ValKind::kFn:
      return fn_text(node, outer);
  }
  return "";
}

}  // namespace

std::string str(const Val& value) { return text(value, 0); }

}  // namespace rooftile::lanes
