// SPDX-License-Identifier: Apache-2.0
// One tile program, many schedules: each kernel computes the product in the emulator under every
// order of events, to the same bits; a schedule that cannot be had is refused by what it lacks; and
// mistakes in the kernels are told on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rooftile/codegen/gpu/lower.h"
#include "rooftile/compile/schedule_change.h"
#include "rooftile/dsl/test_programs.h"
#include "rooftile/emulate/mutate.h"
#include "rooftile/emulate/testing/gemm_run.h"

namespace rooftile::codegen {
namespace {

using emulate::testing::GemmCase;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// d = a b^T.
ir::Program gemm() {
  using namespace ir::test;  // NOLINT
  const Expr M = sym("M"), N = sym("N"), K = sym("K");
  Kernel k(
      interface("gemm", {tensor("d", DType::kBf16, {M, N}, ir::Role::kOut),
                         tensor("a", DType::kBf16, {M, K}), tensor("b", DType::kBf16, {N, K})}));
  const Index BM = k.tile_param("BM"), BN = k.tile_param("BN"), BK = k.tile_param("BK");
  k.tiles({{"i", ceil_div(M, BM)}, {"j", ceil_div(N, BN)}}, [&](std::vector<Index> at) {
    const Range rows = block(at[0], BM, M), columns = block(at[1], BN, N);
    Tile sum = k.loop("kk", 0, K, BK, {k.zeros({rows.extent, columns.extent})},
                      [&](Index kk, std::vector<Tile> s) {
                        const Range deep = range(kk, min(BK, K - kk));
                        Tile a = k.load(k["a"](rows, deep), "a");
                        Tile b = k.load(k["b"](columns, deep), "b");
                        return std::vector<Tile>{mma(a, b.t(), s[0], "mm")};
                      })[0];
    k.store(k["d"](rows, columns), sum);
  });
  Result<ir::Program> program = k.finish();
  EXPECT_TRUE(program.ok()) << program.diag().str();
  return *program;
}

Schedule plain() {
  Schedule s;
  s.name = "plain";
  s.tile = {{"BM", 128}, {"BN", 64}, {"BK", 64}};
  s.gpu.roles = {{.name = "feed", .groups = 1, .runs = {"a", "b"}},
                 {.name = "mma", .groups = 2, .runs = {"mm"}}};
  s.gpu.copy["a"].via = s.gpu.copy["b"].via = gpu::Via::kTma;
  s.gpu.copy["d"] = {.via = gpu::Via::kTma, .staging_columns = 64, .staging_buffers = 2};
  s.gpu.rings = {{.copies = {"a", "b"}, .depth = 2}};
  s.gpu.product["mm"] = {};
  return s;
}

Result<lanes::Program> lowered(const std::string& changes) {
  Schedule schedule = plain();
  RT_RETURN_IF_ERROR(change_schedule(schedule, changes));
  std::map<std::string, Expr, std::less<>> values;
  for (const auto& [param, value] : schedule.tile) values.emplace(param, Expr(value));
  ir::Program program = ir::substitute_symbols(gemm(), values);
  Result<GpuKernelLanes> lanes = lower_gpu(program, "gemm", schedule);
  if (!lanes.ok()) return lanes.diag();
  return lanes->variants.at(0).phases.at(0);
}

struct Variation {
  const char *name, *changes;
  int64_t m, n, k;
  int sms = 2;  // and twice as many
  bool parts_by_sms = false;
};

void PrintTo(const Variation& v, std::ostream* out) { *out << v.name; }

class GemmSchedules : public ::testing::TestWithParam<Variation> {};

TEST_P(GemmSchedules, SameBitsUnderEveryOrderOfEvents) {
  const Variation& v = GetParam();
  const Result<lanes::Program> program = lowered(v.changes);
  ASSERT_TRUE(program.ok()) << program.diag().str();
  std::vector<uint16_t> first[2];
  for (uint64_t seed = 0; seed < 4; ++seed) {
    GemmCase gemm(v.m, v.n, v.k);
    const emulate::Launch launch =
        gemm.launch(seed, *program, v.sms + v.sms * static_cast<int>(seed % 2));
    const Status status = emulate::run(*program, launch);
    ASSERT_TRUE(status.ok()) << status.str();
    EXPECT_EQ(gemm.wrong(), 0) << "seed " << seed;
    // Where parts begin and end may depend on the number of multiprocessors; nothing on the order.
    const bool again = seed > 1 || (seed == 1 && !v.parts_by_sms);
    std::vector<uint16_t>& expected = v.parts_by_sms ? first[seed % 2] : first[0];
    if (!again) expected = gemm.d;
    EXPECT_EQ(gemm.d, expected) << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Plans, GemmSchedules,
    ::testing::Values(
        Variation{"Plain", "grid=persistent", 200, 136, 200},
        // The weights on the 64-row side.
        Variation{"SwapFew", "swap=1 BM=8 BN=64 groups=1 staging=0", 5, 136, 264},
        Variation{"SwapTwoGroups", "swap=1 BM=16 BN=128 BK=128 groups=2 staging=0", 17, 200, 200},
        // Every CTA finishes some columns, or rank 0 all of them; parts of unlike length, of none.
        Variation{"SplitOwners", "split=kk:2 staging=0", 72, 72, 200},
        Variation{"SplitOneOwner", "split=kk:4 BN=64", 72, 40, 328},
        Variation{"SplitShort", "split=kk:4 groups=1 BM=64 staging=0", 40, 72, 72},
        Variation{"SplitPersistent", "split=kk:2 BM=64 groups=1 staging=0 grid=persistent", 136,
                  136, 200},
        Variation{"SplitOneOwnerPersistent", "split=kk:2 BM=64 groups=1 grid=persistent", 136, 136,
                  200},
        Variation{"SplitSwap", "swap=1 BM=16 BN=64 groups=1 staging=0 split=kk:2 dependent=1", 11,
                  136, 328},
        Variation{"SplitSwapOneOwner", "swap=1 BM=8 BN=64 groups=1 staging=0 split=kk:4", 3, 72,
                  520},
        // Parts of tiles through a workspace: more of them than CTAs and fewer, of unlike length.
        Variation{"GridSplit", "split=kk:grid:3 grid=persistent", 200, 72, 328, 3},
        Variation{"GridSplitShort", "split=kk:grid:4 grid=persistent groups=1 BM=64", 72, 40, 200},
        Variation{"GridSplitFewCtas", "split=kk:grid:2 grid=persistent groups=1 BM=64 staging=0",
                  136, 136, 200, 1},
        Variation{"GridSplitSwap",
                  "swap=1 BM=16 BN=64 groups=1 staging=0 split=kk:grid:2 grid=persistent "
                  "dependent=1",
                  11, 136, 328},
        Variation{"GridSplitCluster", "split=kk:grid:2 grid=persistent cluster=i:2 multicast=b",
                  264, 72, 200, 2},
        // Runs of steps over the ends of tiles: behind whole waves, one tile for many CTAs, more
        // CTAs than steps, a part of a single step.
        Variation{"Stream", "split=kk:stream:1 grid=persistent groups=1 BM=64", 328, 72, 200, 3,
                  true},
        Variation{"StreamTwoWaves", "split=kk:stream:2 grid=persistent", 392, 136, 264, 3, true},
        Variation{"StreamOneTile", "split=kk:stream:1 grid=persistent groups=1 BM=64 staging=0", 56,
                  64, 520, 3, true},
        Variation{"StreamFewSteps", "split=kk:stream:1 grid=persistent groups=1 BM=64", 40, 72, 72,
                  5, true},
        Variation{"StreamWhole", "split=kk:stream:1 grid=persistent groups=1 BM=64", 136, 136, 72,
                  1, true},
        Variation{"StreamSwap",
                  "swap=1 BM=8 BN=64 groups=1 BK=128 staging=0 split=kk:stream:9 grid=persistent "
                  "dependent=1",
                  5, 200, 712, 2, true},
        Variation{"StreamCluster", "split=kk:stream:1 grid=persistent cluster=i:2 multicast=b", 520,
                  136, 264, 4, true},
        // Whole tiles in turn; an odd number of them, rings that wrap in the middle of one.
        Variation{"Turns", "BM=64 share=turns turns=kk grid=persistent depth=3", 200, 136, 264},
        Variation{"TurnsCluster", "BM=64 share=turns turns=kk grid=persistent cluster=i:2", 330, 72,
                  200},
        Variation{"TurnsEachStep", "turns=kk:step grid=persistent", 264, 72, 264}),
    [](const auto& param_info) { return std::string(param_info.param.name); });

// What is asked for and cannot be had, and the precondition that the message names.
TEST(GemmSchedules, RefusesWhatItCannotPlace) {
  const std::pair<const char*, const char*> wishes[] = {
      {"split=kk:9", "2 to 8"},
      {"split=kk:1", "2 to 8"},
      {"split=kk:2 cluster=i:2", "share a loop or run neighbouring tiles"},
      {"split=kk:2 share=turns grid=persistent", "groups that take turns do not split loops"},
      {"split=kk:grid:1 grid=persistent", "2 to 64"},
      {"split=kk:grid:2", "all must run at once"},
      {"split=kk:stream:0 grid=persistent", "1 or more"},
      {"split=kk:stream:1 grid=persistent share=turns", "groups that take turns do not split"},
      {"share=turns", "persistent grid"},
      {"share=turns grid=persistent groups=1", "at least two computing groups"},
      {"turns=kk groups=1", "at least two computing groups"},
      {"share=turns grid=persistent", "pass a token"},
      {"swap=1 BM=64 BN=64 groups=1", "along the tensor's last dimension"},
      {"staging=32x2", "chunks of 128 bytes"},
  };
  for (const auto& [changes, precondition] : wishes) {
    const Result<lanes::Program> program = lowered(changes);
    ASSERT_FALSE(program.ok()) << changes;
    EXPECT_EQ(program.diag().code, ErrorCode::kPlacement) << changes;
    EXPECT_THAT(program.diag().str(), HasSubstr(precondition)) << changes;
  }
  EXPECT_EQ(lowered("depht=3").diag().code, ErrorCode::kSchedule);
}

TEST(GemmSchedules, PrintTheirDecisions) {
  Schedule s = plain();
  ASSERT_TRUE(change_schedule(s, "split=kk:4 share=turns turns=kk:step swap=1").ok());
  EXPECT_THAT(s.str(), HasSubstr("split(kk:4)"));
  EXPECT_THAT(s.str(), HasSubstr("share(turns)"));
  EXPECT_THAT(s.str(), HasSubstr("turns(kk each step)"));
  EXPECT_THAT(s.str(), HasSubstr("+swap"));
  for (const char* split : {"kk:grid:4", "kk:stream:2"}) {
    ASSERT_TRUE(change_schedule(s, std::string("split=") + split).ok());
    EXPECT_THAT(s.str(), HasSubstr(std::string("split(") + split + ")"));
  }
}

// The mutants that no seed tells on, by name.
std::vector<std::string> survivors(const std::string& changes, int64_t m, int64_t n, int64_t k,
                                   int sms, int* caught) {
  const Result<lanes::Program> program = lowered(changes);
  EXPECT_TRUE(program.ok()) << program.diag().str();
  std::vector<std::string> out;
  for (const emulate::Mutant& mutant : emulate::mutants(*program)) {
    // No size that can be run makes an index wrap: that is for the provers.
    if (mutant.kind == emulate::Mutation::kNarrowIndex) continue;
    bool told = false;
    for (uint64_t seed = 0; seed < 8 && !told; ++seed) {
      GemmCase gemm(m, n, k);
      emulate::Launch launch = gemm.launch(seed, mutant.program, sms);
      launch.max_statements = 20'000'000;
      told = !emulate::run(mutant.program, launch).ok() || gemm.wrong() > 0;
    }
    if (told)
      ++*caught;
    else
      out.push_back(std::string(mutation_name(mutant.kind)) + " at " + mutant.site);
  }
  return out;
}

// What does no harm is listed, with the reason.
TEST(GemmSchedules, MistakesInASplitAreToldOn) {
  int caught = 0;
  EXPECT_THAT(survivors("swap=1 BM=16 BN=64 groups=1 staging=0 split=kk:2 grid=persistent", 13, 136,
                        328, 2, &caught),
              ::testing::UnorderedElementsAre(
                  // The computing group meets at the cluster's barrier, and the copying warp has
                  // made the barriers itself.
                  "meeting dropped at bar.sync.all",
                  // Of the copying role, which needs nothing of its peers.
                  "meeting dropped at barrier.cluster.wait.acquire",
                  // Every part of this contraction has a step.
                  "branch dropped at if part_begin_1 < part_end_1, uniform",
                  // Shorter by a copy of a, behind which the copy of b starts all the same.
                  "ring one slot shallower at ring_a"));
  EXPECT_GE(caught, 30);
}

TEST(GemmSchedules, MistakesInAFixUpAreToldOn) {
  int caught = 0;
  EXPECT_THAT(survivors("groups=1 BM=64 staging=0 split=kk:stream:1 grid=persistent", 72, 200, 200,
                        3, &caught),
              ::testing::ElementsAre(
                  // Of the copying role: one run more has no steps.
                  "loop one step longer at for item = 0 .. whole + pieces",
                  // There is one group.
                  StartsWith("element written twice at st.global tickets[owner, group]"),
                  // Columns are stored in pairs.
                  StartsWith("element written twice at st.global d["),
                  // No part is empty.
                  "branch dropped at if part_begin_1 < part_end_1, uniform"));
  EXPECT_GE(caught, 40);
}

TEST(GemmSchedules, MistakesInTurnsAreToldOn) {
  int caught = 0;
  EXPECT_THAT(survivors("BM=64 share=turns turns=kk grid=persistent", 264, 72, 200, 1, &caught),
              ::testing::ElementsAre(
                  // The contraction is not empty.
                  "branch dropped at if 0 < kk_end_1, uniform"));
  EXPECT_GE(caught, 30);
}

}  // namespace
}  // namespace rooftile::codegen
