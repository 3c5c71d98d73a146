// SPDX-License-Identifier: Apache-2.0
// The meaning of every operation, and every misuse of memory that the interpreter must catch.
#include "rooftile/ir/interp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "rooftile/base/float_convert.h"
#include "rooftile/dsl/test_programs.h"
#include "rooftile/ir/philox.h"

namespace rooftile::ir {
namespace {

using namespace test;
using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointwise;

const double kNan = std::nan("");
constexpr InterpOptions kExact{InterpOptions::kFloat64};
constexpr InterpOptions kDeclared{InterpOptions::kDeclared};

// One parallel tile over whole tensors: the shortest way to a result.
using Body = std::function<void(Kernel&)>;
Result<Program> once(std::vector<TensorParam> tensors, const Body& body,
                     std::vector<ScalarParam> scalars = {}) {
  Kernel k(interface("once", std::move(tensors), std::move(scalars)));
  k.tiles({{"once", 1}}, [&](Index) { body(k); });
  return k.finish();
}

Status run(const Result<Program>& program, InterpTensors& tensors,
           const InterpOptions& options = kDeclared, const Env& ints = {},
           const FloatAttrs& floats = {}) {
  if (!program.ok()) return program.diag();
  return interpret(*program, ints, floats, tensors, options);
}

// The output `y` of a body over the vector `x`.
std::vector<double> map_vector(std::vector<double> x, DType in, DType out,
                               const std::function<Tile(Kernel&, Tile)>& f,
                               InterpOptions options = kDeclared) {
  const Expr n = sym("n");
  auto program = once({tensor("y", out, {n}, Role::kOut), tensor("x", in, {n})},
                      [&](Kernel& k) { k.store(k["y"](all), f(k, k.load(k["x"](all)))); });
  const auto size = static_cast<int64_t>(x.size());
  InterpTensors tensors{{"x", {{size}, std::move(x)}}};
  const Status status = run(program, tensors, options);
  EXPECT_TRUE(status.ok()) << status.str();
  return tensors["y"].data;
}

TEST(Interp, RmsNormInBothNumerics) {
  auto program = build_rms_norm();
  InterpTensors tensors{{"x", {{2, 3}, {1, 2, 2, 0, 0, 4}}}, {"weight", {{3}, {1, 2, 3}}}};
  Status status = run(program, tensors, kExact, {}, {{"eps", 0.5}});
  ASSERT_TRUE(status.ok()) << status.str();
  const double r0 = 1 / std::sqrt(3 + 0.5), r1 = 1 / std::sqrt(16.0 / 3 + 0.5);
  EXPECT_THAT(tensors["out"].data, Pointwise(DoubleEq(), {r0, 4 * r0, 6 * r0, 0.0, 0.0, 12 * r1}));

  tensors.erase("out");
  status = run(program, tensors, kDeclared, {}, {{"eps", 0.5}});
  ASSERT_TRUE(status.ok()) << status.str();
  for (double v : tensors["out"].data) EXPECT_EQ(v, round_to(static_cast<float>(v), DType::kBf16));
  EXPECT_NEAR(tensors["out"]({0, 1}), 4 * r0, 4 * r0 / 256);
}

TEST(Interp, GemmOverShortTiles) {
  // 3 x 5 x 7 with blocks of 2 x 4 x 3: the last block of every dimension is short.
  auto program = build_gemm();
  InterpTensors tensors{{"a", {{3, 7}, {}}}, {"b", {{5, 7}, {}}}};
  for (int i = 0; i < 21; ++i) tensors["a"].data.push_back(i % 5 - 2);
  for (int i = 0; i < 35; ++i) tensors["b"].data.push_back(i % 7 - 3);
  const Status status = run(program, tensors, kDeclared, {{"BM", 2}, {"BN", 4}, {"BK", 3}});
  ASSERT_TRUE(status.ok()) << status.str();
  for (int64_t m = 0; m < 3; ++m)
    for (int64_t n = 0; n < 5; ++n) {
      double expected = 0;
      for (int64_t k = 0; k < 7; ++k) expected += tensors["a"]({m, k}) * tensors["b"]({n, k});
      EXPECT_EQ(tensors["out"]({m, n}), expected) << m << ", " << n;
    }
}

TEST(Interp, GemmOverNothingGivesZeros) {
  InterpTensors tensors{{"a", {{2, 0}, {}}}, {"b", {{3, 0}, {}}}};
  const Status status = run(build_gemm(), tensors, kDeclared, {{"BM", 2}, {"BN", 2}, {"BK", 2}});
  ASSERT_TRUE(status.ok()) << status.str();
  EXPECT_THAT(tensors["out"].data, ::testing::Each(0.0));
}

TEST(Interp, PhasesPassValuesThroughWorkspaces) {
  InterpTensors tensors{{"x", {{2, 7}, {}}}};
  for (int i = 0; i < 14; ++i) tensors["x"].data.push_back(std::sin(i) * 3);
  const Status status = run(build_two_phase_softmax(), tensors, kExact);
  ASSERT_TRUE(status.ok()) << status.str();
  for (int64_t row = 0; row < 2; ++row) {
    double total = 0, sum = 0;
    for (int64_t c = 0; c < 7; ++c) total += std::exp(tensors["x"]({row, c}));
    for (int64_t c = 0; c < 7; ++c) {
      EXPECT_NEAR(tensors["out"]({row, c}), std::exp(tensors["x"]({row, c})) / total, 1e-14);
      sum += tensors["out"]({row, c});
    }
    EXPECT_NEAR(sum, 1, 1e-14);
  }
}

InterpTensors gather_scatter_inputs() {
  return {{"out", {{3, 2}, {0, 0, 0, 0, 100, 0}}},
          {"table", {{4, 2}, {0, 1, 10, 11, 20, 21, 30, 31}}},
          {"ids", {{5}, {3, 0, 1, 1, 2}}},
          {"slots", {{5}, {2, 0, 0, 2, 1}}},
          {"first", {{1}, {1}}}};
}

TEST(Interp, GathersAndScattersUnderACondition) {
  InterpTensors tensors = gather_scatter_inputs();
  // Rows 2 and 3 only: block 0 is before `first`, block 2 is past n = 4.
  const Status status = run(build_gather_scatter(), tensors, kDeclared, {{"n", 4}});
  ASSERT_TRUE(status.ok()) << status.str();
  EXPECT_THAT(tensors["out"].data, ElementsAre(10, 11, 0, 0, 110, 11));
}

TEST(Interp, GatherOutOfBoundsNamesTensorIndexExtentAndLine) {
  InterpTensors tensors = gather_scatter_inputs();
  tensors["ids"].data[2] = 4;
  const Status status = run(build_gather_scatter(), tensors, kDeclared, {{"n", 4}});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.diag().code, ErrorCode::kOutOfBounds);
  EXPECT_EQ(status.diag().message, "read of `table` out of bounds");
  EXPECT_EQ(status.diag().found, "index 4 in dimension 0");
  EXPECT_EQ(status.diag().expected, "0 <= index < 4");
  EXPECT_EQ(status.diag().when, "i = 1");
  EXPECT_THAT(status.diag().at.str(), HasSubstr("rooftile/dsl/test_programs.h:"));
}

TEST(Interp, ScatterOutOfBounds) {
  InterpTensors tensors = gather_scatter_inputs();
  tensors["slots"].data[3] = -1;
  const Status status = run(build_gather_scatter(), tensors, kDeclared, {{"n", 4}});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.diag().message, "write of `out` out of bounds");
  EXPECT_EQ(status.diag().found, "index -1 in dimension 0");
}

