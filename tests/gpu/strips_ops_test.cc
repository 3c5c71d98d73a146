// SPDX-License-Identifier: Apache-2.0
// Every operator through strips: smoke cases in the emulator against the float64 reference, both
// variants, two layouts, other seeds of the thread schedule each time.
#include <gtest/gtest.h>

#include "tests/gpu/emulated_call.h"

namespace rooftile {
namespace {

class StripsOps : public ::testing::TestWithParam<std::string> {};

TEST_P(StripsOps, SmokeCasesMatchTheReference) {
  const OpDef& op = *find_op(GetParam());
  uint64_t seed = 1;
  for (const Case& test_case : op.case_list) {
    if (!test_case.tagged("smoke")) continue;
    SCOPED_TRACE(op.name + " " + test_case.text);
    auto emulated = testing::EmulatedCase::make(op, test_case.text, ++seed);
    ASSERT_TRUE(emulated.ok()) << emulated.diag().str();
    const RefCall& call = emulated->call();
    for (const KernelDef* tile :
         op.candidates(call.config, call.dims, sm90_target(), Route::kTile)) {
      const KernelDef& kernel = *tile;
      SCOPED_TRACE(kernel.name);
      const Schedule first = kernel.schedule(call.config, call.dims, sm90_target());
      std::vector<Schedule> schedules = first.otherwise;
      schedules.insert(schedules.begin(), first);
      for (const Schedule& schedule : schedules) {
        if (!schedule.gpu.roles.empty()) continue;  // fragments
        SCOPED_TRACE(schedule.str());
        auto variants = testing::lower_case(op, kernel, call, schedule);
        ASSERT_TRUE(variants.ok()) << variants.diag().str();
        for (const codegen::GpuVariant& variant : *variants) {
          if (!emulated->meets(variant.needs)) continue;
          for (const bool padded : {false, true}) {
            if (padded && !variant.needs.aligned.empty()) continue;
            SCOPED_TRACE(variant.phases[0].name + (padded ? " padded" : ""));
            auto result = emulated->run(variant, padded, ++seed);
            ASSERT_TRUE(result.ok()) << result.diag().str();
            EXPECT_TRUE(result->pass) << result->reason;
          }
        }
        break;
      }
    }
  }
}

std::vector<std::string> names() {
  std::vector<std::string> out;
  for (const OpDef& op : all_ops()) out.push_back(op.name);
  return out;
}

INSTANTIATE_TEST_SUITE_P(All, StripsOps, ::testing::ValuesIn(names()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace rooftile
