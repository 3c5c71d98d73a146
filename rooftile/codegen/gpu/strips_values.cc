// SPDX-License-Identifier: Apache-2.0
// Values by demand: one element, or a run along the last axis, of any value at a point of its tile.
//
// What was computed at a point is remembered in the scope where it was written, under the
// coordinates that matter to it: a row's scale is computed once for a vector, a scalar once for
// the kernel.
#include <algorithm>

#include "rooftile/codegen/gpu/strips.h"

namespace rooftile::codegen {

using ir::Node;
using ir::Op;
using lanes::Fn;
using lanes::Ty;
using lanes::Val;

namespace {

const Val& pick(const Vec& v, size_t element) { return v.size() == 1 ? v[0] : v[element]; }

// i32 + i32, or i64 if either is.
Val sum_of(Val a, Val b) {
  if (a.type() != b.type()) {
    a = lanes::cast(Ty::kI64, a);
    b = lanes::cast(Ty::kI64, b);
  }
  return a + b;
}

}  // namespace

Point Strips::clipped(const Node& n, const Point& at) const {
  Point out = at;
  if (n.shape.empty()) {
    out.at.clear();
    out.width = 1;
    return out;
  }
  for (size_t axis = 0; axis < n.shape.size(); ++axis)
    if (n.shape[axis].is_const(1)) out.at[axis] = Val(0);
  if (n.shape.back().is_const(1)) out.width = 1;
  return out;
}

Point Strips::point_of(const std::vector<Expr>& shape, const std::vector<Val>& coordinates) const {
  Point point;
  size_t next = 0;
  for (const Expr& extent : shape)
    point.at.push_back(extent.is_const(1) ? Val(0) : coordinates[next++]);
  return point;
}

std::string Strips::memo_key(ValueId id, const Point& at) const {
  std::string key = std::to_string(id);
  for (const Val& coordinate : at.at) key += "," + lanes::str(coordinate);
  return at.width == 1 ? key : key + "x" + std::to_string(at.width);
}

const Vec* Strips::remembered(const std::string& key) const {
  for (const auto& scope : memo_)
    if (const auto found = scope.find(key); found != scope.end()) return &found->second;
  return nullptr;
}

void Strips::remember(ValueId id, const Point& at, Vec value) {
  memo_.back()[memo_key(id, clipped(node(id), at))] = std::move(value);
}

Val Strips::scalar(ValueId id) {
  Point point;
  point.at.assign(node(id).shape.size(), Val(0));
  return eval(id, point)[0];
}

// What an element costs if it is computed from what is at hand.
int Strips::cost_of(ValueId id) const {
  const Node& n = node(id);
  if (fragments_.count(id) != 0 || is_scalar(n)) return 0;
  int cost = n.op == Op::kElementwise ? ir::ew_info(n.ew).weight : n.op == Op::kLoad ? 2 : 0;
  if (n.op == Op::kElementwise || n.op == Op::kSelect || n.op == Op::kCast)
    for (ValueId operand : n.operands) cost += cost_of(operand);
  return n.op == Op::kPhilox ? 60 : cost;
}

bool Strips::worth_a_name(const Node& n) const {
  if (n.op == Op::kFill || n.op == Op::kScalar) return false;
  if (is_scalar(n)) return true;
  const bool heavy = n.op == Op::kElementwise && ir::ew_info(n.ew).weight >= 4;
  return heavy || uses_.count(n.id) > 1 || n.op == Op::kFromIndex;
}

Vec Strips::eval(ValueId id, const Point& at) {
  const Node& n = node(id);
  const Point point = clipped(n, at);
  const std::string key = memo_key(id, point);
  if (const Vec* known = remembered(key)) return *known;
  Vec value = compute(n, point);
  if (worth_a_name(n)) {
    const std::string hint = hint_of(n);
    for (size_t e = 0; e < value.size(); ++e)
      value[e] = name_value(value.size() == 1 ? hint : hint + std::to_string(e), value[e]);
  }
  memo_.back()[key] = value;
  return value;
}

Vec Strips::compute(const Node& n, const Point& at) {
  if (const auto found = fragments_.find(n.id); found != fragments_.end()) {
    const Fragment& f = found->second;
    const Val& slot = f.row ? at.row_slot : at.slot;
    if (slot.present()) return {lanes::elem(f.type, f.name, slot)};
    fail(n, "a value in registers is read at another place than its own", hint_of(n),
         "element-wise use, sums along rows, or products");
    return {element_fill(n.dtype, 0)};
  }
  switch (n.op) {
    case Op::kFill:
      return {element_fill(n.dtype, n.number)};
    case Op::kScalar:
      return {lanes::param(Ty::kF32, n.name)};
    case Op::kFromIndex:
      return {lanes::cast(Ty::kI64, number(n.expr))};
    case Op::kIota:
      return iota(n, at);
    case Op::kLoad:
      return load(n, at);
    case Op::kElementwise:
    case Op::kSelect:
    case Op::kCast:
      return map_operands(n, at);
    case Op::kTranspose:
      return transposed(n, at);
    case Op::kPhilox:
      return philox(n, at);
    case Op::kCarried:
    case Op::kResult: {
      const auto loop = loop_registers_.find(n.operands[0]);
      if (loop != loop_registers_.end() && loop->second[static_cast<size_t>(n.axis)].present())
        return {loop->second[static_cast<size_t>(n.axis)]};
      fail(n, "a carried tile has no place", hint_of(n), "extents bounded by tile parameters");
      return {element_fill(n.dtype, 0)};
    }
    case Op::kReduce:
      return serial_reduce(n, at);
    case Op::kScan:
      return scan(n, at, eval(n.operands[0], at));
    default:
      fail(n, "a tile that is carried or multiplied stands where tiles have no bounded size",
           hint_of(n), "a phase with products, and extents bounded by tile parameters");
      return {element_fill(n.dtype, 0)};
  }
}

Vec Strips::map_operands(const Node& n, const Point& at) {
  std::vector<Vec> operands;
  size_t width = 1;
  for (ValueId id : n.operands) {
    operands.push_back(eval(id, at));
    width = std::max(width, operands.back().size());
  }
  const bool fast = std::find(plan_.fast.begin(), plan_.fast.end(), n.label) != plan_.fast.end() &&
                    !n.label.empty();
  Vec out;
  for (size_t e = 0; e < width; ++e) {
    if (n.op == Op::kCast)
      out.push_back(element_cast(node(n.operands[0]).dtype, n.dtype, pick(operands[0], e)));
    else if (n.op == Op::kSelect)
      out.push_back(
          lanes::select(pick(operands[0], e), pick(operands[1], e), pick(operands[2], e)));
    else
      out.push_back(element_op(n.ew, n.dtype,
                               operands.size() == 1
                                   ? Vec{pick(operands[0], e)}
                                   : Vec{pick(operands[0], e), pick(operands[1], e)},
                               fast));
  }
  return out;
}

Vec Strips::iota(const Node& n, const Point& at) {
  const auto axis = static_cast<size_t>(n.axis);
  const Val first = sum_of(number(n.expr), at.at[axis]);
  const bool along = axis + 1 == at.at.size();
  Vec out;
  for (int e = 0; e < (along ? at.width : 1); ++e)
    out.push_back(lanes::cast(register_type(n.dtype), sum_of(first, Val(e))));
  return out;
}

Vec Strips::transposed(const Node& n, const Point& at) {
  Vec out;
  for (int e = 0; e < at.width; ++e) {
    Point point = at;
    point.width = 1;
    point.at = {at.at[1] + Val(e), at.at[0]};
    point.slot = point.row_slot = Val();
    out.push_back(eval(n.operands[0], point)[0]);
  }
  return out;
}

// Ten rounds of Philox4x32; the first word (ir/philox.h).
Vec Strips::philox(const Node& n, const Point& at) {
  const auto u32 = [](int64_t value) { return lanes::int_val(Ty::kU32, value); };
  const auto low = [](const Val& v) { return lanes::cast(Ty::kU32, v); };
  const auto high = [&](const Val& v) {
    // Of a narrower counter, the sign.
    return lanes::cast(Ty::kU32, lanes::fn(Fn::kShr, {lanes::cast(Ty::kI64, v), 32}));
  };
  const auto exor = [](const Val& a, const Val& b) { return lanes::fn(Fn::kXor, {a, b}); };
  const Vec counters = eval(n.operands[0], at);
  const Val seed = scalar(n.operands[1]), offset = scalar(n.operands[2]);
  Vec out;
  for (const Val& counter : counters) {
    Val c[4], k[2];
    const Val initial[4] = {low(counter), high(counter), low(offset), high(offset)};
    for (int i = 0; i < 4; ++i) c[i] = declare(Ty::kU32, "c" + std::to_string(i), initial[i]);
    for (int i = 0; i < 2; ++i)
      k[i] = declare(Ty::kU32, "k" + std::to_string(i), i == 0 ? low(seed) : high(seed));
    const std::string round = index_.unique("round");
    lanes::Body body = scoped([&] {
      const auto mul_high = [&](int64_t m, const Val& v) {
        return name_value("high", lanes::fn(Fn::kMulHi, {u32(m), v}));
      };
      const Val h0 = mul_high(0xD2511F53, c[0]), l0 = name_value("low", u32(0xD2511F53) * c[0]);
      const Val h1 = mul_high(0xCD9E8D57, c[2]), l1 = name_value("low", u32(0xCD9E8D57) * c[2]);
      set(c[0], exor(exor(h1, c[1]), k[0]));
      set(c[2], exor(exor(h0, c[3]), k[1]));
      set(c[1], l1);
      set(c[3], l0);
      set(k[0], k[0] + u32(0x9E3779B9));
      set(k[1], k[1] + u32(0xBB67AE85));
    });
    emit(lanes::for_(round, 0, 10, 1, std::move(body), lanes::Unroll::kYes));
    out.push_back(c[0]);
  }
  return out;
}

// One thread walks the reduced axis for the elements that it needs.
Vec Strips::serial_reduce(const Node& n, const Point& at) {
  const ValueId operand = n.operands[0];
  const Node& from = node(operand);
  const bool position = n.reduce == ir::ReduceKind::kArgMax;
  const auto axis = static_cast<size_t>(n.axis);
  if (from.shape[axis].is_const(1))
    return position ? Vec{element_fill(n.dtype, 0)} : eval(operand, at);
  std::vector<Reduction> sums;
  for (int e = 0; e < at.width; ++e) sums.push_back(start(n.id));
  const Val length = size(from.shape[axis]);
  std::set<ValueId> loads;
  reach_loads(operand, &loads);
  for (ValueId id : loads) prepare(node(id));
  const std::string name = index_.unique("along");
  lanes::Body body = scoped([&] {
    Point point = at;
    point.at[axis] = lanes::var(Ty::kI32, name);
    point.slot = point.row_slot = Val();
    const Vec values = eval(operand, point);
    for (size_t e = 0; e < sums.size(); ++e)
      accumulate(&sums[e], pick(values, e), point.at[axis], Val());
  });
  emit(lanes::for_(name, 0, length, 1, std::move(body), lanes::Unroll::kNo, false));
  Vec out;
  for (const Reduction& sum : sums) out.push_back(position ? sum.position : sum.value);
  return out;
}

}  // namespace rooftile::codegen
