// SPDX-License-Identifier: Apache-2.0
// Products whose sums meet in a workspace, through the whole pipeline: the launcher's workspaces,
// their sizes over dims and multiprocessors, and the numbers, in the emulator.
#include <gmock/gmock.h>

#include "rooftile/check/executor.h"
#include "rooftile/check/judge.h"
#include "rooftile/compile/kernel.h"
#include "rooftile/compile/schedule_change.h"
#include "rooftile/compile/target.h"
#include "rooftile/ops/reference_case.h"

namespace rooftile {
namespace {

using ::testing::ElementsAre;

struct SplitCase {
  const char *op, *shape, *changes;
};

void PrintTo(const SplitCase& c, std::ostream* out) { *out << c.op << " " << c.changes; }

class GridSplit : public ::testing::TestWithParam<SplitCase> {};

TEST_P(GridSplit, SumsMeetInAWorkspace) {
  const OpDef& op = *find_op(GetParam().op);
  const TargetInfo& target = sm90_target();
  RefCall call = ops::reference_case(op.name, GetParam().shape);
  const KernelDef& kernel = *op.candidates(call.config, call.dims, target, Route::kTile).at(0);
  Schedule schedule = kernel.schedule(call.config, call.dims, target);
  ASSERT_TRUE(change_schedule(schedule, GetParam().changes).ok());
  Result<KernelSource> source =
      generate(op, kernel, call.config, call.dims, target, &schedule, Route::kTile);
  ASSERT_TRUE(source.ok()) << source.diag().str();
  EXPECT_THAT(source->zeroed, ElementsAre("tickets"));
  const Result<check::Implementation> run =
      check::emulator_executor(/*seed=*/5)->prepare(std::move(*source));
  ASSERT_TRUE(run.ok()) << run.diag().str();
  RefCall expected = call;
  op.reference_fn(expected);
  const check::Verdict verdict =
      check::judge({op, call, expected, op.tolerance_fn(expected)}, *run);
  EXPECT_TRUE(verdict.pass()) << verdict.comparison.reason;
}

INSTANTIATE_TEST_SUITE_P(
    Plans, GridSplit,
    ::testing::Values(
        SplitCase{"gemm", "M=72 N=72 K=200 dtype=bf16 c=1 activation=relu",
                  "split=kk:stream:2 grid=persistent"},
        SplitCase{"gemm", "M=66 N=20 K=272 a=i8 d=i32", "split=kk:grid:2 grid=persistent"},
        SplitCase{"gated_mlp", "M=66 I=24 K=136 dtype=bf16", "split=kk:grid:2 grid=persistent"}),
    [](const auto& param_info) {
      return std::string(param_info.param.op) + std::to_string(param_info.index);
    });

}  // namespace
}  // namespace rooftile
