// SPDX-License-Identifier: Apache-2.0
// The text form of Expr: C's operators and precedence, floor division as `/`, min(a, b), max(a, b),
// select(c, a, b) and index loads t[i, j]. Parentheses are printed only where the precedence needs
// them, and parse_expr builds through Expr::make, so parse_expr(e.str()) is structurally equal to
// e.
#include <array>
#include <cctype>
#include <string_view>

#include "rooftile/base/expr.h"

namespace rooftile {
namespace {

using K = ExprKind;

struct BinaryOp {
  K kind;
  std::string_view text;
  int precedence;
  bool swapped = false;  // read only: a > b is b < a
};
// Longer texts first: the parser takes the first that matches.
constexpr std::array<BinaryOp, 13> kBinaryOps = {{
    {K::kOr, "||", 1},
    {K::kAnd, "&&", 2},
    {K::kEq, "==", 3},
    {K::kNe, "!=", 3},
    {K::kLe, "<=", 4},
    {K::kLt, "<", 4},
    {K::kLe, ">=", 4, true},
    {K::kLt, ">", 4, true},
    {K::kAdd, "+", 5},
    {K::kSub, "-", 5},
    {K::kMul, "*", 6},
    {K::kFloorDiv, "/", 6},
    {K::kMod, "%", 6},
}};
constexpr int kUnaryPrecedence = 7;
constexpr int kPrimaryPrecedence = 8;

const BinaryOp* binary_op(K kind) {
  for (const BinaryOp& op : kBinaryOps)
    if (op.kind == kind) return &op;
  return nullptr;
}

std::string_view function_name(K kind) {
  return kind == K::kMin ? "min" : kind == K::kMax ? "max" : kind == K::kSelect ? "select" : "";
}

void print(const Expr& e, int min_precedence, std::string& out);

void print_list(const std::vector<Expr>& args, char open, char close, std::string& out) {
  out += open;
  for (size_t i = 0; i < args.size(); ++i) {
    if (i > 0) out += ", ";
    print(args[i], 0, out);
  }
  out += close;
}

// A sum with a negative constant prints as a difference.
bool prints_as_difference(const Expr& e) {
  return e.kind() == K::kAdd && e.args()[1].is_const() && e.args()[1].value() < 0 &&
         e.args()[1].value() != INT64_MIN;
}

void print_binary(const Expr& e, const BinaryOp& op, std::string& out) {
  print(e.args()[0], op.precedence, out);
  out += ' ';
  if (prints_as_difference(e)) {
    out += "- " + std::to_string(-e.args()[1].value());
    return;
  }
  out += op.text;
  out += ' ';
  print(e.args()[1], op.precedence + 1, out);
}

int precedence(const Expr& e) {
  if (e.kind() == K::kNot) return kUnaryPrecedence;
  const BinaryOp* op = binary_op(e.kind());
  return op != nullptr ? op->precedence : kPrimaryPrecedence;
}

void print(const Expr& e, int min_precedence, std::string& out) {
  const bool parenthesise = precedence(e) < min_precedence;
  if (parenthesise) out += '(';
  if (const BinaryOp* op = binary_op(e.kind())) {
    print_binary(e, *op, out);
  } else if (e.kind() == K::kConst) {
    out += std::to_string(e.value());
  } else if (e.kind() == K::kSym) {
    out += e.name();
  } else if (e.kind() == K::kIndexLoad) {
    out += e.name();
    print_list(e.args(), '[', ']', out);
  } else if (e.kind() == K::kNot) {
    out += '!';
    print(e.args()[0], kUnaryPrecedence, out);
  } else {
    out += function_name(e.kind());
    print_list(e.args(), '(', ')', out);
  }
  if (parenthesise) out += ')';
}

// Recursive descent with precedence climbing; consumes the longest expression at the front of
// `text`.
class Parser {
 public:
  explicit Parser(std::string_view text) : rest_(text) {}
  std::string_view rest() const { return rest_; }

