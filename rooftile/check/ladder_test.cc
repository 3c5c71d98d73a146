// SPDX-License-Identifier: Apache-2.0
// The smoke set of every operator up the ladder, in this process; and what the ladder's own choices
// mean.
#include "rooftile/check/ladder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "rooftile/check/case_inputs.h"

namespace rooftile::check {
namespace {

class Ladder : public testing::TestWithParam<std::string> {};

TEST_P(Ladder, SmokeSetPasses) {
  const OpDef* op = find_op(GetParam());
  ASSERT_NE(op, nullptr);
  std::set<std::string> ids;
  auto tally = run_ladder(*op, {}, [&](const CheckLine& line) {
    EXPECT_TRUE(line.pass() || !line.skipped.empty()) << line.text();
    EXPECT_TRUE(ids.insert(line.id).second) << "two results have the id " << line.id;
  });
  ASSERT_TRUE(tally.ok()) << tally.diag().str();
  EXPECT_GT(tally->passed, 0) << "nothing was checked";
}

std::vector<std::string> op_names() {
  std::vector<std::string> names;
  for (const OpDef& op : all_ops()) names.push_back(op.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Ops, Ladder, testing::ValuesIn(op_names()),
                         [](const auto& op) { return op.param; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Ladder);

// The kernels for a GPU, each under orders of events of its own.
class EmulatedGpu : public testing::TestWithParam<std::string> {};

TEST_P(EmulatedGpu, SmokeSetPassesUnderSeveralOrders) {
  const LadderOptions options = {.target = "sm90-emulated", .runs = 3};
  auto tally = run_ladder(*find_op(GetParam()), options, [&](const CheckLine& line) {
    EXPECT_TRUE(line.pass() || !line.skipped.empty()) << line.text();
  });
  ASSERT_TRUE(tally.ok()) << tally.diag().str();
  EXPECT_GT(tally->passed, 0) << "nothing was checked";
}

INSTANTIATE_TEST_SUITE_P(Ops, EmulatedGpu, testing::ValuesIn(op_names()),
                         [](const auto& op) { return op.param; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(EmulatedGpu);

// y = x + 1 with a reference that says otherwise for large x.
OpDef wrong_op(double reference_offset) {
  const Expr N = Expr::sym("N");
  OpDef op("test", "plus_one", "adds one");
  op.out({.name = "y", .shape = {N}, .same_dtype_as = "x"})
      .in({.name = "x", .shape = {N}, .dtypes = {DType::kF32}})
      .reference([reference_offset](RefCall& call) {
        for (size_t i = 0; i < call["x"].data.size(); ++i)
          call["y"].data[i] = call["x"].data[i] + reference_offset;
      })
      .cost([](const RefCall& call) {
        return Cost{static_cast<double>(call.dim("N")), 0};
      })
      .tolerance([](const RefCall&) {
        return Tolerance{1e-6, 1e-6, 1e-6, "one rounding"};
      })
      .kernel({.name = "flat",
               .build =
                   [](dsl::Kernel& k, const Config&) {
                     k.tiles({"block", ceil_div(k.dim("N"), 16)}, [&](dsl::Index i) {
                       const dsl::Range part = dsl::block(i, 16, k.dim("N"));
                       k.store(k["y"](part), k.load(k["x"](part)) + 1.0);
                     });
                   }})
      .cases("N=37 : smoke\nN=100000000 : llm\n");
  return op;
}

TEST(LadderDriver, ReportsEveryFieldOfAResult) {
  std::vector<nlohmann::json> lines;
  auto tally = run_ladder(
      wrong_op(1), {.rung = Rung::kInterp, .seed = 5},
      [&](const CheckLine& line) { lines.push_back(nlohmann::json::parse(line.json_line())); });
  ASSERT_TRUE(tally.ok()) << tally.diag().str();
  ASSERT_EQ(lines.size(), 1u);
  for (const char* field : {"op", "kernel", "target", "rung", "dtype", "case", "max_abs", "max_rel",
                            "norm_err", "tol", "pass"})
    EXPECT_TRUE(lines[0].contains(field)) << field;
  EXPECT_EQ(lines[0]["pass"], true);
  EXPECT_EQ(lines[0]["id"], "plus_one/interp/cpu/f32/N37");
  EXPECT_EQ(lines[0]["seed"], 5);
}

TEST(LadderDriver, AWrongResultFailsWithItsFirstBadElement) {
  CheckLine last;
  auto tally = run_ladder(wrong_op(1.5), {.rung = Rung::kInterp},
                          [&](const CheckLine& line) { last = line; });
  ASSERT_TRUE(tally.ok());
  EXPECT_EQ(tally->failed, 1);
  EXPECT_EQ(last.first_bad, "[0]");
  EXPECT_NEAR(last.errors.want - last.errors.got, 0.5, 1e-9);
  EXPECT_THAT(last.text(), testing::HasSubstr("--seed"));
}

TEST(LadderDriver, SkipsWhatTakesTooLongAndSaysSo) {
  CheckLine last;
  auto tally =
      run_ladder(wrong_op(1), {.set = "llm", .rung = Rung::kInterp, .max_reference_flops = 1e6},
                 [&](const CheckLine& line) { last = line; });
  ASSERT_TRUE(tally.ok());
  EXPECT_EQ(tally->skipped, 1);
  EXPECT_EQ(tally->passed + tally->failed, 0);
  EXPECT_THAT(last.skipped, testing::HasSubstr("reference would take"));
}

TEST(LadderDriver, KnowsItsTargets) {
  EXPECT_TRUE(target_named("cpu").ok());
  auto generic = target_named("cpu-generic");
  ASSERT_TRUE(generic.ok());
  EXPECT_EQ(generic->isa, "generic");
  EXPECT_FALSE(generic->amx_bf16 || generic->avx512_bf16 || generic->avx512_vnni);
  auto unknown = target_named("tpu");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.diag().code, ErrorCode::kUsage);
}

TEST(ReducedCall, StaysWithinTheContract) {
  const Expr M = Expr::sym("M"), K = Expr::sym("K");
  OpDef op("test", "product", "");
  op.in({.name = "x", .shape = {M, K}, .dtypes = {DType::kF32}})
      .needs(K % 64 == 0, "")
      .cost([](const RefCall& call) {
        return Cost{static_cast<double>(call.dim("M")) * static_cast<double>(call.dim("K")), 0};
      });
  RefCall call;
  call.dims = {{"M", 1000}, {"K", 4096}};
  call.config.dtypes["x"] = DType::kF32;
  const RefCall smaller =
      reduced_call(op, call, 5000, [](const RefCall& c) { return c.dim("M") >= 60; });
  EXPECT_EQ(smaller.dim("K") % 64, 0);
  EXPECT_GE(smaller.dim("M"), 60);
  EXPECT_LE(smaller.dim("M") * smaller.dim("K"), 5000);
  EXPECT_EQ(reduced_call(op, call, 1e9, [](const RefCall&) { return true; }).dims, call.dims);
}

}  // namespace
}  // namespace rooftile::check
