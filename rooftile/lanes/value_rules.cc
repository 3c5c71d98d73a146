// SPDX-License-Identifier: Apache-2.0
// The typing rules of pure operations as one table of kinds, and how C spells them.
#include "rooftile/lanes/value_rules.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace rooftile::lanes {
namespace {

// What an operation asks of its operands and gives.
enum class Rule : uint8_t {
  kNumbers,   // T, T... -> T; any number
  kFloats,    // f32... -> f32
  kIntegers,  // T, T -> T; integers
  kShift,     // T, i32 or u32 -> T; integers
  kMulHi,     // u32, u32 -> u32
  kBytes,     // u32, u32, u32 -> u32
  kCompare,   // T, T -> pred; any number
  kEqual,     // T, T -> pred; any type
  kLogic,     // pred... -> pred
  kSelect,    // pred, T, T -> T
  kCast,      // number -> number
  kBits,      // the same size
  kPack,      // f32... -> u32
  kUnpack,    // u32 -> f32
  kDesc,      // u32, u32, u32, u32 -> u64
};

Rule rule_of(Fn f) {
  switch (f) {
    case Fn::kAdd:
    case Fn::kSub:
    case Fn::kMul:
    case Fn::kMin:
    case Fn::kMax:
    case Fn::kNeg:
    case Fn::kAbs:
      return Rule::kNumbers;
    case Fn::kFloorDiv:
    case Fn::kFloorMod:
    case Fn::kAnd:
    case Fn::kOr:
    case Fn::kXor:
      return Rule::kIntegers;
    case Fn::kShl:
    case Fn::kShr:
      return Rule::kShift;
    case Fn::kMulHi:
      return Rule::kMulHi;
    case Fn::kPrmt:
      return Rule::kBytes;
    case Fn::kLt:
    case Fn::kLe:
      return Rule::kCompare;
    case Fn::kEq:
    case Fn::kNe:
      return Rule::kEqual;
    case Fn::kLogicalAnd:
    case Fn::kLogicalOr:
    case Fn::kLogicalNot:
      return Rule::kLogic;
    case Fn::kSelect:
      return Rule::kSelect;
    case Fn::kCast:
      return Rule::kCast;
    case Fn::kBits:
      return Rule::kBits;
    case Fn::kPackBf16:
    case Fn::kPackF16:
    case Fn::kToF8E4M3:
    case Fn::kToF8E5M2:
      return Rule::kPack;
    case Fn::kLowBf16:
    case Fn::kHighBf16:
    case Fn::kLowF16:
    case Fn::kHighF16:
    case Fn::kFromF8E4M3:
    case Fn::kFromF8E5M2:
      return Rule::kUnpack;
    case Fn::kMatrixDesc:
      return Rule::kDesc;
    default:
      return Rule::kFloats;
  }
}

bool all_of_type(const std::vector<Val>& args, Ty type) {
  for (const Val& arg : args)
    if (arg.type() != type) return false;
  return true;
}

bool alike(const Val& a, const Val& b) { return a.type() == b.type(); }

// Whether the operands suit the rule.
bool operands_fit(Rule rule, const std::vector<Val>& args) {
  const Ty first = args[0].type();
  const bool same = all_of_type(args, first);
  switch (rule) {
    case Rule::kNumbers:
    case Rule::kCompare:
      return same && first != Ty::kPred;
    case Rule::kFloats:
    case Rule::kPack:
      return all_of_type(args, Ty::kF32);
    case Rule::kIntegers:
      return same && is_integer(first);
    case Rule::kShift:
      return is_integer(first) && (args[1].type() == Ty::kI32 || args[1].type() == Ty::kU32);
    case Rule::kMulHi:
    case Rule::kBytes:
    case Rule::kUnpack:
    case Rule::kDesc:
      return all_of_type(args, Ty::kU32);
    case Rule::kEqual:
      return same;
    case Rule::kLogic:
      return all_of_type(args, Ty::kPred);
    case Rule::kSelect:
      return first == Ty::kPred && alike(args[1], args[2]);
    case Rule::kCast:
      return true;  // from pred too: 0 or 1
    case Rule::kBits:
      return first != Ty::kPred;
  }
  return false;
}

}  // namespace

