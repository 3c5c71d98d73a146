// SPDX-License-Identifier: Apache-2.0
// Values of L2: constants, registers, parameters, and the operators that build expressions. What
// is folded while building is in fold.cc.
#include <array>
#include <cmath>

#include "rooftile/lanes/lanes.h"
#include "rooftile/lanes/value_rules.h"

namespace rooftile::lanes {
namespace {

constexpr std::array kFns = {
#define RT_LANE_FN(e, text, arity, meaning) FnInfo{Fn::e, text, arity},
#include "rooftile/lanes/pure_ops.def"
#undef RT_LANE_FN
};

Val make(ValNode node) { return Val(std::make_shared<const ValNode>(std::move(node))); }

}  // namespace

std::string_view ty_name(Ty type) {
  constexpr std::array<std::string_view, 6> kNames = {"pred", "i32", "u32", "i64", "u64", "f32"};
  return kNames[static_cast<size_t>(type)];
}

const FnInfo& fn_info(Fn fn) { return kFns[static_cast<size_t>(fn)]; }

int64_t wrap(Ty type, int64_t value) {
  switch (type) {
    case Ty::kPred:
      return value != 0;
    case Ty::kI32:
      return static_cast<int32_t>(static_cast<uint32_t>(value));
    case Ty::kU32:
      return static_cast<uint32_t>(value);
    default:
      return value;
  }
}

Val::Val(int value) : Val(int_val(Ty::kI32, value)) {}

Val int_val(Ty type, int64_t value) {
  ValNode node;
  node.kind = ValKind::kInt;
  node.type = type;
  node.integer = wrap(type, value);
  return make(std::move(node));
}

Val f32(double value) {
  ValNode node;
  node.kind = ValKind::kFloat;
  node.type = Ty::kF32;
  node.number = static_cast<float>(value);
  return make(std::move(node));
}

Val pred(bool value) { return int_val(Ty::kPred, value); }

Val var(Ty type, std::string name) {
  ValNode node;
  node.kind = ValKind::kVar;
  node.type = type;
  node.name = std::move(name);
  return make(std::move(node));
}

Val elem(Ty type, std::string array, Val index) {
  ValNode node;
  node.kind = ValKind::kElem;
  node.type = type;
  node.name = std::move(array);
  node.args = {std::move(index)};
  return make(std::move(node));
}

Val special(Special s) {
  ValNode node;
  node.kind = ValKind::kSpecial;
  node.type = Ty::kI32;
  node.special = s;
  return make(std::move(node));
}

Val param(Ty type, std::string name) {
  ValNode node;
  node.kind = ValKind::kParam;
  node.type = type;
  node.name = std::move(name);
  return make(std::move(node));
}

Val shared(std::string name) {
  ValNode node;
  node.kind = ValKind::kShared;
  node.type = Ty::kU32;
  node.name = std::move(name);
  return make(std::move(node));
}

Val fn(Fn f, std::vector<Val> args) {
  const Ty type = result_type(f, args);
  return fn(f, type, std::move(args));
}

Val operator+(const Val& a, const Val& b) { return fn(Fn::kAdd, {a, b}); }
Val operator-(const Val& a, const Val& b) { return fn(Fn::kSub, {a, b}); }
Val operator*(const Val& a, const Val& b) { return fn(Fn::kMul, {a, b}); }
Val operator<(const Val& a, const Val& b) { return fn(Fn::kLt, {a, b}); }
Val operator<=(const Val& a, const Val& b) { return fn(Fn::kLe, {a, b}); }
Val operator&&(const Val& a, const Val& b) { return fn(Fn::kLogicalAnd, {a, b}); }
Val operator||(const Val& a, const Val& b) { return fn(Fn::kLogicalOr, {a, b}); }
Val operator!(const Val& a) { return fn(Fn::kLogicalNot, {a}); }
Val equal(const Val& a, const Val& b) { return fn(Fn::kEq, {a, b}); }
Val select(const Val& cond, const Val& then, const Val& otherwise) {
  return fn(Fn::kSelect, {cond, then, otherwise});
}
Val floor_div(const Val& a, const Val& b) { return fn(Fn::kFloorDiv, {a, b}); }
Val floor_mod(const Val& a, const Val& b) { return fn(Fn::kFloorMod, {a, b}); }
Val min(const Val& a, const Val& b) { return fn(Fn::kMin, {a, b}); }
Val max(const Val& a, const Val& b) { return fn(Fn::kMax, {a, b}); }
Val cast(Ty type, const Val& a) { return fn(Fn::kCast, type, {a}); }

}  // namespace rooftile::lanes