TEST(Interp, WalksTwoDimensionsTogetherAndStrides) {
  InterpTensors tensors{{"x", {{2, 4}, {0, 1, 2, 3, 10, 11, 12, 13}}},
                        {"r", {{3}, {1, 0, 1}}},
                        {"c", {{3}, {3, 2, 0}}}};
  const Status status = run(build_pick(), tensors);
  ASSERT_TRUE(status.ok()) << status.str();
  EXPECT_THAT(tensors["picked"].data, ElementsAre(13, 2, 10));
  EXPECT_THAT(tensors["even"].data, ElementsAre(0, 2, 10, 12));
}

TEST(Interp, StridedRangePastTheEnd) {
  InterpTensors tensors{{"x", {{2, 2}, {0, 1, 2, 3}}}, {"r", {{0}, {}}}, {"c", {{0}, {}}}};
  const Status status = run(build_pick(), tensors);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.diag().found, "index 2 in dimension 1");
}

TEST(Interp, Zoo) {
  InterpTensors tensors{{"x", {{4}, {0.5, -3, 1000, 2}}}};
  const Status status = run(build_zoo(), tensors, kDeclared, {{"seed", 0}}, {{"scale", 2}});
  ASSERT_TRUE(status.ok()) << status.str();
  EXPECT_THAT(tensors["scan"].data, ElementsAre(1, -5, 1995, 1999));
  // i = 1..4: 7 i mod 5 = 2, 4, 1, 3
  EXPECT_THAT(tensors["running"].data, ElementsAre(2, 4, 4, 4));
  // x > 0 and i != 2
  EXPECT_THAT(tensors["mask"].data, ElementsAre(1, 0, 1, 1));
  EXPECT_THAT(tensors["ints"].data, ElementsAre(4 ^ 0, 8 ^ 1, 12 ^ 1, 0 ^ 2));
  EXPECT_THAT(tensors["fp8"].data, ElementsAre(0.5, -1, 448, 2));
  EXPECT_THAT(tensors["best"].data, ElementsAre(2));
  EXPECT_THAT(tensors["least"].data, ElementsAre(0.5));
  EXPECT_EQ(tensors["outer"]({3, 1}), -9);
  EXPECT_EQ(tensors["outer"]({2, 0}), 1);
  for (int64_t i = 0; i < 4; ++i)
    EXPECT_EQ(tensors["random"]({i}),
              philox4x32({static_cast<uint32_t>(i + 1), 0, 0, 0}, {0, 0})[0]);
}

