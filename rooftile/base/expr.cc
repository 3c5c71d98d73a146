// SPDX-License-Identifier: Apache-2.0
// Building, evaluating and substituting integer expressions. The text form is in expr_text.cc.
//
// Expr::make is the only place where nodes are born, so every Expr is simplified: constants are
// folded, a constant operand of + and * stands on the right, and the cheap identities (x + 0, x *
// 1, x / 1, min(x, x), ...) are gone. Two formulas that authors write alike therefore end up
// structurally equal.
#include "rooftile/base/expr.h"

#include <array>
#include <cassert>
#include <utility>

namespace rooftile {
namespace {

using K = ExprKind;

std::optional<int64_t> floor_div(int64_t a, int64_t b) {
  if (b == 0 || (a == INT64_MIN && b == -1)) return std::nullopt;
  return a / b - ((a % b != 0) && ((a < 0) != (b < 0)));
}

std::optional<int64_t> floor_mod(int64_t a, int64_t b) {
  if (b == 0) return std::nullopt;
  if (b == -1) return 0;  // INT64_MIN % -1 traps on x86
  int64_t r = a % b;
  return r != 0 && ((r < 0) != (b < 0)) ? r + b : r;
}

// The value of a strict binary operation; nullopt if it is undefined or leaves int64.
std::optional<int64_t> apply(K kind, int64_t a, int64_t b) {
  int64_t r = 0;
  switch (kind) {
    case K::kAdd:
      return __builtin_add_overflow(a, b, &r) ? std::nullopt : std::optional(r);
    case K::kSub:
      return __builtin_sub_overflow(a, b, &r) ? std::nullopt : std::optional(r);
    case K::kMul:
      return __builtin_mul_overflow(a, b, &r) ? std::nullopt : std::optional(r);
    case K::kFloorDiv:
      return floor_div(a, b);
    case K::kMod:
      return floor_mod(a, b);
    case K::kMin:
      return a < b ? a : b;
    case K::kMax:
      return a < b ? b : a;
    case K::kLt:
      return a < b;
    case K::kLe:
      return a <= b;
    case K::kEq:
      return a == b;
    case K::kNe:
      return a != b;
    case K::kAnd:
      return a != 0 && b != 0;
    case K::kOr:
      return a != 0 || b != 0;
    default:
      return std::nullopt;
  }
}

bool is_commutative(K kind) {
  return kind == K::kAdd || kind == K::kMul || kind == K::kMin || kind == K::kMax ||
         kind == K::kEq || kind == K::kNe || kind == K::kAnd || kind == K::kOr;
}

// True if the value is always 0 or 1.
bool is_truth(const Expr& e) {
  switch (e.kind()) {
    case K::kConst:
      return e.is_const(0) || e.is_const(1);
    case K::kLt:
    case K::kLe:
    case K::kEq:
    case K::kNe:
    case K::kAnd:
    case K::kOr:
    case K::kNot:
      return true;
    default:
      return false;
  }
}

Expr as_truth(const Expr& e) { return is_truth(e) ? e : Expr::make(K::kNe, {e, 0}); }

// op(x, c) with a constant on the right.
std::optional<Expr> simplify_with_const(K kind, const Expr& x, const Expr& c) {
  const int64_t v = c.value();
  switch (kind) {
    case K::kAdd:
      if (v == 0) return x;
      break;
    case K::kSub:
      if (v == 0) return x;
      if (v != INT64_MIN) return Expr::make(K::kAdd, {x, Expr(-v)});
      break;
    case K::kMul:
      if (v == 0) return Expr(0);
      if (v == 1) return x;
      break;
    case K::kFloorDiv:
      if (v == 1) return x;
      break;
    case K::kMod:
      if (v == 1) return Expr(0);
      break;
    case K::kAnd:
      return v == 0 ? Expr(0) : as_truth(x);
    case K::kOr:
      return v != 0 ? Expr(1) : as_truth(x);
    default:
      break;
  }
  // (x op c1) op c2 -> x op (c1 op c2) for the associative ones.
  const bool associative = kind == K::kAdd || kind == K::kMul || kind == K::kMin || kind == K::kMax;
  if (associative && x.kind() == kind && x.args()[1].is_const())
    if (auto folded = apply(kind, x.args()[1].value(), v))
      return Expr::make(kind, {x.args()[0], Expr(*folded)});
  return std::nullopt;
}

// op(x, x).
std::optional<Expr> simplify_equal(K kind, const Expr& x) {
  switch (kind) {
    case K::kSub:
    case K::kLt:
    case K::kNe:
      return Expr(0);
    case K::kLe:
    case K::kEq:
      return Expr(1);
    case K::kMin:
    case K::kMax:
      return x;
    case K::kAnd:
    case K::kOr:
      return as_truth(x);
    default:
      return std::nullopt;
  }
}

std::optional<Expr> simplify_binary(K kind, const Expr& a, const Expr& b) {
  if (a.is_const() && b.is_const()) {
    if (auto folded = apply(kind, a.value(), b.value())) return Expr(*folded);
    return std::nullopt;  // stays as written: division by zero, overflow
  }
  if (a.is_const() && is_commutative(kind)) return Expr::make(kind, {b, a});
  if (b.is_const())
    if (auto simple = simplify_with_const(kind, a, b)) return simple;
  if (a.same_as(b)) return simplify_equal(kind, a);
  // (x + y) - x -> y: extents of ranges written as end - begin.
  if (kind == K::kSub && a.kind() == K::kAdd) {
    if (a.args()[0].same_as(b)) return a.args()[1];
    if (a.args()[1].same_as(b)) return a.args()[0];
  }
  return std::nullopt;
}

std::optional<Expr> simplify(K kind, const std::vector<Expr>& args) {
  switch (kind) {
    case K::kConst:
    case K::kSym:
    case K::kIndexLoad:
      return std::nullopt;
    case K::kNot:
      if (args[0].is_const()) return Expr(args[0].value() == 0);
      if (args[0].kind() == K::kNot) return as_truth(args[0].args()[0]);
      return std::nullopt;
    case K::kSelect:
      if (args[0].is_const()) return args[0].value() != 0 ? args[1] : args[2];
      if (args[1].same_as(args[2])) return args[1];
      return std::nullopt;
    default:
      return simplify_binary(kind, args[0], args[1]);
  }
}

[[maybe_unused]] size_t arity(K kind) { return kind == K::kNot ? 1 : kind == K::kSelect ? 3 : 2; }

// Nodes of small constants are shared: most extents, steps and points are 0, 1 or a small block
// size.
std::shared_ptr<const ExprNode> const_node(int64_t value) {
  constexpr int64_t kCached = 129;
  static const auto cache = [] {
    std::array<std::shared_ptr<const ExprNode>, kCached> nodes;
    for (int64_t i = 0; i < kCached; ++i)
      nodes[static_cast<size_t>(i)] = std::make_shared<ExprNode>(ExprNode{K::kConst, i, "", {}});
    return nodes;
  }();
  if (value >= 0 && value < kCached) return cache[static_cast<size_t>(value)];
  return std::make_shared<ExprNode>(ExprNode{K::kConst, value, "", {}});
}

}  // namespace

Expr::Expr(int64_t value) : node_(const_node(value)) {}

Expr Expr::sym(std::string name) {
  return Expr(std::make_shared<ExprNode>(ExprNode{K::kSym, 0, std::move(name), {}}));
}

Expr Expr::index_load(std::string tensor, std::vector<Expr> indices) {
  return make(K::kIndexLoad, std::move(indices), std::move(tensor));
}

Expr Expr::make(ExprKind kind, std::vector<Expr> args, std::string name) {
  assert(kind == K::kIndexLoad || kind == K::kSym || args.size() == arity(kind));
  if (auto simple = simplify(kind, args)) return *simple;
  return Expr(std::make_shared<ExprNode>(ExprNode{kind, 0, std::move(name), std::move(args)}));
}

ExprKind Expr::kind() const { return node_->kind; }
int64_t Expr::value() const { return node_->value; }
const std::string& Expr::name() const { return node_->name; }
const std::vector<Expr>& Expr::args() const { return node_->args; }

bool Expr::same_as(const Expr& other) const {
  if (node_ == other.node_) return true;
  if (kind() != other.kind() || value() != other.value() || name() != other.name() ||
      args().size() != other.args().size())
    return false;
  for (size_t i = 0; i < args().size(); ++i)
    if (!args()[i].same_as(other.args()[i])) return false;
  return true;
}

Expr operator+(const Expr& a, const Expr& b) { return Expr::make(K::kAdd, {a, b}); }
Expr operator-(const Expr& a, const Expr& b) { return Expr::make(K::kSub, {a, b}); }
Expr operator*(const Expr& a, const Expr& b) { return Expr::make(K::kMul, {a, b}); }
Expr operator/(const Expr& a, const Expr& b) { return Expr::make(K::kFloorDiv, {a, b}); }
Expr operator%(const Expr& a, const Expr& b) { return Expr::make(K::kMod, {a, b}); }
Expr operator<(const Expr& a, const Expr& b) { return Expr::make(K::kLt, {a, b}); }
Expr operator<=(const Expr& a, const Expr& b) { return Expr::make(K::kLe, {a, b}); }
Expr operator>(const Expr& a, const Expr& b) { return b < a; }
Expr operator>=(const Expr& a, const Expr& b) { return b <= a; }
Expr operator==(const Expr& a, const Expr& b) { return Expr::make(K::kEq, {a, b}); }
Expr operator!=(const Expr& a, const Expr& b) { return Expr::make(K::kNe, {a, b}); }
Expr operator&&(const Expr& a, const Expr& b) { return Expr::make(K::kAnd, {a, b}); }
Expr operator||(const Expr& a, const Expr& b) { return Expr::make(K::kOr, {a, b}); }
Expr operator!(const Expr& a) { return Expr::make(K::kNot, {a}); }
Expr min(const Expr& a, const Expr& b) { return Expr::make(K::kMin, {a, b}); }
Expr max(const Expr& a, const Expr& b) { return Expr::make(K::kMax, {a, b}); }
Expr select(const Expr& cond, const Expr& then, const Expr& otherwise) {
  return Expr::make(K::kSelect, {cond, then, otherwise});
}
Expr ceil_div(const Expr& a, const Expr& b) { return (a + (b - 1)) / b; }

std::optional<int64_t> evaluate(const Expr& expr, const Env& env, const IndexReader& reader) {
  const auto& args = expr.args();
  switch (expr.kind()) {
    case K::kConst:
      return expr.value();
    case K::kSym: {
      auto it = env.find(expr.name());
      return it == env.end() ? std::nullopt : std::optional(it->second);
    }
    case K::kIndexLoad: {
      if (!reader) return std::nullopt;
      std::vector<int64_t> at;
      for (const Expr& arg : args) {
        auto v = evaluate(arg, env, reader);
        if (!v) return std::nullopt;
        at.push_back(*v);
      }
      return reader(expr.name(), at);
    }
    default:
      break;
  }
  auto first = evaluate(args[0], env, reader);
  if (!first) return std::nullopt;
  // Lazy, so that a condition can guard an index load that would be out of bounds.
  switch (expr.kind()) {
    case K::kNot:
      return *first == 0;
    case K::kSelect:
      return evaluate(*first != 0 ? args[1] : args[2], env, reader);
    case K::kAnd:
      if (*first == 0) return 0;
      break;
    case K::kOr:
      if (*first != 0) return 1;
      break;
    default:
      break;
  }
  auto second = evaluate(args[1], env, reader);
  return second ? apply(expr.kind(), *first, *second) : std::nullopt;
}

Expr substitute(const Expr& expr, const std::map<std::string, Expr, std::less<>>& values) {
  if (expr.kind() == K::kConst) return expr;
  if (expr.kind() == K::kSym) {
    auto it = values.find(expr.name());
    return it == values.end() ? expr : it->second;
  }
  std::vector<Expr> args;
  bool changed = false;
  for (const Expr& arg : expr.args()) {
    args.push_back(substitute(arg, values));
    changed |= args.back().node() != arg.node();
  }
  return changed ? Expr::make(expr.kind(), std::move(args), expr.name()) : expr;
}

void collect_symbols(const Expr& expr, std::set<std::string>& out) {
  if (expr.kind() == K::kSym) out.insert(expr.name());
  for (const Expr& arg : expr.args()) collect_symbols(arg, out);
}

std::set<std::string> symbols_of(const Expr& expr) {
  std::set<std::string> out;
  collect_symbols(expr, out);
  return out;
}

}  // namespace rooftile
