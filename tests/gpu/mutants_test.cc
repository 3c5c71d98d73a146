// SPDX-License-Identifier: Apache-2.0
// Mistakes in a kernel that the compiler makes: the emulator tells on each of them, by a report or
// by wrong numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "rooftile/codegen/gpu/lower.h"
#include "rooftile/compile/target.h"
#include "rooftile/emulate/mutate.h"
#include "tests/gpu/emulated_call.h"

namespace rooftile {
namespace {

struct Subject {
  std::string op, kernel, text;
  std::function<void(Schedule&)> edit;
};

Result<codegen::GpuVariant> lowered(const Subject& subject, const RefCall& call) {
  const OpDef& op = *find_op(subject.op);
  const auto kernel = std::find_if(op.kernels.begin(), op.kernels.end(),
                                   [&](const KernelDef& k) { return k.name == subject.kernel; });
  Result<ir::Program> program = op.build(*kernel, call.config);
  if (!program.ok()) return program.diag();
  Schedule schedule = kernel->schedule(call.config, call.dims, sm90_target());
  if (subject.edit) subject.edit(schedule);
  std::map<std::string, Expr, std::less<>> values;
  for (const auto& [param, value] : schedule.tile) values.emplace(param, Expr(value));
  ir::Program specialised = ir::substitute_symbols(*program, values);
  specialised.tile_params.clear();
  Result<codegen::GpuKernelLanes> lanes = codegen::lower_gpu(specialised, "kernel", schedule);
  if (!lanes.ok()) return lanes.diag();
  return std::move(lanes->variants[0]);
}

struct Outcome {
  int told = 0;
  std::vector<std::string> unnoticed;
};

// Every mutant of every phase, under some seeds each.
Outcome hunt(const Subject& subject, uint64_t seeds) {
  Outcome out;
  auto emulated = testing::EmulatedCase::make(*find_op(subject.op), subject.text, 1);
  auto variant = emulated.ok() ? lowered(subject, emulated->call()) : emulated.status();
  EXPECT_TRUE(variant.ok()) << variant.diag().str();
  if (!variant.ok()) return out;
  for (size_t phase = 0; phase < variant->phases.size(); ++phase)
    for (emulate::Mutant& mutant : emulate::mutants(variant->phases[phase])) {
      // Harmless to what one run can show as often as not: they are for the provers.
      if (mutant.kind == emulate::Mutation::kDoubleWrite ||
          mutant.kind == emulate::Mutation::kDropBranch ||
          mutant.kind == emulate::Mutation::kNarrowIndex)
        continue;
      codegen::GpuVariant changed = *variant;
      changed.phases[phase] = std::move(mutant.program);
      std::string told;
      for (uint64_t seed = 1; seed <= seeds && told.empty(); ++seed) {
        auto result = emulated->run(changed, false, seed);
        if (!result.ok())
          told = result.diag().str();
        else if (!result->pass)
          told = "wrong numbers: " + result->reason;
      }
      const std::string name = std::string(mutation_name(mutant.kind)) + " at " + mutant.site;
      if (told.empty())
        out.unnoticed.push_back(name);
      else
        ++out.told;
    }
  return out;
}

TEST(GpuMutants, GemmOfACluster) {
  const Outcome out = hunt(
      {"gemm", "large_m", "M=260 N=136 K=456",
       [](Schedule& s) {
         s.tile["BM"] = 128;
         s.tile["BN"] = 64;
         s.gpu.roles[1].groups = 2;
         s.gpu.roles[0].regs = 40;
         s.gpu.roles[1].regs = 232;
         s.gpu.cluster = {{"i", 2}};
         s.gpu.copy["b"].multicast = true;
         s.gpu.rings[0].depth = 2;
         s.gpu.copy["d"] = {.via = gpu::Via::kTma, .staging_columns = 64, .staging_buffers = 2};
       }},
      4);
  EXPECT_THAT(out.unnoticed, ::testing::ElementsAre());
  EXPECT_GE(out.told, 40);
}

// Keys gathered by threads, values by boxes of the copy engine, sequences of all kinds of lengths.
TEST(GpuMutants, PagedDecode) {
  const Outcome out = hunt({"attention_decode", "single",
                            "B=7 P=60 S=16 MP=9 block_table=1 kv_layout=paged Hq=2 Hkv=1 D=64",
                            [](Schedule& s) {
                              s.gpu.copy["k"].via = gpu::Via::kCpAsync;
                              s.gpu.copy["v"].via = gpu::Via::kTma;
                              for (gpu::Ring& ring : s.gpu.rings)
                                if (ring.depth > 2) ring.depth = 2;
                            }},
                           4);
  using ::testing::StartsWith;
  EXPECT_THAT(out.unnoticed, ::testing::UnorderedElementsAre(
                                 // The one slot of q is filled once.
                                 StartsWith("wait dropped at mbarrier.wait.parity &empty_q"),
                                 StartsWith("one arrival more at mbarrier.init &empty_q"),
                                 StartsWith("one arrival less at mbarrier.init &empty_q"),
                                 // Lanes of a warp go together here.
                                 StartsWith("meeting dropped at bar.warp.sync"),
                                 // Behind the last product nobody fills slots again.
                                 StartsWith("early release"), StartsWith("early release"),
                                 // Clearing of rows: beyond the block that is first and last, the
                                 // slot is unused; what lies in no page is zero already.
                                 StartsWith("loop one step longer at for short_row"),
                                 StartsWith("loop one step shorter at for short_row"),
                                 StartsWith("loop one step shorter at for short_row")));
  EXPECT_GE(out.told, 60);
}

}  // namespace
}  // namespace rooftile
