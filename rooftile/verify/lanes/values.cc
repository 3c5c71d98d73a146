// SPDX-License-Identifier: Apache-2.0
// What an expression of L2 is worth where the walk stands.
#include <algorithm>

#include "rooftile/lanes/value_rules.h"
#include "rooftile/verify/lanes/walk.h"

namespace rooftile::verify {

using lanes::Fn;
using lanes::Special;
using lanes::Ty;
using lanes::Val;
using lanes::ValKind;

Expr Walk::fresh(Ty type, const std::string& hint, bool data) {
  return symbols().add(
      hint, {.kind = SymbolKind::kLoaded, .range = type_range(type), .facts = {}, .data = data});
}

Answer Walk::ask(const Expr& goal) {
  if (guards_.empty()) return questions_.prove(goal);
  questions_.push();
  for (const Expr& guard : guards_) questions_.assume(guard);
  Answer answer = questions_.prove(goal);
  questions_.pop();
  return answer;
}

// A counterexample is there to be run: of the least sizes at which it still is one.
Answer Walk::smaller(const Expr& goal, Answer answer) {
  constexpr int64_t kSizes[] = {256, 4096, 65536, int64_t{1} << 40};
  std::set<std::string> dims;
  for (const lanes::TensorUse& tensor : program_.tensors)
    for (const Expr& extent : tensor.shape) collect_symbols(extent, dims);
  dims.erase("SMS");
  for (const int64_t most : kSizes) {
    questions_.push();
    for (const std::string& dim : dims)
      questions_.assume(Expr(1) <= Expr::sym(dim) && Expr::sym(dim) <= Expr(most));
    Answer small = ask(goal);
    questions_.pop();
    if (small.verdict == Verdict::kRefuted) return small;
  }
  return answer;
}

bool Walk::require(Kind kind, const Expr& goal, const std::string& claim) {
  Answer answer = ask(goal);
  if (answer.verdict == Verdict::kRefuted) answer = smaller(goal, std::move(answer));
  bool estimate = false;
  if (answer.verdict == Verdict::kRefuted) {
    estimate = symbols().is_estimate(goal);
    // Facts over other symbols can only make the place unreachable; those over what is asked are in
    // the model with it.
    for (const Expr& fact : questions_.facts()) estimate = estimate || symbols().is_estimate(fact);
  }
  report_.note(kind, *stmt_, answer, claim, estimate);
  return answer.verdict == Verdict::kProved;
}

// `e` is the exact result of an operation on registers of `type`.
Expr Walk::fitted(Ty type, const Expr& e) {
  const Interval all = type_range(type), now = symbols().range(e);
  if (now.within(all)) {
    report_.proved(Kind::kLaneOverflow, *stmt_, Prover::kInterval);
    return e;
  }
  if (symbols().is_data(e)) return fresh(type, "number");
  if (now.lo < all.lo)
    require(Kind::kLaneOverflow, Expr(all.lo) <= e, Expr(all.lo).str() + " <= " + e.str());
  if (now.hi > all.hi)
    require(Kind::kLaneOverflow, e <= Expr(all.hi), e.str() + " <= " + Expr(all.hi).str());
  return e;
}

Expr Walk::value(const Val& v) {
  if (v->kind != ValKind::kFn) return compute(v);
  // What was asked under fewer conditions holds under more.
  if (const auto it = memo_.find(&*v); it != memo_.end()) {
    const std::vector<Expr>& had = it->second.guards;
    if (had.size() <= guards_.size() &&
        std::equal(had.begin(), had.end(), guards_.begin(),
                   [](const Expr& a, const Expr& b) { return a.node() == b.node(); }))
      return it->second.value;
  }
  Expr out = compute(v);
  memo_[&*v] = {out, guards_};
  return out;
}

Expr Walk::compute(const Val& v) {
  switch (v->kind) {
    case ValKind::kInt:
      return v->integer;
    case ValKind::kFloat:
      return fresh(v.type(), "number");
    case ValKind::kVar: {
      const auto it = registers_.find(v->name);
      return it != registers_.end() ? it->second : fresh(v.type(), v->name);
    }
    case ValKind::kElem: {
      if (tracked_.count(v->name) != 0) {
        const Expr index = value(v->args[0]);
        if (index.is_const())
          if (const auto it = registers_.find(v->name + "[" + index.str() + "]");
              it != registers_.end())
            return it->second;
      }
      return fresh(v.type(), v->name);
    }
    case ValKind::kSpecial:
      return special(v->special);
    case ValKind::kParam:
      return v.type() == Ty::kF32 ? fresh(Ty::kF32, v->name) : Expr::sym(v->name);
    case ValKind::kShared:
      return Expr::sym("shared." + v->name);
    case ValKind::kFn:
      return function(v);
  }
  return fresh(v.type(), "number");
}

Expr Walk::special(Special which) {
  const Expr tid = Expr::sym("tid");
  switch (which) {
    case Special::kTid:
      return tid;
    case Special::kLane:
      return tid % 32;
    case Special::kWarp:
      return tid / 32;
    case Special::kCtaX:
      return Expr::sym("cta.x");
    case Special::kCtaY:
      return Expr::sym("cta.y");
    case Special::kCtaZ:
      return Expr::sym("cta.z");
    case Special::kGridX:
      return program_.grid_x;
    case Special::kGridY:
      return program_.grid_y;
    case Special::kGridZ:
      return program_.grid_z;
    case Special::kClusterRank:
      return Expr::sym("cta.x") % Expr(program_.cluster);
  }
  return 0;
}

namespace {

bool power_of_two(int64_t v) { return v > 0 && (v & (v - 1)) == 0; }

// x / a / b as x / (a b).
Expr divided(const Expr& x, int64_t by) {
  if (x.kind() == ExprKind::kFloorDiv && x.args()[1].is_const() && x.args()[1].value() > 0 &&
      x.args()[1].value() <= (int64_t{1} << 31) && by <= (int64_t{1} << 31))
    return x.args()[0] / Expr(x.args()[1].value() * by);
  return x / Expr(by);
}

}  // namespace

Expr Walk::function(const Val& v) {
  const std::vector<Val>& args = v->args;
  const Ty type = v.type();
  // Comparisons of floats, and functions of them, are numbers.
  for (const Val& arg : args)
    if (arg.type() == Ty::kF32) {
      scan(v);
      return fresh(type, "number");
    }
  const auto at = [&](size_t i) { return value(args[i]); };
  switch (v->fn) {
    case Fn::kAdd:
      return fitted(type, Decoding::simplified(at(0) + at(1)));
    case Fn::kSub:
      return fitted(type, Decoding::simplified(at(0) - at(1)));
    case Fn::kMul:
      return fitted(type, at(0) * at(1));
    case Fn::kNeg:
      return fitted(type, Expr(0) - at(0));
    case Fn::kAbs: {
      const Expr x = at(0);
      return fitted(type, max(x, Expr(0) - x));
    }
    case Fn::kFloorDiv:
      return quotient(v, false);
    case Fn::kFloorMod:
      return quotient(v, true);
    case Fn::kMin:
      return min(at(0), at(1));
    case Fn::kMax:
      return max(at(0), at(1));
    case Fn::kShl:
    case Fn::kShr: {
      const Expr x = at(0), by = at(1);
      const int bits = 8 * lanes::size_bytes(type);
      if (!by.is_const() || by.value() < 0 || by.value() >= bits || by.value() > 61)
        return fresh(type, "number");
      if (v->fn == Fn::kShr) {
        const Expr divisor = int64_t{1} << by.value();
        if (!x.is_const())
          for (const Expr& fact : questions_.decoding().quotient(x, divisor))
            questions_.assume(fact, FactKind::kLemma);
        return divided(x, divisor.value());
      }
      return fitted(type, x * Expr(int64_t{1} << by.value()));
    }
    case Fn::kAnd:
    case Fn::kOr:
    case Fn::kXor:
      return bitwise(v);
    case Fn::kLt:
      return at(0) < at(1);
    case Fn::kLe:
      return at(0) <= at(1);
    case Fn::kEq:
      return at(0) == at(1);
    case Fn::kNe:
      return at(0) != at(1);
    case Fn::kLogicalNot:
      return !at(0);
    case Fn::kLogicalAnd: {
      const Expr first = at(0);
      guards_.push_back(first);
      const Expr second = at(1);
      guards_.pop_back();
      return first && second;
    }
    case Fn::kLogicalOr: {
      const Expr first = at(0);
      guards_.push_back(!first);
      const Expr second = at(1);
      guards_.pop_back();
      return first || second;
    }
    case Fn::kSelect:
      return chosen(v);
    case Fn::kCast:
      return cast(v);
    case Fn::kBits:
      return symbols().range(at(0)).within(type_range(type)) ? at(0) : fresh(type, "number");
    default:
      for (const Val& arg : args)
        if (lanes::is_integer(arg.type())) value(arg);
      return fresh(type, "number");
  }
}

// Each arm counts only where it is taken.
Expr Walk::chosen(const Val& v) {
  const Expr condition = value(v->args[0]);
  const Interval known = symbols().range(condition);
  if (known.lo == 1) return value(v->args[1]);
  if (known.hi == 0) return value(v->args[2]);
  guards_.push_back(condition);
  const Expr then = value(v->args[1]);
  guards_.back() = !condition;
  const Expr otherwise = value(v->args[2]);
  guards_.pop_back();
  return then.same_as(otherwise) ? then : select(condition, then, otherwise);
}

Expr Walk::bitwise(const Val& v) {
  const Expr a = value(v->args[0]), b = value(v->args[1]);
  if (a.is_const() && b.is_const()) {
    const int64_t x = a.value(), y = b.value();
    return v->fn == Fn::kAnd ? x & y : v->fn == Fn::kOr ? x | y : x ^ y;
  }
  // Low bits are a remainder, of negative numbers too.
  if (v->fn == Fn::kAnd && b.is_const() && b.value() >= 0 && power_of_two(b.value() + 1))
    return a % Expr(b.value() + 1);
  const Interval range = bits_below(symbols().range(a), symbols().range(b));
  if (!range.within(type_range(v.type())) || symbols().is_data(a) || symbols().is_data(b))
    return fresh(v.type(), "number");
  const Symbol::Bits bits = v->fn == Fn::kAnd  ? Symbol::Bits::kAnd
                            : v->fn == Fn::kOr ? Symbol::Bits::kOr
                                               : Symbol::Bits::kXor;
  return symbols().add("bits", {.kind = SymbolKind::kDefined,
                                .range = range,
                                .facts = {},
                                .data = false,
                                .bits = bits,
                                .a = a,
                                .b = b});
}

// Division by 0 gives 0 on this machine, and nothing in Expr.
Expr Walk::quotient(const Val& v, bool remainder) {
  const Expr a = value(v->args[0]), b = value(v->args[1]);
  const auto divide = [&](const Expr& by) {
    if (remainder) return a % by;
    return by.is_const() && by.value() > 0 ? divided(a, by.value()) : a / by;
  };
  if (b.is_const(0)) return 0;
  const Interval divisor = symbols().range(b);
  if (divisor.lo <= 0) {
    if (symbols().is_data(b)) return fresh(v.type(), "number");
    if (divisor.hi >= 0 && ask(b >= Expr(1)).verdict != Verdict::kProved)
      return select(b == Expr(0), 0, divide(b));
  }
  const Expr out = divide(b);
  // Under the condition of a select the divisor may be positive, and 0 beside it.
  const bool positive = b.is_const()     ? b.value() >= 1
                        : divisor.hi < 0 ? false
                                         : guards_.empty() || questions_.holds(b >= Expr(1));
  if (positive && !out.is_const()) {
    Decoding& decoding = questions_.decoding();
    for (const Expr& fact : remainder ? decoding.remainder(a, b) : decoding.quotient(a, b))
      questions_.assume(fact, FactKind::kLemma);
    if (!b.is_const() && symbols().range(a).lo >= 0)
      questions_.assume(Expr(0) <= out && out <= a, FactKind::kLemma);
  }
  // INT_MIN / -1 alone leaves the type.
  return divisor.lo >= 0 || remainder ? out : fitted(v.type(), out);
}

Expr Walk::cast(const Val& v) {
  const Val& from = v->args[0];
  const Ty type = v.type();
  if (type == Ty::kF32) {
    scan(from);
    return fresh(type, "number");
  }
  const Expr e = value(from);
  if (type == Ty::kPred) return e != Expr(0);
  return fitted(type, e);
}

// Indices that decide numbers: the conditions and integers inside an expression of floats.
void Walk::scan(const Val& v) {
  if (v->kind != ValKind::kFn) return;
  for (const Val& arg : v->args) {
    if (arg->kind != ValKind::kFn) continue;
    if (arg.type() == Ty::kI32 || arg.type() == Ty::kI64)
      value(arg);
    else
      scan(arg);
  }
}

}  // namespace rooftile::verify
