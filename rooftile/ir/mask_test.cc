// SPDX-License-Identifier: Apache-2.0
// A mask's scalar condition against the mask itself, index by index.
#include "rooftile/ir/mask.h"

#include <gtest/gtest.h>

#include "rooftile/dsl/test_programs.h"

namespace rooftile::ir {
namespace {

using namespace test;

using Mask = std::function<Tile(Kernel&, const Tile& row, const Tile& column)>;

// A program of one tile [R, C] whose rows are numbered from `first` and whose columns from 0.
Program masked(const Mask& mask, ValueId* select) {
  const Expr R = sym("R"), C = sym("C");
  Kernel k(interface(
      "masked", {tensor("y", DType::kF32, {R, C}, Role::kOut), tensor("x", DType::kF32, {R, C})},
      {int_attr("first")}));
  k.tiles({{"one", Expr(1)}}, [&](Index) {
    const Tile row = k.iota({R, 1}, 0, sym("first")), column = k.iota({1, C}, 1);
    k.store(k["y"](all, all), where_(mask(k, row, column), k.load(k["x"](all, all)), k.zeros({})));
  });
  Result<Program> program = k.finish();
  EXPECT_TRUE(program.ok()) << program.diag().str();
  for (const Node& node : program->nodes)
    if (node.op == Op::kSelect) *select = node.id;
  return *program;
}

std::optional<Expr> condition(const Mask& mask) {
  ValueId select = -1;
  const Program program = masked(mask, &select);
  return holds_everywhere(program, program.node(select).operands[0]);
}

struct Case {
  const char* name;
  Mask mask;
  bool (*holds)(int64_t row, int64_t column);
};

const Case kCases[] = {
    {"causal", [](Kernel&, const Tile& r, const Tile& c) { return c <= r; },
     [](int64_t r, int64_t c) { return c <= r; }},
    {"strictly", [](Kernel&, const Tile& r, const Tile& c) { return c < r; },
     [](int64_t r, int64_t c) { return c < r; }},
    {"the other way", [](Kernel&, const Tile& r, const Tile& c) { return r <= c; },
     [](int64_t r, int64_t c) { return r <= c; }},
    {"a band",
     [](Kernel& k, const Tile& r, const Tile& c) {
       const Tile top = k.iota({1, sym("C")}, 1, 3);
       return logical_and(c <= r, r < top);
     },
     [](int64_t r, int64_t c) { return c <= r && r < c + 3; }},
    {"a number",
     [](Kernel& k, const Tile&, const Tile& c) {
       return c < k.index(sym("first")).to(DType::kI32);
     },
     nullptr},  // of another form: a cast position
};

TEST(Mask, ConditionHoldsExactlyWhereTheMaskDoes) {
  for (const Case& c : kCases) {
    const std::optional<Expr> all = condition(c.mask);
    ASSERT_EQ(all.has_value(), c.holds != nullptr) << c.name;
    if (!all) continue;
    for (int64_t rows : {1, 2, 4})
      for (int64_t columns : {1, 3, 5})
        for (int64_t first = -6; first <= 6; ++first) {
          bool expected = true;
          for (int64_t r = 0; r < rows; ++r)
            for (int64_t column = 0; column < columns; ++column)
              expected = expected && c.holds(first + r, column);
          const Env env = {{"R", rows}, {"C", columns}, {"first", first}};
          EXPECT_EQ(evaluate(*all, env).value() != 0, expected)
              << c.name << " " << rows << " x " << columns << " from " << first;
        }
  }
}

TEST(Mask, OtherFormsAreNotAnswered) {
  const Mask either = [](Kernel&, const Tile& r, const Tile& c) {
    return logical_or(c <= r, r <= c);
  };
  EXPECT_FALSE(condition(either).has_value());
  const Mask of_values = [](Kernel& k, const Tile&, const Tile&) {
    return k.load(k["x"](all, all)) <= 0.0;
  };
  EXPECT_FALSE(condition(of_values).has_value());
}

}  // namespace
}  // namespace rooftile::ir
