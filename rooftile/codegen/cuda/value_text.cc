// SPDX-License-Identifier: Apache-2.0
#include "rooftile/codegen/cuda/value_text.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "rooftile/lanes/value_rules.h"

namespace rooftile::codegen::cuda {
namespace {

using lanes::Fn;
using lanes::Ty;
using lanes::Val;
using lanes::ValKind;
using lanes::ValNode;

enum class Kind : uint8_t { F, S, U, I };

bool matches(Kind kind, Ty type) {
  switch (kind) {
    case Kind::F:
      return type == Ty::kF32;
    case Kind::S:
      return lanes::is_signed(type);
    case Kind::U:
      return lanes::is_integer(type) && !lanes::is_signed(type);
    case Kind::I:
      return lanes::is_integer(type);
  }
  return false;
}

// A row of pure_text.def.
struct PureText {
  Fn fn;
  Kind kind;
  std::string_view name, operands, ptx, body;
};
constexpr std::array kPureTexts = {
#define RT_PURE_CALL(fn, kind, name) PureText{Fn::fn, Kind::kind, name, "", "", ""},
#define RT_PURE_PTX(fn, kind, name, operands, ptx) \
  PureText{Fn::fn, Kind::kind, name, operands, ptx, ""},
#define RT_PURE_CXX(fn, kind, name, operands, body) \
  PureText{Fn::fn, Kind::kind, name, operands, "", body},
#include "rooftile/codegen/cuda/pure_text.def"
#undef RT_PURE_CALL
#undef RT_PURE_PTX
#undef RT_PURE_CXX
};

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string out(text);
  for (size_t at = out.find(from); at != std::string::npos; at = out.find(from, at + to.size()))
    out.replace(at, from.size(), to);
  return out;
}

std::string int_text(const ValNode& node) {
  switch (node.type) {
    case Ty::kPred:
      return node.integer != 0 ? "true" : "false";
    case Ty::kU32:
      // Masks and packed fields are read in hexadecimal, sizes and offsets in decimal.
      return node.integer >= 1 << 24 ? fmt::format("{:#x}u", node.integer)
                                     : fmt::format("{}u", node.integer);
    case Ty::kU64:
      return node.integer >> 24 != 0 ? fmt::format("{:#x}ull", static_cast<uint64_t>(node.integer))
                                     : fmt::format("{}ull", node.integer);
    case Ty::kI64:
      // The most negative number has no literal.
      if (node.integer == INT64_MIN) return "(-9223372036854775807ll - 1)";
      return fmt::format("{}ll", node.integer);
    default:
      if (node.integer == INT32_MIN) return "(-2147483647 - 1)";
      return fmt::format("{}", node.integer);
  }
}

std::string float_literal(double number) {
  if (std::isnan(number)) return "__int_as_float(0x7fffffff)";
  if (std::isinf(number))
    return number < 0 ? "__int_as_float(0xff800000)" : "__int_as_float(0x7f800000)";
  return lanes::float_text(number);
}

bool is_fn(const Val& v, Fn f) { return v->kind == ValKind::kFn && v->fn == f; }

// The addends of a sum.
void collect_addends(const Val& v, std::vector<Val>& out) {
  if (!is_fn(v, Fn::kAdd)) return out.push_back(v);
  for (const Val& arg : v->args) collect_addends(arg, out);
}

// v / 16 for what is visibly a multiple of 16; absent for the rest.
Val sixteenth(const Val& v) {
  if (v->kind == ValKind::kInt && v->integer % 16 == 0)
    return lanes::int_val(v.type(), v->integer / 16);
  if (v->kind != ValKind::kFn || v->args.size() != 2 || v->args[1]->kind != ValKind::kInt)
    return {};
  const int64_t c = v->args[1]->integer;
  if (v->fn == Fn::kMul && c % 16 == 0) return v->args[0] * lanes::int_val(v.type(), c / 16);
  if (v->fn == Fn::kShl && c >= 4)
    return lanes::fn(Fn::kShl, {v->args[0], Val(static_cast<int>(c) - 4)});
  return {};
}

// address / 16 with the division only where it has to be: the steps of an unrolled loop then add
// constants to one common value, which ptxas cannot find out by itself.
Val in_sixteens(const Val& address) {
  std::vector<Val> addends;
  collect_addends(address, addends);
  Val unknown, sum;
  for (const Val& addend : addends) {
    Val& into = sixteenth(addend).present() ? sum : unknown;
    const Val term = sixteenth(addend).present() ? sixteenth(addend) : addend;
    into = into.present() ? into + term : term;
  }
  if (!unknown.present()) return sum;
  const Val whole = lanes::fn(Fn::kShr, {unknown, Val(4)});
  return sum.present() ? whole + sum : whole;
}

}  // namespace

