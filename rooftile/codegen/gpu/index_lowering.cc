// SPDX-License-Identifier: Apache-2.0
// Expr to lanes. Operators map one to one; what needs care is width (products of two sizes may
// leave 32 bits), elements of index tensors (loaded once a scope, and only where the expression
// would read them), and truth values.
#include "rooftile/codegen/gpu/index_lowering.h"

#include "rooftile/codegen/gpu/element_ops.h"

namespace rooftile::codegen {
namespace {

using lanes::Fn;
using lanes::Ty;
using lanes::Val;
using K = ExprKind;

Val as_number(const Val& value) {
  return value.type() == Ty::kPred ? lanes::select(value, 1, 0) : value;
}

Val as_condition(const Val& value) {
  return value.type() == Ty::kPred ? value
                                   : lanes::fn(Fn::kNe, {value, lanes::int_val(value.type(), 0)});
}

// Both as numbers of one type: i64 if either is.
void unify(Val& a, Val& b) {
  a = as_number(a);
  b = as_number(b);
  if (a.type() == b.type()) return;
  a = lanes::cast(Ty::kI64, a);
  b = lanes::cast(Ty::kI64, b);
}

Fn function_of(K kind) {
  switch (kind) {
    case K::kAdd:
      return Fn::kAdd;
    case K::kSub:
      return Fn::kSub;
    case K::kMul:
      return Fn::kMul;
    case K::kFloorDiv:
      return Fn::kFloorDiv;
    case K::kMod:
      return Fn::kFloorMod;
    case K::kMin:
      return Fn::kMin;
    case K::kMax:
      return Fn::kMax;
    case K::kLt:
      return Fn::kLt;
    case K::kLe:
      return Fn::kLe;
    case K::kEq:
      return Fn::kEq;
    default:
      return Fn::kNe;
  }
}

bool is_literal(const Val& value) { return value->kind == lanes::ValKind::kInt; }

// min(x, c) and x mod c lie within c whatever x is: the result of a narrowing operation with a
// 32-bit constant fits 32 bits again.
bool narrows(K kind, const Val& b) {
  return kind == K::kMod && is_literal(b) && b->integer > 0 && b->integer <= INT32_MAX;
}

Val binary(K kind, Val a, Val b) {
  unify(a, b);
  if (kind == K::kMul && a.type() == Ty::kI32 && !is_literal(a) && !is_literal(b)) {
    a = lanes::cast(Ty::kI64, a);
    b = lanes::cast(Ty::kI64, b);
  }
  const Val result = lanes::fn(function_of(kind), {a, b});
  return result.type() == Ty::kI64 && narrows(kind, b) ? lanes::cast(Ty::kI32, result) : result;
}

Val constant(int64_t value) {
  return lanes::int_val(value >= INT32_MIN && value <= INT32_MAX ? Ty::kI32 : Ty::kI64, value);
}

}  // namespace

std::string IndexLowering::unique(const std::string& hint) {
  int& count = names_[hint];
  std::string name = hint;
  if (count > 0) {
    do name = hint + "_" + std::to_string(count++);
    while (names_.count(name) != 0);
    names_[name] = 1;
  } else {
    count = 1;
  }
  return name;
}

Val IndexLowering::number(const Expr& expr, lanes::Body& out) {
  return as_number(lower(expr, out));
}

Val IndexLowering::condition(const Expr& expr, lanes::Body& out) {
  return as_condition(lower(expr, out));
}

Val IndexLowering::named(const std::string& hint, const Expr& expr, lanes::Body& out) {
  const Val value = number(expr, out);
  if (is_literal(value)) return value;
  const std::string name = unique(hint);
  out.push_back(lanes::decl(value.type(), name, value));
  return lanes::var(value.type(), name);
}

Val IndexLowering::named_condition(const std::string& hint, const Expr& expr, lanes::Body& out) {
  const Val value = condition(expr, out);
  if (is_literal(value)) return value;
  const std::string key = lanes::str(value);
  for (const auto& scope : loaded_)
    if (const auto found = scope.find(key); found != scope.end()) return found->second;
  const std::string name = unique(hint);
  out.push_back(lanes::decl(value.type(), name, value));
  const Val kept = lanes::var(value.type(), name);
  if (!loaded_.empty()) loaded_.back()[key] = kept;
  return kept;
}

Val IndexLowering::lower(const Expr& expr, lanes::Body& out) {
  const std::vector<Expr>& args = expr.args();
  switch (expr.kind()) {
    case K::kConst:
      return constant(expr.value());
    case K::kSym: {
      const auto found = bound_.find(expr.name());
      if (found != bound_.end()) return found->second;
      // Dims are 32 bits wide, integer attributes 64.
      const bool attribute = program_->scalar(expr.name()) != nullptr;
      return lanes::param(attribute ? Ty::kI64 : Ty::kI32, expr.name());
    }
    case K::kIndexLoad:
      return load(expr, out);
    case K::kNot:
      return !condition(args[0], out);
    case K::kAnd:
    case K::kOr: {
      // The second operand is read only where the first does not decide.
      const Val first = condition(args[0], out);
      const Val second = guarded(expr.kind() == K::kAnd ? first : !first, args[1], out);
      return expr.kind() == K::kAnd ? first && as_condition(second) : first || as_condition(second);
    }
    case K::kSelect: {
      const Val chosen = condition(args[0], out);
      Val then = guarded(chosen, args[1], out), otherwise = guarded(!chosen, args[2], out);
      unify(then, otherwise);
      return lanes::select(chosen, then, otherwise);
    }
    default: {
      const Val a = lower(args[0], out), b = lower(args[1], out);
      return binary(expr.kind(), a, b);
    }
  }
}

Val IndexLowering::guarded(const Val& guard, const Expr& expr, lanes::Body& out) {
  const Val before = guard_;
  guard_ = guard_.present() ? guard_ && guard : guard;
  const Val value = lower(expr, out);
  guard_ = before;
  return value;
}

Val IndexLowering::load(const Expr& expr, lanes::Body& out) {
  // A value loaded under a condition is not there for who reads it without; one loaded without is
  // there for all.
  const std::string always = expr.str();
  const std::string key = always + (guard_.present() ? " if " + lanes::str(guard_) : "");
  for (const auto& scope : loaded_)
    for (const std::string& known : {always, key})
      if (const auto found = scope.find(known); found != scope.end()) return found->second;

  lanes::Instr load;
  load.ins = lanes::Ins::kLdGlobal;
  load.guard = guard_;
  load.global.tensor = expr.name();
  load.dtype = program_->tensor(expr.name())->dtype;
  for (const Expr& index : expr.args()) load.global.index.push_back(number(index, out));
  const Ty type = raw_registers(load.dtype, 1).type;
  const std::string name = unique(expr.name() + "_at");
  out.push_back(lanes::decl(type, name, guard_.present() ? lanes::int_val(type, 0) : Val()));
  load.results = {{name, Val(), 1}};
  out.push_back(lanes::instr(std::move(load)));

  Val value = unpack_element(program_->tensor(expr.name())->dtype, name, 1, 0);
  if (value.type() == Ty::kU32) value = lanes::cast(Ty::kI64, value);
  if (!loaded_.empty()) loaded_.back()[key] = value;
  return value;
}

}  // namespace rooftile::codegen
