// SPDX-License-Identifier: Apache-2.0
// A whole wgmma kernel in the emulator: right numbers and no report, under many schedules.
#include <gtest/gtest.h>

#include "rooftile/emulate/testing/cluster_gemm.h"
#include "rooftile/emulate/testing/gemm_run.h"
#include "rooftile/lanes/testing/wgmma_gemm.h"

namespace rooftile::emulate {
namespace {

using lanes::testing::wgmma_gemm;
using testing::GemmCase;

TEST(EmulateGemm, NumbersAreRightUnderEverySchedule) {
  const Result<lanes::Program> program = wgmma_gemm({.bn = 64, .stages = 2});
  ASSERT_TRUE(program.ok()) << program.diag().str();
  for (uint64_t seed = 0; seed < 20; ++seed) {
    GemmCase gemm(70, 66, 200, seed);
    const Status status = run(*program, gemm.launch(seed));
    ASSERT_TRUE(status.ok()) << status.str();
    EXPECT_EQ(gemm.wrong(), 0) << "seed " << seed;
  }
}

TEST(EmulateGemm, WidthsAndDepths) {
  for (const auto& [bn, stages, k] : {std::tuple(8, 1, 64), std::tuple(128, 3, 456),
                                      std::tuple(176, 2, 72), std::tuple(256, 2, 136)}) {
    const Result<lanes::Program> program = wgmma_gemm({.bn = bn, .stages = stages});
    ASSERT_TRUE(program.ok()) << program.diag().str();
    GemmCase gemm(64, bn + 2, k);
    Stats stats;
    const Status status = run(*program, gemm.launch(7), &stats);
    ASSERT_TRUE(status.ok()) << status.str();
    EXPECT_EQ(gemm.wrong(), 0) << "bn " << bn;
    EXPECT_EQ(stats.ctas, 2);
    EXPECT_EQ(stats.products, 2 * 4 * ((k + 63) / 64));
  }
}

TEST(EmulateGemm, ClustersThatShareTheirLoads) {
  const Result<lanes::Program> program = testing::cluster_gemm();
  ASSERT_TRUE(program.ok()) << program.diag().str();
  for (uint64_t seed = 0; seed < 20; ++seed) {
    // Five tiles for one or two clusters, with edges on every side.
    GemmCase gemm(258, 200, seed % 2 == 0 ? 328 : 56, seed);
    Launch launch = gemm.launch(seed);
    launch.sms = 1 + static_cast<int>(seed % 3);
    const Status status = run(*program, launch);
    ASSERT_TRUE(status.ok()) << status.str();
    EXPECT_EQ(gemm.wrong(), 0) << "seed " << seed;
  }
}

}  // namespace
}  // namespace rooftile::emulate
