// SPDX-License-Identifier: Apache-2.0
// Expr: integer expressions over symbolic sizes, loop indices and index tensors.
//
// One class serves contracts ("K % 8 == 0"), tile extents, loop bounds and addresses, so that the
// launcher, the lowering, the interpreter and (later) the prover all read the same formula. Values
// are mathematical integers; division is floor division and the remainder has the divisor's sign.
// Comparisons give 0 or 1. Immutable and shared; building folds constants and drops cheap
// identities, so that formulas written alike compare equal.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace rooftile {

enum class ExprKind : uint8_t {
  kConst,
  kSym,
  kAdd,
  kSub,
  kMul,
  kFloorDiv,
  kMod,
  kMin,
  kMax,
  kLt,
  kLe,
  kEq,
  kNe,
  kAnd,
  kOr,
  kNot,
  kSelect,
  kIndexLoad,  // one element of an integer tensor: name = tensor, args = its indices
};

class Expr;
struct ExprNode;

class Expr {
 public:
  Expr() : Expr(0) {}
  Expr(int64_t value);                                    // NOLINT: implicit by intent
  Expr(int value) : Expr(static_cast<int64_t>(value)) {}  // NOLINT: implicit by intent
  static Expr sym(std::string name);
  static Expr make(ExprKind kind, std::vector<Expr> args, std::string name = "");
  static Expr index_load(std::string tensor, std::vector<Expr> indices);

  ExprKind kind() const;
  int64_t value() const;            // kConst only
  const std::string& name() const;  // kSym and kIndexLoad
  const std::vector<Expr>& args() const;
  bool is_const() const { return kind() == ExprKind::kConst; }
  bool is_const(int64_t v) const { return is_const() && value() == v; }
  bool same_as(const Expr& other) const;  // structural equality

  // C syntax with min(a, b), max(a, b), t[i, j]; parsed back by parse_expr
  std::string str() const;
  const ExprNode* node() const { return node_.get(); }

 private:
  explicit Expr(std::shared_ptr<const ExprNode> node) : node_(std::move(node)) {}
  std::shared_ptr<const ExprNode> node_;
};

struct ExprNode {
  ExprKind kind;
  int64_t value = 0;
  std::string name;
  std::vector<Expr> args;
};

Expr operator+(const Expr& a, const Expr& b);
Expr operator-(const Expr& a, const Expr& b);
Expr operator*(const Expr& a, const Expr& b);
Expr operator/(const Expr& a, const Expr& b);  // floor division
Expr operator%(const Expr& a, const Expr& b);
Expr operator<(const Expr& a, const Expr& b);
Expr operator<=(const Expr& a, const Expr& b);
Expr operator>(const Expr& a, const Expr& b);
Expr operator>=(const Expr& a, const Expr& b);
Expr operator==(const Expr& a, const Expr& b);  // builds an expression; use same_as to compare
Expr operator!=(const Expr& a, const Expr& b);
Expr operator&&(const Expr& a, const Expr& b);
Expr operator||(const Expr& a, const Expr& b);
Expr operator!(const Expr& a);
Expr min(const Expr& a, const Expr& b);
Expr max(const Expr& a, const Expr& b);
Expr select(const Expr& cond, const Expr& then, const Expr& otherwise);
Expr ceil_div(const Expr& a, const Expr& b);

using Env = std::map<std::string, int64_t, std::less<>>;
using IndexReader =
    std::function<int64_t(const std::string& tensor, const std::vector<int64_t>& at)>;

// The value under `env`; nullopt if a symbol is unbound or a divisor is zero. `reader` serves
// kIndexLoad.
std::optional<int64_t> evaluate(const Expr& expr, const Env& env, const IndexReader& reader = {});
Expr substitute(const Expr& expr, const std::map<std::string, Expr, std::less<>>& values);
void collect_symbols(const Expr& expr, std::set<std::string>& out);
std::set<std::string> symbols_of(const Expr& expr);
std::optional<Expr> parse_expr(std::string_view text);
// Parses the longest expression at the front of `text` and removes it from there.
std::optional<Expr> parse_expr_prefix(std::string_view& text);

}  // namespace rooftile
