// SPDX-License-Identifier: Apache-2.0
// What functions make of terms: numbers lane by lane; sums as long as they stay linear; comparisons
// that bounds decide; else an atom, spelled the same however it was written.
#include <algorithm>
#include <bit>
#include <numeric>

#include "rooftile/lanes/value_rules.h"
#include "rooftile/verify/protocol/terms.h"

namespace rooftile::verify::protocol {
namespace {

using lanes::Fn;
using lanes::Ty;

int64_t floor_quotient(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

uint64_t matrix_desc(const int64_t* args) {
  const auto field = [](int64_t bytes) { return static_cast<uint64_t>((bytes & 0x3ffff) >> 4); };
  return field(args[0]) | field(args[1]) << 16 | field(args[2]) << 32 |
         static_cast<uint64_t>((4 - args[3]) & 3) << 62;
}

}  // namespace

bool integer_fn(Fn f, Ty type, Ty from, const int64_t* args, int64_t* out) {
  const int64_t a = args[0], b = args[1];
  const auto u = [](int64_t x) { return static_cast<uint64_t>(x); };
  const int width = lanes::size_bytes(from) * 8;
  int64_t r = 0;
  switch (f) {
    case Fn::kAdd:
      r = static_cast<int64_t>(u(a) + u(b));
      break;
    case Fn::kSub:
      r = static_cast<int64_t>(u(a) - u(b));
      break;
    case Fn::kMul:
      r = static_cast<int64_t>(u(a) * u(b));
      break;
    case Fn::kFloorDiv:
      r = b == 0 ? 0 : floor_quotient(a, b);
      break;
    case Fn::kFloorMod:
      r = b == 0 ? 0 : a - floor_quotient(a, b) * b;
      break;
    case Fn::kMin:
      r = std::min(a, b);
      break;
    case Fn::kMax:
      r = std::max(a, b);
      break;
    case Fn::kNeg:
      r = static_cast<int64_t>(-u(a));
      break;
    case Fn::kAbs:
      r = a < 0 ? static_cast<int64_t>(-u(a)) : a;
      break;
    case Fn::kAnd:
      r = a & b;
      break;
    case Fn::kOr:
      r = a | b;
      break;
    case Fn::kXor:
      r = a ^ b;
      break;
    case Fn::kShl:
      r = static_cast<int64_t>(u(a) << (u(b) & u(width - 1)));
      break;
    case Fn::kShr:
      r = a >> (u(b) & u(width - 1));
      break;
    case Fn::kMulHi:
      r = static_cast<int64_t>((u(a) & 0xffffffff) * (u(b) & 0xffffffff) >> 32);
      break;
    case Fn::kLt:
      r = a < b;
      break;
    case Fn::kLe:
      r = a <= b;
      break;
    case Fn::kEq:
      r = a == b;
      break;
    case Fn::kNe:
      r = a != b;
      break;
    case Fn::kLogicalAnd:
      r = a != 0 && b != 0;
      break;
    case Fn::kLogicalOr:
      r = a != 0 || b != 0;
      break;
    case Fn::kLogicalNot:
      r = a == 0;
      break;
    case Fn::kSelect:
      r = a != 0 ? b : args[2];
      break;
    case Fn::kCast:
      r = a;
      break;
    case Fn::kBits:
      r = a;
      break;
    case Fn::kMatrixDesc:
      r = static_cast<int64_t>(matrix_desc(args));
      break;
    default:
      return false;
  }
  *out = lanes::wrap(type, r);
  return true;
}

ValueId Terms::add(ValueId a, ValueId b, int64_t by) {
  if (by < INT32_MIN || by > INT32_MAX) return added(a, b, by);
  const Call call{~0u, {a, b, static_cast<ValueId>(by), 0}};
  if (const auto it = calls_.find(call); it != calls_.end()) return it->second;
  const ValueId out = added(a, b, by);
  calls_.emplace(call, out);
  return out;
}

ValueId Terms::added(ValueId a, ValueId b, int64_t by) {
  const Value &x = value(a), &y = value(b);
  Value out;
  out.unknown = x.unknown | y.unknown;
  if (out.unknown != 0 && (x.sum != kNoSum || y.sum != kNoSum)) return kUnknownValue;
  for (size_t l = 0; l < kLanes; ++l)
    if ((out.unknown >> l & 1) == 0) out.lane[l] = x.lane[l] + by * y.lane[l];
  Coefficients terms;
  const Coefficients &p = sum(x.sum), &q = sum(y.sum);
  for (size_t i = 0, j = 0; i < p.size() || j < q.size();) {
    if (j == q.size() || (i < p.size() && p[i].first < q[j].first)) {
      terms.push_back(p[i++]);
    } else if (i == p.size() || q[j].first < p[i].first) {
      terms.emplace_back(q[j].first, by * q[j].second);
      ++j;
    } else {
      terms.emplace_back(p[i].first, p[i].second + by * q[j].second);
      ++i, ++j;
    }
  }
  out.sum = sum_of(std::move(terms));
  return intern(out);
}

ValueId Terms::scaled(ValueId a, int64_t by) {
  if (by == 0 && value(a).unknown == 0) return constant(0);
  Value out = value(a);
  for (size_t l = 0; l < kLanes; ++l) out.lane[l] *= by;
  Coefficients terms = sum(out.sum);
  for (auto& [atom, coefficient] : terms) coefficient *= by;
  out.sum = sum_of(std::move(terms));
  return intern(out);
}

ValueId Terms::merged(uint32_t mask, ValueId then, ValueId otherwise) {
  if (mask == kAllLanes || then == otherwise || (otherwise == kNothing && mask != 0)) return then;
  if (mask == 0) return otherwise;
  const Value &x = value(then), &y = value(otherwise);
  if (x.sum != y.sum && !(x.sum == kNoSum && y.sum == kNoSum)) return kUnknownValue;
  Value out;
  out.sum = x.sum;
  out.unknown = (x.unknown & mask) | (y.unknown & ~mask);
  if (out.unknown != 0 && out.sum != kNoSum) return kUnknownValue;
  for (size_t l = 0; l < kLanes; ++l) out.lane[l] = (mask >> l & 1) != 0 ? x.lane[l] : y.lane[l];
  return intern(out);
}

ValueId Terms::fn(Fn f, Ty type, Ty from, const std::vector<ValueId>& args) {
  Call call{static_cast<uint32_t>(f) << 16 | static_cast<uint32_t>(type) << 8 |
                static_cast<uint32_t>(from),
            {}};
  std::copy(args.begin(), args.end(), call.args.begin());
  if (const auto it = calls_.find(call); it != calls_.end()) return it->second;
  const ValueId out = computed(f, type, from, args);
  calls_.emplace(call, out);
  return out;
}

ValueId Terms::computed(Fn f, Ty type, Ty from, const std::vector<ValueId>& args) {
  if (f == Fn::kSelect) return chosen(args[0], args[1], args[2], type);
  if (f == Fn::kLogicalAnd || f == Fn::kLogicalOr) return logical(f, args[0], args[1]);
  if (f == Fn::kLogicalNot) return add(constant(1), args[0], -1);
  if (from == Ty::kF32 || type == Ty::kF32) return fn_atom(f, type, args);
  const bool concrete =
      std::all_of(args.begin(), args.end(), [&](ValueId v) { return value(v).sum == kNoSum; });
  if (concrete) return fn_concrete(f, type, from, args);
  for (const ValueId v : args)
    if (value(v).unknown != 0) return kUnknownValue;
  return fn_symbolic(f, type, args);
}

ValueId Terms::fn_concrete(Fn f, Ty type, Ty from, const std::vector<ValueId>& args) {
  Value out;
  for (const ValueId v : args) out.unknown |= value(v).unknown;
  for (size_t l = 0; l < kLanes; ++l) {
    if ((out.unknown >> l & 1) != 0) continue;
    int64_t numbers[4] = {};
    for (size_t i = 0; i < args.size() && i < 4; ++i) numbers[i] = value(args[i]).lane[l];
    if (!integer_fn(f, type, from, numbers, &out.lane[l])) return kUnknownValue;
  }
  return intern(out);
}

ValueId Terms::fn_symbolic(Fn f, Ty type, const std::vector<ValueId>& args) {
  const auto number = [&](size_t i) -> const int64_t* {
    return known(args[i]) && uniform(args[i]) ? &value(args[i]).lane[0] : nullptr;
  };
  switch (f) {
    case Fn::kAdd:
      return add(args[0], args[1]);
    case Fn::kSub:
      return add(args[0], args[1], -1);
    case Fn::kNeg:
      return scaled(args[0], -1);
    case Fn::kMul:
      return product(args[0], args[1], type);
    case Fn::kShl:
      if (const int64_t* by = number(1); by != nullptr && *by >= 0 && *by < 32)
        return scaled(args[0], int64_t{1} << *by);
      break;
    case Fn::kShr:
      if (const int64_t* by = number(1); by != nullptr && *by >= 0 && *by < 32)
        return quotient(args[0], int64_t{1} << *by, type);
      break;
    case Fn::kFloorDiv:
      if (const int64_t* by = number(1); by != nullptr && *by > 0)
        return quotient(args[0], *by, type);
      break;
    case Fn::kFloorMod:
      if (const int64_t* by = number(1); by != nullptr && *by > 0)
        return remainder(args[0], *by, type);
      break;
    case Fn::kAnd:
      if (const int64_t* mask = number(1);
          mask != nullptr && *mask > 0 && std::has_single_bit(static_cast<uint64_t>(*mask) + 1))
        return remainder(args[0], *mask + 1, type);
      break;
    case Fn::kMin:
    case Fn::kMax:
      return extreme(f == Fn::kMin, args[0], args[1], type);
    case Fn::kLt:
    case Fn::kLe:
    case Fn::kEq:
    case Fn::kNe:
      return compared(f, args[0], args[1]);
    case Fn::kCast:
    case Fn::kBits:
      return args[0];
    default:
      break;
  }
  return fn_atom(f, type, args);
}

ValueId Terms::fn_atom(Fn f, Ty type, const std::vector<ValueId>& args) {
  for (const ValueId v : args)
    if (!uniform(v)) return kUnknownValue;
  Atom a;
  a.kind = AtomKind::kFn;
  a.fn = f;
  a.type = type;
  a.args = args;
  const bool commutes = f == Fn::kMul || f == Fn::kMin || f == Fn::kMax || f == Fn::kAnd ||
                        f == Fn::kOr || f == Fn::kXor || f == Fn::kLogicalAnd;
  if (commutes) std::sort(a.args.begin(), a.args.end());
  return of_atom(intern_atom(std::move(a)));
}

ValueId Terms::product(ValueId a, ValueId b, Ty type) {
  for (const auto& [x, y] : {std::pair(a, b), std::pair(b, a)})
    if (known(x) && uniform(x)) return scaled(y, value(x).lane[0]);
  // No index wraps (lanes.overflow): a product is the same number in 32 bits and in 64.
  return fn_atom(Fn::kMul, type == Ty::kI32 ? Ty::kI64 : type, {a, b});
}

// (q d + r + c) div d = q + (r + c) div d
ValueId Terms::quotient(ValueId a, int64_t d, Ty type) {
  if (d == 1) return a;
  const Value& v = value(a);
  Coefficients whole, rest;
  for (const auto& [atom, by] : sum(v.sum)) {
    if (by % d == 0)
      whole.emplace_back(atom, by / d);
    else
      rest.emplace_back(atom, by);
  }
  Value out;
  out.sum = sum_of(whole);
  if (rest.empty()) {
    for (size_t l = 0; l < kLanes; ++l) out.lane[l] = floor_quotient(v.lane[l], d);
    return intern(out);
  }
  if (!uniform(a)) return kUnknownValue;
  const int64_t c = v.lane[0], q = floor_quotient(c, d);
  const ValueId inner = of_sum(sum_of(rest), c - q * d);
  const Interval b = bounds(inner);
  if (b.lo > -kOpen && b.hi < kOpen && floor_quotient(b.lo, d) == floor_quotient(b.hi, d))
    return of_sum(out.sum, q + floor_quotient(b.lo, d));
  return add(of_sum(out.sum, q), fn_atom(Fn::kFloorDiv, type, {inner, constant(d)}));
}

ValueId Terms::remainder(ValueId a, int64_t d, Ty type) {
  if (d == 1) return constant(0);
  const Value& v = value(a);
  Coefficients rest;
  for (const auto& [atom, by] : sum(v.sum))
    if (by % d != 0) rest.emplace_back(atom, by);
  const auto mod = [&](int64_t x) { return x - floor_quotient(x, d) * d; };
  if (rest.empty()) {
    Value out;
    for (size_t l = 0; l < kLanes; ++l) out.lane[l] = mod(v.lane[l]);
    return intern(out);
  }
  if (!uniform(a)) return kUnknownValue;
  for (auto& [atom, by] : rest) by = mod(by);
  const ValueId inner = of_sum(sum_of(rest), mod(v.lane[0]));
  const Interval b = bounds(inner);
  if (b.lo == b.hi && b.hi < kOpen) return constant(mod(b.lo));
  if (b.lo >= 0 && b.hi < d) return inner;
  return fn_atom(Fn::kFloorMod, type, {inner, constant(d)});
}

ValueId Terms::extreme(bool least, ValueId a, ValueId b, Ty type) {
  const ValueId diff = add(a, b, -1);
  uint32_t first = 0, second = 0;
  for (int l = 0; l < kLanes; ++l) {
    const Interval d = bounds(diff, l);
    if (least ? d.hi <= 0 : d.lo >= 0) first |= 1u << l;
    if (least ? d.lo >= 0 : d.hi <= 0) second |= 1u << l;
  }
  if (first == kAllLanes) return a;
  if (second == kAllLanes) return b;
  if (uniform(a) && uniform(b)) return fn_atom(least ? Fn::kMin : Fn::kMax, type, {a, b});
  return kUnknownValue;
}

// v >= 0, of a uniform v that bounds do not decide: divided by what all coefficients share; one of
// v >= 0 and -v - 1 >= 0 is the atom, the other its negation.
ValueId Terms::positive(ValueId v) {
  Value out;
  uint32_t open = 0;
  for (int l = 0; l < kLanes; ++l) {
    const Interval b = bounds(v, l);
    if (b.lo >= 0)
      out.lane[static_cast<size_t>(l)] = 1;
    else if (b.hi >= 0)
      open |= 1u << l;
  }
  if (open == 0) return intern(out);
  if (!uniform(v)) {
    out.unknown = open;
    return intern(out);
  }
  Coefficients terms = sum(value(v).sum);
  int64_t shared = 0;
  for (const auto& [a, by] : terms) shared = std::gcd(shared, by);
  for (auto& [a, by] : terms) by /= shared;
  int64_t c = floor_quotient(value(v).lane[0], shared);
  const bool flip = terms[0].second < 0;
  if (terms.size() == 1 && atom(terms[0].first).type == Ty::kPred)  // b - 1 >= 0, -b >= 0
    return flip ? add(constant(1), of_atom(terms[0].first), -1) : of_atom(terms[0].first);
  if (flip) {
    for (auto& [a, by] : terms) by = -by;
    c = -c - 1;
  }
  Atom a;
  a.kind = AtomKind::kPositive;
  a.type = Ty::kPred;
  a.args = {of_sum(sum_of(std::move(terms)), c)};
  const ValueId atom = of_atom(intern_atom(std::move(a)));
  return flip ? add(constant(1), atom, -1) : atom;
}

ValueId Terms::zero(ValueId v) {
  Value out;
  uint32_t open = 0;
  for (int l = 0; l < kLanes; ++l) {
    const Interval b = bounds(v, l);
    if (b.lo == 0 && b.hi == 0)
      out.lane[static_cast<size_t>(l)] = 1;
    else if (b.lo <= 0 && b.hi >= 0)
      open |= 1u << l;
  }
  if (open == 0) return intern(out);
  if (!uniform(v)) {
    out.unknown = open;
    return intern(out);
  }
  const Coefficients& terms = sum(value(v).sum);
  const int64_t c = value(v).lane[0];
  if (terms.size() == 1 && atom(terms[0].first).type == Ty::kPred) {  // by * b + c == 0
    if (c == 0) return add(constant(1), of_atom(terms[0].first), -1);
    if (c == -terms[0].second) return of_atom(terms[0].first);
    return constant(0);
  }
  Atom a;
  a.kind = AtomKind::kZero;
  a.type = Ty::kPred;
  a.args = {terms[0].second < 0 ? scaled(v, -1) : v};
  return of_atom(intern_atom(std::move(a)));
}

ValueId Terms::compared(Fn f, ValueId a, ValueId b) {
  if (f == Fn::kEq) return zero(add(a, b, -1));
  if (f == Fn::kNe) return add(constant(1), zero(add(a, b, -1)), -1);
  const ValueId diff = add(b, a, -1);
  return positive(f == Fn::kLt ? add(diff, constant(1), -1) : diff);
}

// a || b is !(!a && !b), so that both are one kind of atom.
ValueId Terms::logical(Fn f, ValueId a, ValueId b) {
  const auto negation = [&](ValueId v) { return add(constant(1), v, -1); };
  if (f == Fn::kLogicalOr) return negation(logical(Fn::kLogicalAnd, negation(a), negation(b)));
  if (is(a, 0) || is(b, 0) || a == negation(b)) return constant(0);
  if (is(a, 1) || a == b) return b;
  if (is(b, 1)) return a;
  const Value &x = value(a), &y = value(b);
  if (x.sum != kNoSum && y.sum != kNoSum && uniform(a) && uniform(b))
    return fn_atom(Fn::kLogicalAnd, Ty::kPred, {a, b});
  Value out;  // where one is false, the other does not matter
  for (size_t l = 0; l < kLanes; ++l) {
    const auto at = [&](const Value& v) -> int {
      if (v.sum != kNoSum || (v.unknown >> l & 1) != 0) return -1;
      return v.lane[l] != 0 ? 1 : 0;
    };
    const int p = at(x), q = at(y);
    if (p == 0 || q == 0) continue;
    if (p == 1 && q == 1)
      out.lane[l] = 1;
    else
      out.unknown |= 1u << l;
  }
  return intern(out);
}

ValueId Terms::chosen(ValueId cond, ValueId then, ValueId otherwise, Ty type) {
  if (then == otherwise) return then;
  const Value& c = value(cond);
  if (c.sum == kNoSum) {
    uint32_t taken = 0;
    for (size_t l = 0; l < kLanes; ++l) taken |= static_cast<uint32_t>(c.lane[l] != 0) << l;
    const ValueId picked = merged(taken, then, otherwise);
    if (c.unknown == 0 || picked == kUnknownValue) return picked;
    if (value(picked).sum != kNoSum) return kUnknownValue;
    Value out = value(picked);  // lanes where both are the same number do not matter
    for (size_t l = 0; l < kLanes; ++l) {
      const bool same = value(then).sum == kNoSum && value(otherwise).sum == kNoSum &&
                        ((value(then).unknown | value(otherwise).unknown) >> l & 1) == 0 &&
                        value(then).lane[l] == value(otherwise).lane[l];
      if ((c.unknown >> l & 1) != 0 && !same) {
        out.unknown |= 1u << l;
        out.lane[l] = 0;
      }
    }
    return intern(out);
  }
  if (type != Ty::kF32 && known(then) && known(otherwise) && uniform(then) && uniform(otherwise)) {
    const int64_t t = value(then).lane[0], o = value(otherwise).lane[0];
    return add(constant(o), scaled(cond, t - o));
  }
  if (value(then).unknown != 0 || value(otherwise).unknown != 0) return kUnknownValue;
  return fn_atom(Fn::kSelect, type, {cond, then, otherwise});
}

}  // namespace rooftile::verify::protocol