TEST(Interp, PhiloxKnownAnswers) {
  // Random123's known-answer vectors of philox4x32, 10 rounds.
  EXPECT_THAT(philox4x32({0, 0, 0, 0}, {0, 0}),
              ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  EXPECT_THAT(philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
              ElementsAre(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
  EXPECT_THAT(
      philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
      ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
}

TEST(Interp, PhiloxSplitsItsOperandsIntoWords) {
  const Expr n = sym("n");
  auto program = once({tensor("y", DType::kU32, {n}, Role::kOut), tensor("c", DType::kI64, {n})},
                      [&](Kernel& k) {
                        Tile seed = k.index(sym("seed")), offset = k.index(sym("offset"));
                        k.store(k["y"](all), philox(k.load(k["c"](all)), seed, offset));
                      },
                      {int_attr("seed"), int_attr("offset")});
  InterpTensors tensors{{"c", {{1}, {static_cast<double>((int64_t{3} << 32) + 7)}}}};
  const Status status =
      run(program, tensors, kDeclared, {{"seed", -1}, {"offset", int64_t{5} << 32}});
  ASSERT_TRUE(status.ok()) << status.str();
  EXPECT_EQ(tensors["y"].data[0], philox4x32({7, 3, 0, 5}, {~0u, ~0u})[0]);
}

TEST(Interp, ArgMaxTakesTheFirstOfTiesAndNanAboveAll) {
  auto best = [](std::vector<double> x) {
    const Expr n = sym("n");
    auto program = once({tensor("y", DType::kI32, {1}, Role::kOut), tensor("x", DType::kF32, {n})},
                        [](Kernel& k) { k.store(k["y"](all), arg_max(k.load(k["x"](all)))); });
    InterpTensors tensors{{"x", {{static_cast<int64_t>(x.size())}, x}}};
    const Status status = run(program, tensors);
    EXPECT_TRUE(status.ok()) << status.str();
    return tensors["y"].data[0];
  };
  EXPECT_EQ(best({1, 3, 3, 2}), 1);
  EXPECT_EQ(best({1, kNan, 3, kNan}), 1);
  EXPECT_EQ(best({-kInfinity, -kInfinity}), 0);
  EXPECT_EQ(best({-0.0, 0.0}), 0);
}

TEST(Interp, ArgMaxOfNothingIsAnError) {
  auto program =
      once({tensor("y", DType::kI32, {1}, Role::kOut), tensor("x", DType::kF32, {sym("n")})},
           [](Kernel& k) { k.store(k["y"](all), arg_max(k.load(k["x"](all)))); });
  InterpTensors tensors{{"x", {{0}, {}}}};
  EXPECT_THAT(run(program, tensors).str(), HasSubstr("position of the maximum of nothing"));
}

TEST(Interp, FoldsOfNothingGiveTheNeutralElement) {
  auto fold = [](ReduceKind kind) {
    auto program =
        once({tensor("y", DType::kF32, {1}, Role::kOut), tensor("x", DType::kF32, {sym("n")})},
             [&](Kernel& k) { k.store(k["y"](all), reduce(kind, k.load(k["x"](all)), 0)); });
    InterpTensors tensors{{"x", {{0}, {}}}};
    EXPECT_TRUE(run(program, tensors).ok());
    return tensors["y"].data[0];
  };
  EXPECT_EQ(fold(ReduceKind::kSum), 0);
  EXPECT_EQ(fold(ReduceKind::kMax), -kInfinity);
  EXPECT_EQ(fold(ReduceKind::kMin), kInfinity);
}

TEST(Interp, MaxAndMinPropagateNan) {
  auto y = map_vector({1, kNan, 3}, DType::kF32, DType::kF32,
                      [](Kernel&, Tile x) { return max(x, 2.0); });
  EXPECT_EQ(y[0], 2);
  EXPECT_TRUE(std::isnan(y[1]));
  y = map_vector({1, kNan}, DType::kF32, DType::kF32,
                 [](Kernel&, Tile x) { return x + reduce_min(x); });
  EXPECT_TRUE(std::isnan(y[0]));
}

TEST(Interp, DeclaredArithmeticRoundsToF32AfterEachOperation) {
  auto big_plus_one = [](Kernel&, Tile x) { return x + 1.0 - 1.0; };
  EXPECT_THAT(map_vector({0x1p24}, DType::kF32, DType::kF32, big_plus_one, kDeclared),
              ElementsAre(0x1p24 - 1));
  EXPECT_THAT(map_vector({0x1p24}, DType::kF32, DType::kF32, big_plus_one, kExact),
              ElementsAre(0x1p24));
  // Sums run in order: each 1 is lost.
  auto total = [](Kernel&, Tile x) { return x * 0.0 + sum(x); };
  EXPECT_EQ(map_vector({0x1p24, 1, 1}, DType::kF32, DType::kF32, total, kDeclared)[0], 0x1p24);
  EXPECT_EQ(map_vector({0x1p24, 1, 1}, DType::kF32, DType::kF32, total, kExact)[0], 0x1p24 + 2);
}

TEST(Interp, StoresRoundToTheTensorInDeclaredOnly) {
  auto third = [](Kernel&, Tile x) { return x / 3.0; };
  EXPECT_EQ(map_vector({1}, DType::kF32, DType::kBf16, third, kDeclared)[0], 0.333984375);
  EXPECT_EQ(map_vector({1}, DType::kF32, DType::kBf16, third, kExact)[0], 1.0 / 3);
}

TEST(Interp, CastsSaturateFromFloatsAndWrapFromIntegers) {
  auto to = [](DType d) { return [d](Kernel&, Tile x) { return x.to(d); }; };
  EXPECT_THAT(map_vector({2.5, 3.5, -300, 1e9, kNan}, DType::kF32, DType::kI8, to(DType::kI8)),
              ElementsAre(2, 4, -128, 127, 0));
  EXPECT_THAT(map_vector({-1, 300}, DType::kF32, DType::kU8, to(DType::kU8)), ElementsAre(0, 255));
  EXPECT_THAT(map_vector({300, -1}, DType::kI32, DType::kU8, to(DType::kU8)), ElementsAre(44, 255));
  EXPECT_THAT(map_vector({-1}, DType::kI32, DType::kU32, to(DType::kU32)), ElementsAre(0x1p32 - 1));
  EXPECT_THAT(map_vector({1e10}, DType::kF32, DType::kI32, to(DType::kI32)),
              ElementsAre(0x1p31 - 1));
}

TEST(Interp, IntegersWrapInTheirDtype) {
  auto square = [](Kernel&, Tile x) { return x * x; };
  EXPECT_THAT(map_vector({65537}, DType::kI32, DType::kI32, square), ElementsAre(131073));
  EXPECT_THAT(map_vector({65537}, DType::kU32, DType::kU32, square), ElementsAre(131073));
  EXPECT_THAT(map_vector({-0x1p31}, DType::kI32, DType::kI32, [](Kernel&, Tile x) { return -x; }),
              ElementsAre(-0x1p31));
  EXPECT_THAT(map_vector({-7, 7}, DType::kI32, DType::kI32,
                         [](Kernel&, Tile x) { return floor_div(x, 2); }),
              ElementsAre(-4, 3));
  EXPECT_THAT(
      map_vector({-7, 7}, DType::kI32, DType::kI32, [](Kernel&, Tile x) { return mod(x, 4); }),
      ElementsAre(1, 3));
  EXPECT_THAT(map_vector({0xD2511F53}, DType::kU32, DType::kU32,
                         [](Kernel&, Tile x) { return mul_hi(x, x); }),
              ElementsAre(static_cast<double>((uint64_t{0xD2511F53} * 0xD2511F53) >> 32)));
}

TEST(Interp, ShiftsOutOfRangeAreErrors) {
  auto program = once({tensor("y", DType::kI32, {1}, Role::kOut), tensor("x", DType::kI32, {1})},
                      [](Kernel& k) { k.store(k["y"](all), shl(k.load(k["x"](all)), 32)); });
  InterpTensors tensors{{"x", {{1}, {1}}}};
  EXPECT_THAT(run(program, tensors).str(), HasSubstr("shift out of range"));
}

// Every element-wise function of the language against the C library.
TEST(Interp, ElementwiseFunctions) {
  struct Function {
    const char* name;
    Tile (*tile)(const Tile&, Where);
    double (*real)(double);
  };
  const Function functions[] = {
      {"abs", abs, std::fabs},   {"floor", floor, std::floor}, {"exp", exp, std::exp},
      {"exp2", exp2, std::exp2}, {"log", log, std::log},       {"log2", log2, std::log2},
      {"sqrt", sqrt, std::sqrt}, {"tanh", tanh, std::tanh},    {"erf", erf, std::erf},
      {"sin", sin, std::sin},    {"cos", cos, std::cos}};
  const std::vector<double> x = {0.25, 1.5, 7};
  for (const Function& f : functions) {
    const auto y = map_vector(
        x, DType::kF32, DType::kF32, [&](Kernel&, Tile t) { return f.tile(t, Where()); }, kExact);
    for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(y[i], f.real(x[i])) << f.name;
  }
  EXPECT_THAT(map_vector({4}, DType::kF32, DType::kF32,
                         [](Kernel&, Tile t) { return rsqrt(t) + recip(t); }),
              ElementsAre(0.75));
}

// ---- misuse
// ------------------------------------------------------------------------------------------------

TEST(Interp, OutputsMustBeWrittenEverywhere) {
  const Expr n = sym("n");
  auto program =
      once({tensor("y", DType::kF32, {n}, Role::kOut), tensor("x", DType::kF32, {n})},
           [&](Kernel& k) { k.store(k["y"](range(0, n - 1)), k.load(k["x"](range(0, n - 1)))); });
  InterpTensors tensors{{"x", {{3}, {1, 2, 3}}}};
  Status status = run(program, tensors);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.diag().code, ErrorCode::kUnwritten);
  EXPECT_EQ(status.diag().found, "y[2] is never stored");
  InterpOptions lenient = kDeclared;
  lenient.outputs_complete = false;
  EXPECT_TRUE(run(program, tensors, lenient).ok());
  EXPECT_TRUE(std::isnan(tensors["y"].data[2]));
}

TEST(Interp, ReadingUnwrittenWorkspaceIsAnError) {
  const Expr n = sym("n");
  Kernel k(interface("late", {tensor("y", DType::kF32, {n}, Role::kOut)}));
  Tensor w = k.workspace("w", DType::kF32, {n});
  k.tiles({{"once", 1}}, [&](Index) { k.store(w(0), k.full({}, 1)); });
  k.tiles({{"once", 1}}, [&](Index) { k.store(k["y"](all), k.load(w(all))); });
  InterpTensors tensors;
  const Status status = run(k.finish(), tensors, kDeclared, {{"n", 2}});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.diag().code, ErrorCode::kUnwritten);
  EXPECT_EQ(status.diag().found, "w[1]");
}

TEST(Interp, TilesOfOnePhaseMustNotShareWrites) {
  const Expr n = sym("n");
  auto racy = [&](const std::function<void(Kernel&, Index)>& body) {
    Kernel k(interface("racy", {tensor("y", DType::kF32, {n}, Role::kInOut)}));
    k.tiles({{"i", n}}, [&](Index i) { body(k, i); });
    InterpTensors tensors{{"y", {{3}, {1, 2, 3}}}};
    const Status status = run(k.finish(), tensors);
    return status.ok() ? std::string("ok")
                       : std::string(code_text(status.diag().code)) + " " + status.diag().found;
  };
  const Index last = n - 1;
  EXPECT_EQ(racy([&](Kernel& k, Index) { k.store(k["y"](0), k.full({}, 1)); }), "RT-V004 y[0]");
  EXPECT_EQ(racy([&](Kernel& k, Index) { k.store_add(k["y"](0), k.full({}, 1)); }), "ok");
  EXPECT_EQ(racy([&](Kernel& k, Index i) { k.store(k["y"](i), k.load(k["y"](max(i - 1, 0)))); }),
            "RT-V004 y[0]");
  EXPECT_EQ(racy([&](Kernel& k, Index i) { k.store(k["y"](i), k.load(k["y"](min(i + 1, last)))); }),
            "RT-V004 y[1]");
  EXPECT_EQ(racy([&](Kernel& k, Index i) { k.store(k["y"](i), k.load(k["y"](i)) * 2.0); }), "ok");
}

TEST(Interp, MissingValuesAreNamed) {
  auto program = build_rms_norm();
  InterpTensors tensors{{"x", {{1, 3}, {1, 2, 2}}}, {"weight", {{3}, {1, 2, 3}}}};
  EXPECT_THAT(run(program, tensors).str(), HasSubstr("the float attribute `eps` has no value"));
  tensors.erase("weight");
  EXPECT_THAT(run(program, tensors, kDeclared, {}, {{"eps", 1}}).str(),
              HasSubstr("the input `weight` is missing"));
  tensors["weight"] = {{2}, {1, 2}};
  EXPECT_THAT(run(program, tensors, kDeclared, {}, {{"eps", 1}}).str(),
              HasSubstr("another shape than the contract"));
  EXPECT_THAT(run(build_gemm(), tensors).str(), HasSubstr("has no value"));
}

TEST(Interp, NegativeExtentsAreErrors) {
  const Expr n = sym("n");
  auto program = once({tensor("y", DType::kF32, {n}, Role::kInOut)},
                      [&](Kernel& k) { k.store(k["y"](range(0, n - 5)), k.full({n - 5}, 0)); });
  InterpTensors tensors{{"y", {{2}, {0, 0}}}};
  EXPECT_THAT(run(program, tensors).str(), HasSubstr("negative extent `n - 5`"));
}

}  // namespace
}  // namespace rooftile::ir