bool operands_present(Fn f, const std::vector<Val>& args) {
  for (const Val& arg : args)
    if (!arg.present()) return false;
  return static_cast<int>(args.size()) == fn_info(f).arity;
}

Ty result_type(Fn f, const std::vector<Val>& args) {
  if (!operands_present(f, args)) return Ty::kI32;
  switch (rule_of(f)) {
    case Rule::kCompare:
    case Rule::kEqual:
    case Rule::kLogic:
      return Ty::kPred;
    case Rule::kFloats:
    case Rule::kUnpack:
      return Ty::kF32;
    case Rule::kMulHi:
    case Rule::kBytes:
    case Rule::kPack:
      return Ty::kU32;
    case Rule::kDesc:
      return Ty::kU64;
    case Rule::kSelect:
      // The type that is not taken over from a constant of the other operand.
      return args[1]->kind == ValKind::kInt ? args[2].type() : args[1].type();
    case Rule::kBits:
      switch (args[0].type()) {
        case Ty::kU32:
          return Ty::kF32;
        case Ty::kU64:
          return Ty::kI64;
        case Ty::kI64:
          return Ty::kU64;
        default:
          return Ty::kU32;
      }
    case Rule::kShift:
    case Rule::kCast:
      return args[0].type();
    default:
      for (const Val& arg : args)
        if (arg->kind != ValKind::kInt) return arg.type();
      return args[0].type();
  }
}

std::string type_error(Fn f, Ty type, const std::vector<Val>& args) {
  const FnInfo& info = fn_info(f);
  if (static_cast<int>(args.size()) != info.arity)
    return fmt::format("{} takes {} operands, not {}", info.name, info.arity, args.size());
  std::string types;
  for (const Val& arg : args) {
    if (!arg.present()) return fmt::format("an operand of {} is absent", info.name);
    types += (types.empty() ? "" : ", ") + std::string(ty_name(arg.type()));
  }
  const Rule rule = rule_of(f);
  if (!operands_fit(rule, args)) return fmt::format("{} does not take ({})", info.name, types);
  const bool fits = rule == Rule::kCast ? type != Ty::kPred
                    : rule == Rule::kBits
                        ? size_bytes(type) == size_bytes(args[0].type()) && type != Ty::kPred
                        : type == result_type(f, args);
  if (!fits) return fmt::format("{}({}) is not {}", info.name, types, ty_name(type));
  return "";
}

const Infix* infix(Fn f) {
  static constexpr Infix kMul{"*", 13}, kAdd{"+", 12}, kSub{"-", 12}, kShl{"<<", 11},
      kShr{">>", 11}, kLt{"<", 9}, kLe{"<=", 9}, kEq{"==", 8}, kNe{"!=", 8}, kAnd{"&", 7},
      kXor{"^", 6}, kOr{"|", 5}, kLogicalAnd{"&&", 4}, kLogicalOr{"||", 3};
  switch (f) {
    case Fn::kMul:
      return &kMul;
    case Fn::kAdd:
      return &kAdd;
    case Fn::kSub:
      return &kSub;
    case Fn::kShl:
      return &kShl;
    case Fn::kShr:
      return &kShr;
    case Fn::kLt:
      return &kLt;
    case Fn::kLe:
      return &kLe;
    case Fn::kEq:
      return &kEq;
    case Fn::kNe:
      return &kNe;
    case Fn::kAnd:
      return &kAnd;
    case Fn::kXor:
      return &kXor;
    case Fn::kOr:
      return &kOr;
    case Fn::kLogicalAnd:
      return &kLogicalAnd;
    case Fn::kLogicalOr:
      return &kLogicalOr;
    default:
      return nullptr;
  }
}

OperandPrecedence operand_precedence(const Infix& op) {
  const bool obscure = (op.precedence >= 5 && op.precedence <= 7) || op.precedence == 11;
  if (obscure) return {kUnaryPrecedence, kUnaryPrecedence};
  if (op.precedence == 3) return {3, 5};  // a || (b && c), a || b || c
  return {op.precedence, op.precedence + 1};
}

std::string float_text(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  std::string text = fmt::format("{}", static_cast<float>(number));  // shortest that reads back
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text + "f";
}

}  // namespace rooftile::lanes