  std::optional<Expr> expression(int min_precedence = 1) {
    std::optional<Expr> left = unary();
    while (left) {
      const BinaryOp* op = peek_binary();
      if (op == nullptr || op->precedence < min_precedence) break;
      rest_.remove_prefix(op->text.size());
      std::optional<Expr> right = expression(op->precedence + 1);
      if (!right) return std::nullopt;
      left = op->swapped ? Expr::make(op->kind, {*right, *left})
                         : Expr::make(op->kind, {*left, *right});
    }
    return left;
  }

 private:
  static bool name_char(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
  }
  void skip_space() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\t')) rest_.remove_prefix(1);
  }
  bool accept(char c) {
    skip_space();
    if (rest_.empty() || rest_[0] != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  const BinaryOp* peek_binary() {
    skip_space();
    for (const BinaryOp& op : kBinaryOps)
      if (rest_.substr(0, op.text.size()) == op.text) return &op;
    return nullptr;
  }

  std::optional<Expr> unary() {
    skip_space();
    if (rest_.empty()) return std::nullopt;
    if (rest_[0] == '!' && rest_.substr(0, 2) != "!=") {
      rest_.remove_prefix(1);
      std::optional<Expr> arg = unary();
      return arg ? std::optional(!*arg) : std::nullopt;
    }
    if (accept('(')) {
      std::optional<Expr> inner = expression();
      return inner && accept(')') ? inner : std::nullopt;
    }
    if (rest_[0] == '-' || std::isdigit(static_cast<unsigned char>(rest_[0])) != 0) return number();
    return name_or_call();
  }

  std::optional<Expr> number() {
    const bool negative = accept('-');
    int64_t value = 0;  // accumulated downwards: INT64_MIN has no positive twin
    size_t digits = 0;
    for (; digits < rest_.size() && std::isdigit(static_cast<unsigned char>(rest_[digits]));
         ++digits)
      if (__builtin_mul_overflow(value, int64_t{10}, &value) ||
          __builtin_sub_overflow(value, int64_t{rest_[digits] - '0'}, &value))
        return std::nullopt;
    if (digits == 0 || (digits < rest_.size() && name_char(rest_[digits]))) return std::nullopt;
    rest_.remove_prefix(digits);
    if (!negative && value == INT64_MIN) return std::nullopt;
    return Expr(negative ? value : -value);
  }

  std::optional<std::vector<Expr>> list(char close) {
    std::vector<Expr> args;
    if (accept(close)) return args;
    do {
      std::optional<Expr> arg = expression();
      if (!arg) return std::nullopt;
      args.push_back(*arg);
    } while (accept(','));
    if (!accept(close)) return std::nullopt;
    return args;
  }

  std::optional<Expr> name_or_call() {
    size_t length = 0;
    while (length < rest_.size() && name_char(rest_[length])) ++length;
    if (length == 0 || rest_[0] == '.') return std::nullopt;
    std::string name(rest_.substr(0, length));
    rest_.remove_prefix(length);
    if (!rest_.empty() && rest_[0] == '[') {
      accept('[');
      auto indices = list(']');
      return indices ? std::optional(Expr::index_load(name, *indices)) : std::nullopt;
    }
    if (rest_.empty() || rest_[0] != '(') return Expr::sym(name);
    accept('(');
    auto args = list(')');
    if (!args) return std::nullopt;
    for (K kind : {K::kMin, K::kMax, K::kSelect})
      if (name == function_name(kind) && args->size() == (kind == K::kSelect ? 3U : 2U))
        return Expr::make(kind, *args);
    return std::nullopt;
  }

  std::string_view rest_;
};

}  // namespace

std::string Expr::str() const {
  std::string out;
  print(*this, 0, out);
  return out;
}

std::optional<Expr> parse_expr_prefix(std::string_view& text) {
  Parser parser(text);
  std::optional<Expr> result = parser.expression();
  if (result) text = parser.rest();
  return result;
}

std::optional<Expr> parse_expr(std::string_view text) {
  std::optional<Expr> result = parse_expr_prefix(text);
  if (text.find_first_not_of(" \t") != std::string_view::npos) return std::nullopt;
  return result;
}

}  // namespace rooftile
