// SPDX-License-Identifier: Apache-2.0
// Declarations, configs and cases of an operator; and, for every operator of the tree, that its
// programs build under the configs of its cases and read back from their text.
#include "rooftile/ops/op_def.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "rooftile/check/case_inputs.h"
#include "rooftile/compile/arg_layout.h"

namespace rooftile {
namespace {

using dsl::Kernel;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<DType> kFloats = {DType::kBf16, DType::kF16, DType::kF32};

// out = x * scale (+ bias), in either layout.
OpDef scale_op() {
  const Expr T = Expr::sym("T"), H = Expr::sym("H"), V = Expr::sym("V");
  OpDef op("demo", "scale", "scales rows");
  op.out({.name = "out", .shape = {T, H}, .same_dtype_as = "x"})
      .in({.name = "x", .shape = {select(Expr::sym("flat") == 1, T * H, T)}, .dtypes = kFloats})
      .in({.name = "bias",
           .shape = {V},
           .dtypes = {DType::kF32},
           .optional = true,
           .may_alias = {"x"}})
      .in({.name = "ids", .shape = {T}, .dtypes = {DType::kI32, DType::kI64}})
      .attr({.name = "scale", .default_value = 1, .min = 0, .max = 10, .has_range = true})
      .int_attr({.name = "seed", .min = 0, .max = 0x1p63, .has_range = true})
      .flag("flat", false, "x is one vector")
      .choice("act", {"none", "relu"}, "")
      .needs(H % 8 == 0, "vectors of 8")
      .needs(V == H, "bias is a row")
      .needs(Expr::sym("flat") == 0 || Expr::sym("act") == 0, "flat has no activation")
      .index_range_or("ids", 0, V, -1, "rows of bias")
      .limit("T", 1 << 20)
      .refuse([](const Config& c) -> Status {
        if (c.flag("act") == 0 || c.dtype("x") != DType::kF16) return {};
        Diag diag;
        diag.code = ErrorCode::kUnsupported;
        diag.message = "relu has no f16 form";
        return diag;
      })
      .kernel({.name = "row", .build = [](Kernel& k, const Config& config) {
                 k.tiles({"row", k.dim("T")}, [&](dsl::Index row) {
                   dsl::Tile x = k.load(config.flag("flat") != 0 ? k["x"](dsl::range(row, 1))
                                                                 : k["x"](dsl::range(row, 1)));
                   x = x * k.scalar("scale");
                   if (config.has("bias")) x = x + k.load(k["bias"](dsl::range(0, k.dim("H"))));
                   k.store(k["out"](row, dsl::all), k.full({k.dim("H")}, 0) + x);
                 });
               }});
  return op;
}

// ---- configs
// -----------------------------------------------------------------------------------------------

TEST(OpDef, CompleteFillsInDefaults) {
  const OpDef op = scale_op();
  const Config config = op.complete({});
  EXPECT_EQ(config.dtype("x"), DType::kBf16);
  EXPECT_EQ(config.dtype("out"), DType::kBf16);
  EXPECT_FALSE(config.has("bias"));
  EXPECT_TRUE(config.has("x"));
  EXPECT_EQ(config.str(), "ids=i32,out=bf16,x=bf16,act=0,flat=0,bias=absent");
  EXPECT_EQ(op.complete({.dtypes = {{"x", DType::kF16}}}).dtype("out"), DType::kF16);
}

struct Refusal {
  Config config;
  ErrorCode code;
  const char* argument;
  const char* found;
  const char* expected;
};

TEST(OpDef, CheckConfigNamesArgumentFoundAndExpected) {
  const OpDef op = scale_op();
  const Refusal refusals[] = {
      {{.dtypes = {{"x", DType::kI8}, {"out", DType::kI8}}},
       ErrorCode::kDType,
       "x",
       "i8",
       "bf16, f16, f32"},
      {{.dtypes = {{"out", DType::kF32}}}, ErrorCode::kDType, "out", "f32", "bf16"},
      {{.dtypes = {{"ids", DType::kF32}}}, ErrorCode::kDType, "ids", "f32", "i32, i64"},
      {{.dtypes = {{"y", DType::kF32}}},
       ErrorCode::kUnsupported,
       "y",
       "y",
       "a name that the operator declares"},
      {{.flags = {{"flap", 1}}},
       ErrorCode::kUnsupported,
       "flap",
       "flap",
       "a name that the operator declares"},
      {{.flags = {{"act", 2}}}, ErrorCode::kUnsupported, "act", "2", "0 to 1 (none, relu)"},
      {{.flags = {{"flat", -1}}}, ErrorCode::kUnsupported, "flat", "-1", "0 to 1 (0, 1)"},
      {{.present = {{"x", false}}}, ErrorCode::kUnsupported, "x", "absent", "given"},
  };
  for (const Refusal& refusal : refusals) {
    const Status status = op.check_config(refusal.config);
    ASSERT_FALSE(status.ok()) << refusal.argument;
    EXPECT_EQ(status.diag().code, refusal.code) << status.str();
    EXPECT_EQ(status.diag().subject, "scale");
    EXPECT_EQ(status.diag().argument, refusal.argument);
    EXPECT_EQ(status.diag().found, refusal.found);
    EXPECT_EQ(status.diag().expected, refusal.expected);
  }
  EXPECT_TRUE(op.check_config({}).ok());
  // A dtype of a tensor that is not given cannot be wrong.
  EXPECT_TRUE(op.check_config({.dtypes = {{"bias", DType::kI8}}}).ok());
}

TEST(OpDef, RefusalsSeeTheCompleteConfig) {
  const OpDef op = scale_op();
  const Status status = op.check_config({.dtypes = {{"x", DType::kF16}}, .flags = {{"act", 1}}});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.str(), "error[RT-C015]: scale: relu has no f16 form");
}

// ---- programs
// ----------------------------------------------------------------------------------------------

TEST(OpDef, BuildLeavesOutWhatTheConfigLeavesOut) {
  const OpDef op = scale_op();
  auto program = op.build(op.kernels[0], {});
  ASSERT_TRUE(program.ok()) << program.diag().str();
  EXPECT_EQ(program->tensor("bias"), nullptr);
  std::vector<std::string> reasons;
  for (const ir::Clause& clause : program->clauses) reasons.push_back(clause.why);
  // Without bias nothing binds V, so the clauses about V say nothing.
  EXPECT_THAT(reasons, ElementsAre("vectors of 8", "T is at most 1048576"));
  EXPECT_EQ(program->tensor("x")->align_bytes, 2);
  EXPECT_EQ(program->tensor("x")->shape[0].str(), "T");
  ASSERT_NE(program->scalar("seed"), nullptr);
  EXPECT_TRUE(program->scalar("seed")->max.is_const(INT64_MAX));

  program = op.build(op.kernels[0], {.present = {{"bias", true}}});
  ASSERT_TRUE(program.ok()) << program.diag().str();
  EXPECT_EQ(program->clauses.size(), 4u);
  EXPECT_TRUE(program->clauses[2].has_except);
  EXPECT_THAT(program->tensor("bias")->may_alias, ElementsAre("x"));
}

TEST(OpDef, FlagsInShapesAndConditionsAreResolved) {
  const OpDef op = scale_op();
  auto program = op.build(op.kernels[0], {.flags = {{"flat", 1}}});
  ASSERT_TRUE(program.ok()) << program.diag().str();
  EXPECT_EQ(program->tensor("x")->shape[0].str(), "T * H");
  program = op.build(op.kernels[0], {.flags = {{"flat", 1}, {"act", 1}}});
  ASSERT_FALSE(program.ok());
  EXPECT_EQ(program.diag().code, ErrorCode::kUnsupported);
  EXPECT_EQ(program.diag().message, "flat has no activation");
}

// ---- calls and cases
// ---------------------------------------------------------------------------------------

TEST(OpDef, CaseLines) {
  OpDef op = scale_op();
  op.cases(
      "# comment\n"
      "T=8  H=64 dtype=bf16 : smoke, ci\n"
      "\n"
      "T=1 act=relu # no tags\n"
      "  : full\n");
  ASSERT_EQ(op.case_list.size(), 3u);
  EXPECT_EQ(op.case_list[0].text, "T=8 H=64 dtype=bf16");
  EXPECT_EQ(op.case_list[0].values.at("dtype"), "bf16");
  EXPECT_TRUE(op.case_list[0].tagged("ci"));
  EXPECT_FALSE(op.case_list[0].tagged("full"));
  EXPECT_EQ(op.case_list[1].values.at("act"), "relu");
  EXPECT_TRUE(op.case_list[1].tags.empty());
  EXPECT_TRUE(op.case_list[2].tagged("full"));
}

TEST(OpDef, RefCallLookups) {
  RefCall call;
  call.dims["T"] = 4;
  call.attrs["eps"] = 0.5;
  call["x"].data = {1, 2};
  EXPECT_EQ(call.dim("T"), 4);
  EXPECT_EQ(call.attr("eps"), 0.5);
  EXPECT_EQ(call.attr("T"), 4);
  EXPECT_TRUE(std::isnan(call.attr("none")));
  EXPECT_TRUE(call.has("x"));
  EXPECT_FALSE(call.has("y"));
  const RefCall& view = call;
  EXPECT_EQ(view["x"].numel(), 2);
  EXPECT_EQ(view["y"].numel(), 0);
}

TEST(Schedule, PrintsWhatDiffersFromTheDefault) {
  Schedule s;
  s.name = "rows";
  EXPECT_EQ(s.str(), "rows");
  s.tile = {{"BM", 32}, {"BN", 64}};
  s.mma = {{"qk", MmaMechanism::kAmx}};
  s.operand = {{"b", OperandForm::kPrepacked}};
  s.keep = {"p", "s"};
  s.fuse = false;
  s.threads = 2;
  EXPECT_EQ(
      s.str(),
      "rows tile(BM=32, BN=64) mma(qk=amx) operand(b=prepacked) keep(p, s) fuse(0) threads(2)");
}

TEST(TargetInfo, KeyTellsTargetsApart) {
  TargetInfo target;
  const std::string generic = target.key();
  target.avx512_bf16 = true;
  EXPECT_NE(target.key(), generic);
  EXPECT_THAT(target.key(), HasSubstr("+avx512_bf16"));
}

// ---- every operator of the tree
// ----------------------------------------------------------------------------

TEST(AllOps, AreFoundByName) {
  for (const OpDef& op : all_ops()) EXPECT_EQ(find_op(op.name), &op);
  EXPECT_EQ(find_op("no_such_op"), nullptr);
}

void expect_round_trip(const OpDef& op, const KernelDef& kernel, const Config& config) {
  SCOPED_TRACE(op.name + "/" + kernel.name + " " + config.str());
  auto program = op.build(kernel, config);
  ASSERT_TRUE(program.ok()) << program.diag().str();
  const std::string text = ir::print(*program);
  auto back = ir::parse(text);
  ASSERT_TRUE(back.ok()) << back.diag().str() << "\n" << text;
  EXPECT_EQ(ir::print(*back), text);
  auto layout = arg_layout(*program);
  EXPECT_TRUE(layout.ok()) << layout.diag().str();
}

TEST(AllOps, EveryProgramOfEveryCaseRoundTrips) {
  for (const OpDef& op : all_ops()) {
    std::set<std::string> seen;  // cases differ in shapes more than in configs
    for (const Case& test_case : op.case_list) {
      auto call = check::resolve_case(op, test_case);
      ASSERT_TRUE(call.ok()) << op.name << " " << test_case.text << "\n" << call.diag().str();
      const Config config = op.complete(call->config);
      for (const KernelDef* kernel : op.candidates(config, call->dims, host_target(), Route::kTile))
        if (seen.insert(kernel->name + config.str()).second) expect_round_trip(op, *kernel, config);
    }
    EXPECT_FALSE(seen.empty()) << op.name << " has no case";
  }
}

}  // namespace
}  // namespace rooftile
