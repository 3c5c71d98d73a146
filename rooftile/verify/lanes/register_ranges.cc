// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/lanes/register_ranges.h"

#include <algorithm>
#include <array>
#include <utility>

#include "rooftile/lanes/value_rules.h"

namespace rooftile::verify {

using lanes::Body;
using lanes::Fn;
using lanes::Stmt;
using lanes::StmtKind;
using lanes::Ty;
using lanes::Val;
using lanes::ValKind;

Interval type_range(Ty type) {
  switch (type) {
    case Ty::kPred:
      return {0, 1};
    case Ty::kI32:
      return {INT32_MIN, INT32_MAX};
    case Ty::kU32:
      return {0, UINT32_MAX};
    case Ty::kI64:
      return {INT64_MIN, INT64_MAX};
    case Ty::kU64:
      return {0, kNoMost};
    default:
      return {};
  }
}

namespace {

// Passes before bounds that still grow jump to the next of these; a ring has a dozen slots.
constexpr int kPatience = 24;
constexpr std::array<int64_t, 6> kSteps = {0, 1, 31, 1023, 65535, INT32_MAX};

Interval widened(const Interval& old, const Interval& now, Ty type) {
  Interval out = now;
  const Interval all = type_range(type);
  if (now.hi > old.hi) {
    const auto* step = std::lower_bound(kSteps.begin(), kSteps.end(), now.hi);
    out.hi = std::min(all.hi, step == kSteps.end() ? all.hi : *step);
  }
  if (now.lo < old.lo) out.lo = all.lo;
  return out;
}

}  // namespace

RegisterRanges::RegisterRanges(const lanes::Program& program,
                               std::function<Interval(const std::string&)> parameter)
    : program_(program), parameter_(std::move(parameter)) {
  for (int pass = 0; visit(program.body, pass >= kPatience); ++pass)
    if (pass > 4 * kPatience) {
      known_.clear();  // no bounds, rather than wrong ones
      break;
    }
}

Interval RegisterRanges::of(const std::string& name, Ty type) const {
  const auto it = known_.find(name);
  return it == known_.end() ? type_range(type) : meet(it->second, type_range(type));
}

bool RegisterRanges::join(const std::string& name, Ty type, const Interval& to, bool widen) {
  const Interval clipped = to.within(type_range(type)) ? to : type_range(type);
  const auto [it, fresh] = known_.emplace(name, clipped);
  if (fresh) return true;
  const Interval both = hull(it->second, clipped);
  if (both == it->second) return false;
  it->second = widen ? widened(it->second, both, type) : both;
  return true;
}

bool RegisterRanges::visit(const Body& body, bool widen) {
  bool changed = false;
  for (const Stmt& stmt : body) {
    switch (stmt.kind) {
      case StmtKind::kDecl:
        if (stmt.count == 0 && stmt.type != Ty::kF32 && stmt.value.present())
          changed |= join(stmt.name, stmt.type, value(stmt.value), widen);
        break;
      case StmtKind::kAssign:
        if (!stmt.target.first.present() && stmt.value.type() != Ty::kF32)
          changed |= join(stmt.target.name, stmt.value.type(), value(stmt.value), widen);
        break;
      case StmtKind::kInstr:
        for (const lanes::RegRef& result : stmt.instr.results)
          if (!result.first.present()) changed |= join(result.name, Ty::kI64, {}, widen);
        break;
      case StmtKind::kFor: {
        const Interval begin = value(stmt.begin), end = value(stmt.end);
        changed |= join(stmt.name, Ty::kI32,
                        {begin.lo, std::max(begin.hi, (end - Interval::point(1)).hi)}, widen);
        break;
      }
      default:
        break;
    }
    changed |= visit(stmt.body, widen);
    changed |= visit(stmt.orelse, widen);
  }
  return changed;
}

// `x == c ? a : b` and `x < c ? a : b`: the arms know more of x.
Interval RegisterRanges::choose(const Val& v) const {
  const Val &condition = v->args[0], &then = v->args[1], &otherwise = v->args[2];
  const auto under = [&](const std::string& name, const Interval& x, const Val& arm) {
    if (x.empty()) return Interval{1, 0};
    const auto before = narrowed_.find(name) == narrowed_.end()
                            ? std::pair(false, Interval())
                            : std::pair(true, narrowed_.at(name));
    narrowed_[name] = x;
    const Interval out = value(arm);
    if (before.first)
      narrowed_[name] = before.second;
    else
      narrowed_.erase(name);
    return out;
  };
  const auto joined = [](const Interval& a, const Interval& b) {
    return a.empty() ? b : b.empty() ? a : hull(a, b);
  };
  if (condition->kind == ValKind::kFn && condition->fn == Fn::kEq &&
      condition->args[0]->kind == ValKind::kVar && condition->args[1]->kind == ValKind::kInt) {
    const std::string& name = condition->args[0]->name;
    const int64_t c = condition->args[1]->integer;
    const Interval x = value(condition->args[0]);
    Interval rest = x;
    if (rest.hi == c && c != INT64_MIN) rest.hi = c - 1;
    if (rest.lo == c && c != INT64_MAX) rest.lo = c + 1;
    return joined(under(name, meet(x, Interval::point(c)), then), under(name, rest, otherwise));
  }
  return joined(value(then), value(otherwise));
}

Interval RegisterRanges::value(const Val& v) const {
  const Interval type = type_range(v.type());
  const auto fitted = [&](const Interval& x) { return x.within(type) ? x : type; };
  const auto at = [&](size_t i) { return value(v->args[i]); };
  switch (v->kind) {
    case ValKind::kInt:
      return Interval::point(v->integer);
    case ValKind::kVar: {
      if (const auto it = narrowed_.find(v->name); it != narrowed_.end()) return it->second;
      const auto it = known_.find(v->name);
      return it == known_.end() ? type : meet(it->second, type);
    }
    case ValKind::kParam:
      return fitted(parameter_(v->name));
    case ValKind::kSpecial:
      switch (v->special) {
        case lanes::Special::kTid:
          return {0, program_.threads - 1};
        case lanes::Special::kLane:
          return {0, 31};
        case lanes::Special::kWarp:
          return {0, (program_.threads - 1) / 32};
        case lanes::Special::kClusterRank:
          return {0, program_.cluster - 1};
        default:
          return {0, INT32_MAX};
      }
    case ValKind::kFn:
      break;
    default:
      return type;
  }
  if (v.type() == Ty::kF32 || v->args[0].type() == Ty::kF32) return type;
  switch (v->fn) {
    case Fn::kAdd:
      return fitted(at(0) + at(1));
    case Fn::kSub:
      return fitted(at(0) - at(1));
    case Fn::kMul:
      return fitted(at(0) * at(1));
    case Fn::kFloorDiv:
      return fitted(floor_div(at(0), at(1)));
    case Fn::kFloorMod:
      return fitted(floor_mod(at(0), at(1)));
    case Fn::kMin: {
      const Interval a = at(0), b = at(1);
      return {std::min(a.lo, b.lo), std::min(a.hi, b.hi)};
    }
    case Fn::kMax: {
      const Interval a = at(0), b = at(1);
      return {std::max(a.lo, b.lo), std::max(a.hi, b.hi)};
    }
    case Fn::kAnd:
    case Fn::kOr:
    case Fn::kXor: {
      const Interval a = at(0), b = at(1);
      if (v->fn == Fn::kAnd && b.lo == b.hi && b.lo >= 0) return {0, b.lo};
      return fitted(bits_below(a, b));
    }
    case Fn::kShr:
      return v->args[1]->kind == ValKind::kInt && v->args[1]->integer < 62
                 ? fitted(floor_div(at(0), Interval::point(int64_t{1} << v->args[1]->integer)))
                 : type;
    case Fn::kShl:
      return v->args[1]->kind == ValKind::kInt && v->args[1]->integer < 62
                 ? fitted(at(0) * Interval::point(int64_t{1} << v->args[1]->integer))
                 : type;
    case Fn::kSelect:
      return choose(v);
    case Fn::kCast:
    case Fn::kBits:
      return fitted(at(0));
    default:
      return type;
  }
}

}  // namespace rooftile::verify
