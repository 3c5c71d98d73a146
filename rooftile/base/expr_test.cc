// SPDX-License-Identifier: Apache-2.0
#include "rooftile/base/expr.h"

#include <gtest/gtest.h>

namespace rooftile {
namespace {

const Expr x = Expr::sym("x"), y = Expr::sym("y"), z = Expr::sym("z");

TEST(Expr, FoldsConstants) {
  EXPECT_TRUE((Expr(7) / Expr(2)).is_const(3));
  EXPECT_TRUE((Expr(-7) / Expr(2)).is_const(-4));
  EXPECT_TRUE((Expr(-7) % Expr(2)).is_const(1));
  EXPECT_TRUE((Expr(7) % Expr(-2)).is_const(-1));
  EXPECT_TRUE((Expr(3) < Expr(4)).is_const(1));
  EXPECT_TRUE(min(Expr(3), Expr(4)).is_const(3));
  EXPECT_TRUE((!Expr(5)).is_const(0));
  EXPECT_TRUE(ceil_div(Expr(9), Expr(4)).is_const(3));
}

TEST(Expr, DropsIdentities) {
  EXPECT_TRUE((x + 0).same_as(x));
  EXPECT_TRUE((Expr(0) + x).same_as(x));
  EXPECT_TRUE((x - 0).same_as(x));
  EXPECT_TRUE((x * 1).same_as(x));
  EXPECT_TRUE((Expr(1) * x).same_as(x));
  EXPECT_TRUE((x * 0).is_const(0));
  EXPECT_TRUE((x / 1).same_as(x));
  EXPECT_TRUE((x % 1).is_const(0));
  EXPECT_TRUE((x - x).is_const(0));
  EXPECT_TRUE(min(x, x).same_as(x));
  EXPECT_TRUE(select(Expr(1), x, y).same_as(x));
  EXPECT_TRUE(select(z, x, x).same_as(x));
  EXPECT_TRUE((x <= x).is_const(1));
  EXPECT_TRUE((x + 3 + 4).same_as(x + 7));
  EXPECT_TRUE((x + 3 - 3).same_as(x));
  EXPECT_TRUE((Expr(2) + x).same_as(x + 2));
  EXPECT_TRUE(((x + y) - x).same_as(y));
  EXPECT_TRUE((Expr(1) && (x < y)).same_as(x < y));
  EXPECT_TRUE((Expr(1) && x).same_as(x != 0));
}

TEST(Expr, UndefinedOrOverflowingConstantsStayAsWritten) {
  EXPECT_EQ((Expr(1) / Expr(0)).kind(), ExprKind::kFloorDiv);
  EXPECT_EQ((Expr(INT64_MAX) + Expr(1)).kind(), ExprKind::kAdd);
  EXPECT_EQ(evaluate(Expr(1) / Expr(0), {}), std::nullopt);
  EXPECT_EQ(evaluate(Expr(INT64_MIN) / x, {{"x", -1}}), std::nullopt);
}

TEST(Expr, PrintsWithFewestParentheses) {
  EXPECT_EQ((x + y * z).str(), "x + y * z");
  EXPECT_EQ(((x + y) * z).str(), "(x + y) * z");
  EXPECT_EQ((x - (y - z)).str(), "x - (y - z)");
  EXPECT_EQ((x - y - z).str(), "x - y - z");
  EXPECT_EQ((x / (y * z) % 3).str(), "x / (y * z) % 3");
  EXPECT_EQ((x - 3).str(), "x - 3");
  EXPECT_EQ((x * -3).str(), "x * -3");
  EXPECT_EQ((!(x < y) && (z == 2 || x != 1)).str(), "!(x < y) && (z == 2 || x != 1)");
  EXPECT_EQ(select(x < y, min(x, 4), max(y, z)).str(), "select(x < y, min(x, 4), max(y, z))");
  EXPECT_EQ(Expr::index_load("table", {x, y + 1}).str(), "table[x, y + 1]");
}

TEST(Expr, ParsesWhatItPrints) {
  const Expr s0 = Expr::sym("x.s0");
  const Expr load = Expr::index_load("cu_seqlens", {x + 1});
  const Expr all[] = {x,
                      Expr(-5),
                      Expr(INT64_MIN),
                      Expr(INT64_MAX),
                      x + y * z,
                      (x + y) * z,
                      x - (y - z),
                      x - (y + z),
                      x / (y / z),
                      x % (y % z),
                      -1 * x,
                      x - 7,
                      x * -7,
                      Expr(3) - x,
                      x + INT64_MIN,
                      (x < y) + (y <= z),
                      (x == y) == (y != z),
                      !x,
                      !!x,
                      !(x && y) || z,
                      x && (y || z),
                      select(x < y, x, min(max(x, y), z)),
                      load - Expr::index_load("cu_seqlens", {x}),
                      s0 * x + load,
                      ceil_div(x, 128) * 128,
                      Expr(1) / Expr(0)};
  for (const Expr& e : all) {
    auto back = parse_expr(e.str());
    ASSERT_TRUE(back.has_value()) << e.str();
    EXPECT_TRUE(back->same_as(e)) << e.str() << " -> " << back->str();
    EXPECT_EQ(back->str(), e.str());
  }
}

TEST(Expr, ReadsGreaterAsSwappedLess) {
  EXPECT_TRUE(parse_expr("x > y + 1")->same_as(y + 1 < x));
  EXPECT_TRUE(parse_expr("x >= 0 && y > x")->same_as((Expr(0) <= x) && (x < y)));
}

TEST(Expr, RefusesBrokenText) {
  for (const char* text : {"", "x +", "(x", "x)", "min(x)", "f(x)", "3x", "t[", "t[x", "x y", "1 2",
                           ".x", "&& x", "99999999999999999999"})
    EXPECT_FALSE(parse_expr(text).has_value()) << text;
}

TEST(Expr, PrefixParsingStopsAtForeignText) {
  std::string_view text = "x + 1 => 0";
  auto e = parse_expr_prefix(text);
  ASSERT_TRUE(e.has_value());
  EXPECT_TRUE(e->same_as(x + 1));
  EXPECT_EQ(text, "=> 0");
}

TEST(Expr, EvaluatesLazily) {
  const Expr guarded = select(x < 2, Expr::index_load("t", {x}), -1);
  auto reader = [](const std::string& tensor, const std::vector<int64_t>& at) {
    EXPECT_EQ(tensor, "t");
    EXPECT_LT(at[0], 2);
    return at[0] * 10;
  };
  EXPECT_EQ(evaluate(guarded, {{"x", 1}}, reader), 10);
  EXPECT_EQ(evaluate(guarded, {{"x", 5}}, reader), -1);
  EXPECT_EQ(evaluate(guarded, {}, reader), std::nullopt);
  EXPECT_EQ(evaluate(Expr::index_load("t", {0}), {}), std::nullopt);
  EXPECT_EQ(evaluate((x != 0) && (y / x == 2), {{"x", 0}, {"y", 4}}), 0);
}

TEST(Expr, SubstitutesAndSimplifies) {
  const Expr e = min(x, y - z * x);
  EXPECT_TRUE(substitute(e, {{"x", 128}, {"y", z * 128}}).is_const(0));
  EXPECT_TRUE(substitute(x * y, {{"x", 0}}).is_const(0));
  EXPECT_EQ(symbols_of(e), (std::set<std::string>{"x", "y", "z"}));
}

}  // namespace
}  // namespace rooftile
