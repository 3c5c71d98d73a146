// SPDX-License-Identifier: Apache-2.0
// fn(): builds an expression and folds what is already known, so that lowered texts stay readable
// and the copies of an unrolled loop have constant indices. Integers wrap, so they may be
// reassociated; floats never are.
#include <bit>
#include <cmath>
#include <optional>

#include "rooftile/lanes/lanes.h"
#include "rooftile/lanes/value_rules.h"

namespace rooftile::lanes {
namespace {

bool is_const(const Val& v) { return v->kind == ValKind::kInt || v->kind == ValKind::kFloat; }
bool is_int(const Val& v) { return v->kind == ValKind::kInt; }
bool is_fn(const Val& v, Fn f) { return v->kind == ValKind::kFn && v->fn == f; }
int width_bits(Ty type) { return 8 * size_bytes(type); }

// a < b for integers of `type`.
bool less(Ty type, int64_t a, int64_t b) {
  return is_signed(type) ? a < b : static_cast<uint64_t>(a) < static_cast<uint64_t>(b);
}

// The quotient rounded down, and its remainder; 0 for a zero divisor.
int64_t floor_quotient(Ty type, int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (!is_signed(type))
    return static_cast<int64_t>(static_cast<uint64_t>(a) / static_cast<uint64_t>(b));
  if (b == -1) return static_cast<int64_t>(0 - static_cast<uint64_t>(a));
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

int64_t wrapping_mul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
int64_t wrapping_add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
int64_t wrapping_sub(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}

std::optional<int64_t> integer_value(Fn f, Ty type, int64_t a, int64_t b) {
  switch (f) {
    case Fn::kAdd:
      return wrapping_add(a, b);
    case Fn::kSub:
      return wrapping_sub(a, b);
    case Fn::kMul:
      return wrapping_mul(a, b);
    case Fn::kFloorDiv:
      return floor_quotient(type, a, b);
    case Fn::kFloorMod:
      return b == 0 ? 0 : wrapping_sub(a, wrapping_mul(floor_quotient(type, a, b), b));
    case Fn::kMin:
      return less(type, b, a) ? b : a;
    case Fn::kMax:
      return less(type, a, b) ? b : a;
    case Fn::kNeg:
      return wrapping_sub(0, a);
    case Fn::kAbs:
      return less(type, a, 0) ? wrapping_sub(0, a) : a;
    case Fn::kAnd:
    case Fn::kLogicalAnd:
      return a & b;
    case Fn::kOr:
    case Fn::kLogicalOr:
      return a | b;
    case Fn::kXor:
      return a ^ b;
    case Fn::kLogicalNot:
      return a == 0;
    case Fn::kShl:
      return static_cast<int64_t>(static_cast<uint64_t>(a) << (b & (width_bits(type) - 1)));
    case Fn::kShr: {
      const int64_t by = b & (width_bits(type) - 1);
      return is_signed(type) ? a >> by : static_cast<int64_t>(static_cast<uint64_t>(a) >> by);
    }
    case Fn::kLt:
      return less(type, a, b);
    case Fn::kLe:
      return !less(type, b, a);
    case Fn::kEq:
      return a == b;
    case Fn::kNe:
      return a != b;
    default:
      return std::nullopt;
  }
}

// f over float constants; only what every machine computes alike.
Val fold_floats(Fn f, const std::vector<Val>& args) {
  const float a = static_cast<float>(args[0]->number);
  const float b = args.size() > 1 ? static_cast<float>(args[1]->number) : 0;
  switch (f) {
    case Fn::kAdd:
      return f32(a + b);
    case Fn::kSub:
      return f32(a - b);
    case Fn::kMul:
      return f32(a * b);
    case Fn::kNeg:
      return f32(-a);
    case Fn::kLt:
      return pred(a < b);
    case Fn::kLe:
      return pred(a <= b);
    case Fn::kEq:
      return pred(a == b);
    case Fn::kNe:
      return pred(a != b);
    default:
      return {};
  }
}

Val fold_bits(Ty type, const Val& a) {
  if (is_int(a) && is_integer(type)) return int_val(type, a->integer);
  if (is_int(a) && type == Ty::kF32) {
    const float number = std::bit_cast<float>(static_cast<uint32_t>(a->integer));
    return std::isnan(number) ? Val() : f32(number);  // a NaN's payload would be lost
  }
  if (a->kind == ValKind::kFloat && is_integer(type) && !std::isnan(a->number))
    return int_val(type, std::bit_cast<uint32_t>(static_cast<float>(a->number)));
  return {};
}

// The value of f over constants; absent if it is left to the machine.
Val fold_constants(Fn f, Ty type, const std::vector<Val>& args) {
  for (const Val& arg : args)
    if (!is_const(arg)) return {};
  if (f == Fn::kBits) return fold_bits(type, args[0]);
  if (f == Fn::kCast) {
    if (!is_int(args[0])) return {};
    if (is_integer(type)) return int_val(type, args[0]->integer);
    if (type != Ty::kF32) return {};
    return args[0].type() == Ty::kU64
               ? f32(static_cast<float>(static_cast<uint64_t>(args[0]->integer)))
               : f32(static_cast<float>(args[0]->integer));
  }
  if (args.size() > 2) return {};
  if (args[0]->kind == ValKind::kFloat) return fold_floats(f, args);
  const int64_t b = args.size() > 1 ? args[1]->integer : 0;
  const std::optional<int64_t> value = integer_value(f, args[0].type(), args[0]->integer, b);
  return value ? int_val(type, *value) : Val();
}

// (x + c1) + c2 -> x + (c1 + c2), and so for products. Only where the sum needs no wrapping, which
// would be right and unreadable.
Val fold_chain(Fn f, const Val& a, const Val& c) {
  if (!is_fn(a, f) || !is_int(a->args[1])) return {};
  const Ty type = a.type();
  const int64_t joined = *integer_value(f, type, a->args[1]->integer, c->integer);
  if (wrap(type, joined) != joined) return {};
  return fn(f, {a->args[0], int_val(type, joined)});
}

bool power_of_two(int64_t value) { return value > 0 && (value & (value - 1)) == 0; }

// Integer operations with a constant on the right.
Val fold_right_constant(Fn f, const Val& a, const Val& c) {
  const Ty type = a.type();
  const int64_t value = c->integer;
  switch (f) {
    case Fn::kAdd:
      return value == 0 ? a : fold_chain(f, a, c);
    case Fn::kMul:
      return value == 0 ? c : value == 1 ? a : fold_chain(f, a, c);
    case Fn::kSub:
      if (value == 0) return a;
      // x + 5 - 2 -> x + 3
      if (is_fn(a, Fn::kAdd) && is_int(a->args[1]) && a->args[1]->integer >= value && value > 0)
        return a->args[0] + int_val(type, a->args[1]->integer - value);
      return {};
    case Fn::kOr:
    case Fn::kXor:
    case Fn::kShl:
    case Fn::kShr:
      return value == 0 ? a : Val();
    case Fn::kAnd:
      return value == 0 ? c : value == wrap(type, -1) ? a : Val();
    case Fn::kFloorDiv:
      if (value == 1) return a;
      if (power_of_two(value))
        return fn(Fn::kShr, {a, Val(std::countr_zero(static_cast<uint64_t>(value)))});
      return {};
    case Fn::kFloorMod:
      if (value == 1) return int_val(type, 0);
      if (power_of_two(value)) return fn(Fn::kAnd, {a, int_val(type, value - 1)});
      return {};
    case Fn::kLogicalAnd:
      return value != 0 ? a : c;
    case Fn::kLogicalOr:
      return value != 0 ? c : a;
    default:
      return {};
  }
}

Val fold_left_constant(Fn f, const Val& c, const Val& b) {
  const int64_t value = c->integer;
  switch (f) {
    case Fn::kAdd:
    case Fn::kOr:
    case Fn::kXor:
      return value == 0 ? b : Val();
    case Fn::kMul:
      return value == 0 ? c : value == 1 ? b : Val();
    case Fn::kAnd:
    case Fn::kShl:
    case Fn::kShr:
    case Fn::kFloorDiv:
    case Fn::kFloorMod:
      return value == 0 ? c : Val();
    case Fn::kLogicalAnd:
      return value != 0 ? b : c;
    case Fn::kLogicalOr:
      return value != 0 ? c : b;
    default:
      return {};
  }
}

Val fold_not(const Val& a) {
  if (is_fn(a, Fn::kLogicalNot)) return a->args[0];
  if (is_fn(a, Fn::kEq)) return fn(Fn::kNe, a->args);
  if (is_fn(a, Fn::kNe)) return fn(Fn::kEq, a->args);
  const bool ordered = (is_fn(a, Fn::kLt) || is_fn(a, Fn::kLe)) && is_integer(a->args[0].type());
  if (!ordered) return {};  // a NaN is neither below nor above
  return fn(a->fn == Fn::kLt ? Fn::kLe : Fn::kLt, {a->args[1], a->args[0]});
}

Val fold_identity(Fn f, Ty type, const std::vector<Val>& args) {
  if (f == Fn::kCast || f == Fn::kBits) return args[0].type() == type ? args[0] : Val();
  if (f == Fn::kLogicalNot) return fold_not(args[0]);
  if (f == Fn::kSelect && is_int(args[0])) return args[0]->integer != 0 ? args[1] : args[2];
  if (args.size() != 2) return {};
  if (is_int(args[1])) return fold_right_constant(f, args[0], args[1]);
  if (is_int(args[0])) return fold_left_constant(f, args[0], args[1]);
  if (f == Fn::kMul && args[1]->kind == ValKind::kFloat && args[1]->number == 1) return args[0];
  if (f == Fn::kMul && args[0]->kind == ValKind::kFloat && args[0]->number == 1) return args[1];
  return {};
}

// A plain `1` beside a u32 means 1u: integer constants take the type of the other operand.
void adopt_types(Fn f, Ty type, std::vector<Val>& args) {
  if (f == Fn::kCast || f == Fn::kBits) return;
  if (f == Fn::kMatrixDesc) {
    for (Val& arg : args)
      if (is_int(arg)) arg = int_val(Ty::kU32, arg->integer);
    return;
  }
  const size_t first = f == Fn::kSelect ? 1 : 0;
  const size_t last = f == Fn::kShl || f == Fn::kShr ? 1 : args.size();
  Ty want = type;
  if (type == Ty::kPred) {
    want = args[0].type();
    for (const Val& arg : args)
      if (!is_int(arg)) want = arg.type();
  }
  if (!is_integer(want)) return;
  for (size_t i = first; i < last; ++i)
    if (is_int(args[i]) && is_integer(args[i].type())) args[i] = int_val(want, args[i]->integer);
}

}  // namespace

Val fn(Fn f, Ty type, std::vector<Val> args) {
  // Ill-formed expressions are kept as they are, for verify to report.
  if (operands_present(f, args)) adopt_types(f, type, args);
  if (type_error(f, type, args).empty()) {
    if (Val folded = fold_constants(f, type, args); folded.present()) return folded;
    if (Val folded = fold_identity(f, type, args); folded.present()) return folded;
  }
  ValNode node;
  node.kind = ValKind::kFn;
  node.type = type;
  node.fn = f;
  node.args = std::move(args);
  return Val(std::make_shared<const ValNode>(std::move(node)));
}

}  // namespace rooftile::lanes
