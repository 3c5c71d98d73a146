// SPDX-License-Identifier: Apache-2.0
// What the builder converts by itself, and what it says about an author's mistakes.
#include "rooftile/dsl/dsl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "rooftile/dsl/test_programs.h"
#include "rooftile/ir/types.h"

namespace rooftile::dsl {
namespace {

using namespace ir::test;
using ir::Op;
using ir::Role;
using ::testing::HasSubstr;

// A kernel with a tensor of every kind that the cases below need.
Kernel make_kernel() {
  const Expr T = sym("T"), H = sym("H");
  return Kernel(interface(
      "demo",
      {tensor("out", DType::kBf16, {T, H}, Role::kOut), tensor("x", DType::kBf16, {T, H}),
       tensor("f", DType::kF32, {H}), tensor("i", DType::kI32, {H}), tensor("u", DType::kU32, {H}),
       tensor("q", DType::kI8, {T, H}), tensor("ids", DType::kI32, {T})},
      {float_attr("eps"), int_attr("n")}));
}

struct Vocabulary {
  Kernel& k;
  Index row;
  Tile x() { return k.load(k["x"](row, all)); }
  Tile matrix() { return k.load(k["x"](all, all)); }
  Tile f() { return k.load(k["f"](all)); }
  Tile i() { return k.load(k["i"](all)); }
  Tile u() { return k.load(k["u"](all)); }
  Tile ids() { return k.load(k["ids"](all)); }
};

Result<ir::Program> build(const std::function<void(Vocabulary)>& body) {
  Kernel k = make_kernel();
  k.tiles({{"row", sym("T")}}, [&](Index row) { body({k, row}); });
  return k.finish();
}

// ---- conversions
// -------------------------------------------------------------------------------------------

std::string type_of(const std::function<Tile(Vocabulary)>& make) {
  std::string type;
  auto program = build([&](Vocabulary v) {
    Tile t = make(v);
    type = ir::type_str(t.dtype(), t.shape());
  });
  return program.ok() ? type : program.diag().str();
}

TEST(Dsl, TypesOfResults) {
  using V = Vocabulary;
  EXPECT_EQ(type_of([](V v) { return v.x(); }), "bf16[H]");
  EXPECT_EQ(type_of([](V v) { return v.x() * v.x(); }), "f32[H]");
  EXPECT_EQ(type_of([](V v) { return -v.x(); }), "f32[H]");
  EXPECT_EQ(type_of([](V v) { return max(v.x(), 0); }), "f32[H]");
  EXPECT_EQ(type_of([](V v) { return sum(v.x()); }), "f32[1]");
  EXPECT_EQ(type_of([](V v) { return reduce_max(v.matrix(), 0); }), "f32[1, H]");
  EXPECT_EQ(type_of([](V v) { return v.x() < 1.0; }), "bool[H]");
  EXPECT_EQ(type_of([](V v) { return v.i() * 2; }), "i32[H]");
  EXPECT_EQ(type_of([](V v) { return v.i() / 2; }), "f32[H]");
  EXPECT_EQ(type_of([](V v) { return v.i() * v.f(); }), "f32[H]");
  EXPECT_EQ(type_of([](V v) { return v.i() + v.k.index(v.row); }), "i32[H]");
  EXPECT_EQ(type_of([](V v) { return v.x() * v.k.index(v.row); }), "f32[H]");
  EXPECT_EQ(type_of([](V v) { return exp(v.i()); }), "f32[H]");
  EXPECT_EQ(type_of([](V v) { return arg_max(v.x()); }), "i32[1]");
  EXPECT_EQ(type_of([](V v) { return where_(v.x() > 0.0, v.x(), -1); }), "f32[H]");
  EXPECT_EQ(type_of([](V v) { return v.matrix().t(); }), "bf16[H, T]");
  EXPECT_EQ(type_of([](V v) { return mma(v.matrix(), v.matrix().t()); }), "f32[T, T]");
  EXPECT_EQ(type_of([](V v) {
              Tile q = v.k.load(v.k["q"](all, all));
              return mma(q, q.t());
            }),
            "i32[T, T]");
  EXPECT_EQ(type_of([](V v) { return sum(v.k.load(v.k["q"](v.row, all))); }), "i32[1]");
  EXPECT_EQ(type_of([](V v) { return v.k.load(v.k["x"](v.ids(), all)); }), "bf16[T, H]");
  EXPECT_EQ(type_of([](V v) { return v.k.load(v.k["x"](v.ids(), v.ids())); }), "bf16[T]");
  EXPECT_EQ(type_of([](V v) { return v.k.load(v.k["f"](new_axis, all)); }), "f32[1, H]");
  EXPECT_EQ(type_of([](V v) { return v.k.load(v.k["f"](all, new_axis)); }), "f32[H, 1]");
  EXPECT_EQ(type_of([](V v) { return v.k.load(v.k["f"](3)); }), "f32[]");
  EXPECT_EQ(
      type_of([](V v) { return v.k.load(v.k["x"](v.row, block(v.k.dim("n"), 32, sym("H")))); }),
      "bf16[min(H - n * 32, 32)]");
}

TEST(Dsl, WidensATileOncePerScope) {
  auto program = build([](Vocabulary v) {
    Tile x = v.x();
    v.k.store(v.k["out"](v.row, all), x * x + x);
  });
  ASSERT_TRUE(program.ok()) << program.diag().str();
  const auto widenings =
      std::count_if(program->nodes.begin(), program->nodes.end(),
                    [](const ir::Node& n) { return n.op == Op::kCast && n.dtype == DType::kF32; });
  EXPECT_EQ(widenings, 1);
}

TEST(Dsl, CastsOfAnInnerScopeAreNotReusedOutside) {
  auto program = build([](Vocabulary v) {
    Tile x = v.x();
    v.k.when(v.row > 0, [&] { v.k.store(v.k["out"](v.row, all), x * 2.0); });
    v.k.store(v.k["out"](v.row, all), x * 3.0);
  });
  EXPECT_TRUE(program.ok()) << program.diag().str();
}

TEST(Dsl, OperatorsKnowTheirLine) {
  Tile product;
  int line = 0;
  auto program = build([&](Vocabulary v) {
    Tile x = v.f();
    line = __LINE__ + 1;
    product = x * x;
  });
  ASSERT_TRUE(program.ok());
  const SourceLoc& loc = program->node(product.id()).loc;
  EXPECT_EQ(loc.line, line);
  EXPECT_THAT(loc.file, HasSubstr("dsl_test.cc"));
}

TEST(Dsl, TilesTakeIndicesOneByOneOrAsAVector) {
  Kernel k = make_kernel();
  int bodies = 0;
  k.tiles({{"a", 4}}, [&](Index) { ++bodies; });
  k.tiles({"b", 4}, [&](Index) { ++bodies; });
  k.tiles({{"a", 4}, {"b", 2}}, [&](Index, Index) { ++bodies; });
  k.tiles({{"a", 4}, {"b", 2}, {"c", 2}}, [&](std::vector<Index> i) { bodies += i.size() == 3; });
  auto program = k.finish();
  ASSERT_TRUE(program.ok()) << program.diag().str();
  EXPECT_EQ(bodies, 4);
  EXPECT_EQ(program->body.nodes.size(), 4u);
}

// ---- mistakes
// ----------------------------------------------------------------------------------------------

struct Mistake {
  const char* name;
  std::function<void(Vocabulary)> make;
  ErrorCode code;
  const char* message;
  const char* found;
};

const std::vector<Mistake>& mistakes() {
  using V = Vocabulary;
  const ErrorCode kType = ErrorCode::kIrType, kStructure = ErrorCode::kIrStructure;
  static const std::vector<Mistake> list = {
      {"UnknownTensor", [](V v) { v.k.load(v.k["y"](v.row, all)); }, kStructure,
       "no tensor is called `y`", "y"},
      {"UnknownScalar", [](V v) { v.k.scalar("epsilon"); }, kStructure,
       "no float attribute is called `epsilon`", ""},
      {"IntegerAsScalar", [](V v) { v.k.scalar("n"); }, kStructure,
       "no float attribute is called `n`", "an integer attribute"},
      {"WrongRank", [](V v) { v.k.load(v.k["x"](v.row)); }, kType,
       "`x` is indexed with the wrong number of dimensions", "1 indices"},
      {"FloatIndexTile", [](V v) { v.k.load(v.k["x"](v.f(), all)); }, kType,
       "index 0 of `x` is not a list of integers", "f32[H]"},
      {"RankZeroIndexTile", [](V v) { v.k.load(v.k["x"](v.k.index(1), all)); }, kType,
       "index 0 of `x` is not a list of integers", "i64[]"},
      {"IndexTilesOfTwoLengths", [](V v) { v.k.load(v.k["x"](v.ids(), v.i())); }, kType,
       "index tiles of `x` walk together but differ in length", "H"},
      {"StoreToInput", [](V v) { v.k.store(v.k["x"](v.row, all), v.x()); }, kStructure,
       "store to the input `x`", "role in"},
      {"StoreOfAnotherShape", [](V v) { v.k.store(v.k["out"](v.row, all), sum(v.x())); }, kType,
       "store to `out` of a tile of another shape", "[1]"},
      {"StoreOfIntegersToFloats", [](V v) { v.k.store(v.k["out"](v.row, all), v.i()); }, kType,
       "store to `out` of a tile of another dtype", "i32"},
      {"StoreOfEmptyTile", [](V v) { v.k.store(v.k["out"](v.row, all), Tile()); }, kStructure,
       "store of an empty tile", "Tile()"},
      {"IntegersOfTwoDtypes", [](V v) { v.i() + v.u(); }, kType,
       "operands of `add` differ in integer dtype", "i32[H], u32[H]"},
      {"BoolArithmetic", [](V v) { (v.f() > 0.0) + 1; }, kType, "operands of `add` are bools",
       "bool[H], bool[]"},
      {"BitsOfFloats", [](V v) { bit_and(v.f(), 1); }, kType, "operands of `and` are floats",
       "f32[H], f32[]"},
      {"LogicOfNumbers", [](V v) { logical_and(v.f(), v.f()); }, kType,
       "operands of `land` are not bools", "f32[H], f32[H]"},
      {"FractionBesideIntegers", [](V v) { v.i() * 0.5; }, kType,
       "a number beside an integer tile is not an integer", "0.500000"},
      {"NoBroadcast", [](V v) { v.f() + v.k.load(v.k["ids"](all)); }, kType,
       "operands of `add` do not broadcast", "[H] and [T]: extents H and T on axis 0"},
      {"RanksDiffer", [](V v) { v.matrix() + v.f(); }, kType, "operands of `add` do not broadcast",
       "[T, H] and [H]"},
      {"ConditionIsNumber", [](V v) { where_(v.f(), v.f(), 0); }, kType,
       "the condition of where_ is not a bool tile", "f32[H]"},
      {"AxisOutOfRange", [](V v) { sum(v.f(), 1); }, kType,
       "sum over an axis that the tile does not have", "axis 1 of f32[H]"},
      {"ReduceOfScalar", [](V v) { sum(v.k.index(1)); }, kType,
       "sum over an axis that the tile does not have", "axis -1 of i64[]"},
      {"ReduceOfBools", [](V v) { reduce_max(v.f() > 0.0); }, kType, "max of a bool tile",
       "bool[H]"},
      {"ScanOfMinimum", [](V v) { scan(ir::ReduceKind::kMin, v.f()); }, kType,
       "scan of this kind does not exist", "min"},
      {"TransposeOfVector", [](V v) { v.f().t(); }, kType,
       "transpose of a tile that is not a matrix", "f32[H]"},
      {"MmaOfVectors", [](V v) { mma(v.f(), v.f()); }, kType, "operands of mma are not matrices",
       "f32[H] x f32[H]"},
      {"MmaDiffersInK", [](V v) { mma(v.matrix(), v.matrix()); }, kType,
       "operands of mma differ in K", "H and T"},
      {"MmaOfTwoDtypes", [](V v) { mma(v.matrix(), v.matrix().to(DType::kF16).t()); }, kType,
       "mma has no form for these dtypes", "bf16 x f16"},
      {"MmaAccumulator",
       [](V v) {
         mma(v.matrix(), v.matrix().t(), v.k.zeros({4, 4}));
       },
       kType, "the accumulator of mma has another type than the product", "f32[4, 4]"},
      {"PhiloxOfFloats", [](V v) { philox(v.f(), v.k.index(0), v.k.index(0)); }, kType,
       "the counter of philox is not an i32 or i64 tile", "f32[H]"},
      {"PhiloxSeedTile", [](V v) { philox(v.i(), v.i(), v.k.index(0)); }, kType,
       "seed and offset of philox are rank-0 i64 tiles", "i32[H], i64[]"},
      {"DuplicateLabel",
       [](V v) {
         v.k.load(v.k["f"](all), "a");
         v.f().named("a");
       },
       kStructure, "two nodes are labelled `a`", ""},
      {"NestedTiles",
       [](V v) {
         v.k.tiles({{"j", 4}}, [](Index) {});
       },
       kStructure, "tiles() inside another region", "nesting depth 1"},
      {"LoopChangesType",
       [](V v) {
         v.k.loop("j", 0, 4, 1, {v.x()},
                  [](Index, std::vector<Tile> c) { return std::vector<Tile>{c[0] * 2}; });
       },
       kType, "loop `j` changes the type of carried value 0", "f32[H]"},
      {"LoopLosesAValue",
       [](V v) {
         v.k.loop("j", 0, 4, 1, {v.f()},
                  [](Index, std::vector<Tile>) { return std::vector<Tile>{}; });
       },
       kStructure, "loop `j` returns another number of tiles than it carries", "0"},
      {"WorkspaceNameTaken", [](V v) { v.k.workspace("x", DType::kF32, {4}); }, kStructure,
       "workspace `x` has the name of another tensor", "x"},
  };
  return list;
}

class DslMistake : public ::testing::TestWithParam<size_t> {};

TEST_P(DslMistake, IsReportedWithItsLine) {
  const Mistake& mistake = mistakes()[GetParam()];
  auto program = build(mistake.make);
  ASSERT_FALSE(program.ok()) << "nothing was reported";
  const Diag& diag = program.diag();
  EXPECT_EQ(diag.code, mistake.code) << diag.str();
  EXPECT_EQ(diag.message, mistake.message);
  EXPECT_EQ(diag.found, mistake.found);
  EXPECT_EQ(diag.subject, "demo");
  EXPECT_FALSE(diag.expected.empty());
  EXPECT_FALSE(diag.fix.empty());
  EXPECT_THAT(diag.at.str(), HasSubstr("dsl_test.cc:"));
}

INSTANTIATE_TEST_SUITE_P(All, DslMistake, ::testing::Range(size_t{0}, mistakes().size()),
                         [](const auto& param_info) { return mistakes()[param_info.param].name; });

TEST(Dsl, TheFirstMistakeIsReported) {
  auto program = build([](Vocabulary v) {
    sum(v.f(), 7);
    v.i() + v.u();
  });
  ASSERT_FALSE(program.ok());
  EXPECT_THAT(program.diag().message, HasSubstr("sum over an axis"));
}

TEST(Dsl, ATileMustNotLeaveItsLoop) {
  auto program = build([](Vocabulary v) {
    Tile inner;
    v.k.loop("j", 0, 4, 1, [&](Index) { inner = v.f() + 1; });
    v.k.store(v.k["out"](v.row, all), inner);
  });
  ASSERT_FALSE(program.ok());
  EXPECT_EQ(program.diag().message, "use of a value that is not visible here");
}

TEST(Dsl, BodyWithAnotherNumberOfIndices) {
  Kernel k = make_kernel();
  k.tiles({{"a", 4}}, [](Index, Index) {});
  auto program = k.finish();
  ASSERT_FALSE(program.ok());
  EXPECT_EQ(program.diag().message, "the body of tiles() takes another number of indices");
}

}  // namespace
}  // namespace rooftile::dsl
