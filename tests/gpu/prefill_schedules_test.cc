// SPDX-License-Identifier: Apache-2.0
// Packed prefill under the schedules that it may take: the same numbers in the emulator, whatever
// the order of events, and nothing of a neighbour's keys, which are NaN.
#include <gtest/gtest.h>

#include <algorithm>

#include "rooftile/codegen/gpu/lower.h"
#include "rooftile/compile/schedule_change.h"
#include "rooftile/compile/target.h"
#include "rooftile/verify/testing/group_release.h"
#include "tests/gpu/emulated_call.h"

namespace rooftile {
namespace {

Result<codegen::GpuVariant> lowered(const OpDef& op, const RefCall& call,
                                    const std::string& changes) {
  const KernelDef& kernel = *op.candidates(call.config, call.dims, sm90_target()).front();
  Schedule schedule = kernel.schedule(call.config, call.dims, sm90_target());
  RT_RETURN_IF_ERROR(change_schedule(schedule, changes));
  Result<ir::Program> program = op.build(kernel, call.config);
  if (!program.ok()) return program.diag();
  std::map<std::string, Expr, std::less<>> values;
  for (const auto& [param, value] : schedule.tile) values.emplace(param, Expr(value));
  ir::Program specialised = ir::substitute_symbols(*program, values);
  specialised.tile_params.clear();
  auto lanes = codegen::lower_gpu(specialised, "kernel", schedule);
  if (!lanes.ok()) return lanes.diag();
  return std::move(lanes->variants[0]);
}

struct Variation {
  const char *name, *changes, *text;
};

void PrintTo(const Variation& v, std::ostream* out) { *out << v.name; }

class PrefillSchedules : public ::testing::TestWithParam<Variation> {};

TEST_P(PrefillSchedules, Agree) {
  const OpDef& op = *find_op("attention_prefill");
  for (const uint64_t seed : {1, 2, 3, 4}) {
    auto emulated = testing::EmulatedCase::make(op, GetParam().text, seed);
    ASSERT_TRUE(emulated.ok()) << emulated.diag().str();
    auto variant = lowered(op, emulated->call(), GetParam().changes);
    ASSERT_TRUE(variant.ok()) << variant.diag().str();
    auto result = emulated->run(*variant, false, seed);
    ASSERT_TRUE(result.ok()) << result.diag().str();
    EXPECT_TRUE(result->pass) << result->reason;
  }
}

// Blocks of queries that see no key at all, among others that do: their groups take the queries and
// start no product.
constexpr const char* kUnseen = "Tq=1500 Tk=30 B1=3 cu_q=1 cu_k=1 Hq=2 Hkv=1 D=64 causal=1 lse=1";
constexpr const char* kPacked = "Tq=150 Tk=210 B1=5 cu_q=1 cu_k=1 Hq=2 Hkv=1 D=64 causal=1 lse=1";

// The same kernel with the queries given back for a whole group, of which a warp may be late: some
// order of events shows it.
TEST(PrefillSchedules, LateWarpsAreSeen) {
  const OpDef& op = *find_op("attention_prefill");
  int told = 0;
  for (uint64_t seed = 1; seed <= 24 && told == 0; ++seed) {
    auto emulated = testing::EmulatedCase::make(op, kUnseen, seed);
    ASSERT_TRUE(emulated.ok()) << emulated.diag().str();
    auto variant = lowered(op, emulated->call(), "grid=persistent depth=2");
    ASSERT_TRUE(variant.ok()) << variant.diag().str();
    ASSERT_TRUE(verify::testing::release_for_the_group(variant->phases[1], "q"));
    told += emulated->run(*variant, false, seed).ok() ? 0 : 1;
  }
  EXPECT_EQ(told, 1);
}

INSTANTIATE_TEST_SUITE_P(
    Plans, PrefillSchedules,
    ::testing::Values(
        Variation{"Cover", "grid=cover", kPacked}, Variation{"FromRegisters", "staging=0", kPacked},
        Variation{"Persistent", "grid=persistent depth=2 turns=none order=none", kPacked},
        Variation{"HeadsFastest", "grid=cover order=hkv+t+g turns=none depth=1", kPacked},
        Variation{"AsItIs", "depth=2", kPacked},
        Variation{"Walk", "grid=persistent depth=2", kPacked},
        Variation{"Unseen", "grid=persistent depth=2", kUnseen},
        Variation{"UnseenCover", "grid=cover", kUnseen},
        Variation{"OneGroup", "BM=64 groups=1 BN=64 TRIM=64 regs=0/0 turns=none", kPacked}),
    [](const auto& param_info) { return std::string(param_info.param.name); });

}  // namespace
}  // namespace rooftile