namespace {

using NameSet = std::set<std::string, std::less<>>;

bool mentions(const Val& v, const NameSet& names) {
  if (!v.present()) return false;
  if ((v->kind == ValKind::kVar || v->kind == ValKind::kElem) && names.contains(v->name))
    return true;
  for (const Val& arg : v->args)
    if (mentions(arg, names)) return true;
  return false;
}

// One pass; true if a name was added.
bool add_data_registers(const lanes::Body& body, NameSet& out) {
  bool grew = false;
  for (const lanes::Stmt& stmt : body) {
    if (stmt.kind == lanes::StmtKind::kInstr)
      for (const lanes::RegRef& ref : stmt.instr.results) grew |= out.insert(ref.name).second;
    if (stmt.kind == lanes::StmtKind::kDecl && mentions(stmt.value, out))
      grew |= out.insert(stmt.name).second;
    if (stmt.kind == lanes::StmtKind::kAssign && mentions(stmt.value, out))
      grew |= out.insert(stmt.target.name).second;
    const bool counted = stmt.kind == lanes::StmtKind::kFor &&
                         (mentions(stmt.begin, out) || mentions(stmt.end, out));
    if (counted) grew |= out.insert(stmt.name).second;
    grew |= add_data_registers(stmt.body, out);
    grew |= add_data_registers(stmt.orelse, out);
  }
  return grew;
}

}  // namespace

NameSet data_registers(const lanes::Body& body) {
  NameSet out;
  while (add_data_registers(body, out)) {
  }
  return out;
}

const std::string& Names::give(const std::string& key, std::string text) {
  const auto it = names_.find(key);
  if (it != names_.end()) return it->second;
  for (char& c : text)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  while (!taken_.insert(text).second) text += "_";
  return names_[key] = text;
}

const std::string& Names::operator()(const std::string& name) { return give(name, name); }
const std::string& Names::own(const std::string& name) { return give("@" + name, name); }

std::set<std::string, std::less<>> Names::given() const {
  std::set<std::string, std::less<>> out;
  for (const auto& [name, text] : names_) out.insert(text);
  return out;
}

std::string ValueText::special_name(lanes::Special special) {
  constexpr std::array<const char*, 10> kNames = {"thread_id", "lane_id",     "warp_id", "cta_x",
                                                  "cta_y",     "cta_z",       "grid_x",  "grid_y",
                                                  "grid_z",    "cluster_rank"};
  return kNames[static_cast<size_t>(special)];
}

std::string ValueText::operator()(const Val& value, int outer) {
  const ValNode& node = *value;
  switch (node.kind) {
    case ValKind::kInt: {
      const std::string text = int_text(node);
      return text[0] == '-' && outer > 0 ? "(" + text + ")" : text;
    }
    case ValKind::kFloat: {
      const std::string text = float_literal(node.number);
      return text[0] == '-' && outer > 0 ? "(" + text + ")" : text;
    }
    case ValKind::kVar:
    case ValKind::kParam:
      return names_(node.name);
    case ValKind::kElem:
      return names_(node.name) + "[" + (*this)(node.args[0]) + "]";
    case ValKind::kSpecial:
      specials_.insert(node.special);
      return names_.own(special_name(node.special));
    case ValKind::kShared:
      shared_.insert(node.name);
      return names_(node.name);
    case ValKind::kFn:
      return fn_text(node, outer);
  }
  return "";
}

std::string ValueText::call(const std::string& name, const std::vector<Val>& args) {
  std::string out = name + "(";
  for (size_t i = 0; i < args.size(); ++i) out += (i == 0 ? "" : ", ") + (*this)(args[i]);
  return out + ")";
}

bool ValueText::wraps(const ValNode& node) const {
  const bool overflows =
      node.fn == Fn::kAdd || node.fn == Fn::kSub || node.fn == Fn::kMul || node.fn == Fn::kNeg;
  if (!overflows || !lanes::is_signed(node.type)) return false;
  for (const Val& arg : node.args)
    if (mentions(arg, data_)) return true;
  return false;
}

std::string ValueText::fn_text(const ValNode& node, int outer) {
  const std::vector<Val>& args = node.args;
  const int unary = lanes::kUnaryPrecedence;
  if (wraps(node)) return pure(node);
  switch (node.fn) {
    case Fn::kNeg:
      return "-" + (*this)(args[0], unary + 1);
    case Fn::kLogicalNot:
      return "!" + (*this)(args[0], unary);
    case Fn::kCast:
      return cast_text(node, outer);
    case Fn::kBits:
      return bits_text(node);
    case Fn::kMatrixDesc:
      return descriptor(node);
    case Fn::kSelect: {
      const std::string text = fmt::format("{} ? {} : {}", (*this)(args[0], 3), (*this)(args[1], 3),
                                           (*this)(args[2], 2));
      return outer > 2 ? "(" + text + ")" : text;
    }
    default:
      break;
  }
  const lanes::Infix* op = lanes::infix(node.fn);
  if (op == nullptr) return pure(node);
  const lanes::OperandPrecedence inner = lanes::operand_precedence(*op);
  const std::string text = fmt::format("{} {} {}", (*this)(args[0], inner.left), op->symbol,
                                       (*this)(args[1], inner.right));
  return outer > op->precedence ? "(" + text + ")" : text;
}

std::string ValueText::pure(const ValNode& node) {
  const Ty type = node.args[0].type();
  for (const PureText& row : kPureTexts) {
    if (row.fn != node.fn || !matches(row.kind, type)) continue;
    if (row.operands.empty()) return call(std::string(row.name), node.args);
    Helper helper;
    helper.name = std::string(row.name);
    helper.operands = parse_operands(replaced(row.operands, "$T", type_text(type)));
    helper.ptx = std::string(row.ptx);
    const Ty wide = lanes::size_bytes(type) == 8 ? Ty::kU64 : Ty::kU32;
    helper.body = replaced(replaced(row.body, "$T", type_text(type)), "$U", type_text(wide));
    helper.pure = true;
    return call(prelude_.use(helper), node.args);
  }
  // verify admits no operation on a type that no row is for; a test walks them all.
  return "";
}

std::string ValueText::cast_text(const ValNode& node, int outer) {
  const Val& from = node.args[0];
  if (from.type() == Ty::kF32) {
    // Saturating; NaN gives 0, in 64 bits only with help.
    switch (node.type) {
      case Ty::kI32:
        return call("__float2int_rz", node.args);
      case Ty::kU32:
        return call("__float2uint_rz", node.args);
      default: {
        const bool is_signed = node.type == Ty::kI64;
        Helper helper;
        helper.name = is_signed ? "to_i64" : "to_u64";
        helper.operands =
            parse_operands(is_signed ? "result i64 r, float a" : "result u64 r, float a");
        helper.body = fmt::format("  return a != a ? 0 : {}(a);\n",
                                  is_signed ? "__float2ll_rz" : "__float2ull_rz");
        return call(prelude_.use(helper), node.args);
      }
    }
  }
  const std::string text =
      fmt::format("({}){}", type_text(node.type), (*this)(from, lanes::kUnaryPrecedence));
  return outer > lanes::kUnaryPrecedence ? "(" + text + ")" : text;
}

std::string ValueText::bits_text(const ValNode& node) {
  const Ty from = node.args[0].type();
  if (from == Ty::kF32)
    return call(node.type == Ty::kI32 ? "__float_as_int" : "__float_as_uint", node.args);
  if (node.type == Ty::kF32)
    return call(from == Ty::kI32 ? "__int_as_float" : "__uint_as_float", node.args);
  return fmt::format("({}){}", type_text(node.type),
                     (*this)(node.args[0], lanes::kUnaryPrecedence));
}

// Words of the descriptor: address and leading offset; stride offset and mode. In units of 16
// bytes.
std::string ValueText::descriptor(const ValNode& node) {
  constexpr std::array<int, 4> kModes = {0, 3, 2, 1};  // by Swizzle: none, 32, 64, 128 bytes
  const Val mode = node.args[3];
  const int code = kModes[static_cast<size_t>(mode->integer & 3)];
  const Val low = in_sixteens(node.args[0]) +
                  lanes::fn(Fn::kShl, {lanes::fn(Fn::kShr, {node.args[1], Val(4)}), Val(16)});
  const Val high = lanes::fn(Fn::kShr, {node.args[2], Val(4)}) +
                   lanes::int_val(Ty::kU32, static_cast<int64_t>(code) << 30);
  Helper helper;
  helper.name = "matrix_desc";
  helper.operands = parse_operands("result u64 r, u32 low, u32 high");
  helper.ptx = "mov.b64 $r, {$low, $high};";
  helper.pure = true;
  return call(prelude_.use(helper), {low, high});
}

std::string ValueText::address(const lanes::GlobalRef& global) {
  Val offset = lanes::int_val(Ty::kI64, 0);
  for (size_t d = 0; d < global.index.size(); ++d) {
    const std::string stride = fmt::format("{}.s{}", global.tensor, d);
    Val term = lanes::cast(Ty::kI64, global.index[d]);
    for (const lanes::ScalarUse& s : program_.scalars)
      if (s.name == stride) term = term * lanes::param(Ty::kI64, stride);
    offset = offset + term;
  }
  const std::string base = names_(global.tensor);
  return offset.is_int(0) ? base : base + " + " + (*this)(offset, 13);
}

std::string ValueText::reg(const lanes::RegRef& ref) {
  const std::string& name = names_(ref.name);
  return ref.first.present() ? name + "[" + (*this)(ref.first) + "]" : name;
}

std::string ValueText::pointer(const lanes::RegRef& ref) {
  const std::string& name = names_(ref.name);
  if (!ref.first.present()) return "&" + name;
  return ref.first.is_int(0) ? name : name + " + " + (*this)(ref.first, 13);
}

}  // namespace rooftile::codegen::cuda
