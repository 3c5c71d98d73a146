// SPDX-License-Identifier: Apache-2.0
// The emulator's own test: mistakes in whole kernels are reported, and right kernels are not.
#include "rooftile/emulate/mutate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "rooftile/emulate/testing/cluster_gemm.h"
#include "rooftile/emulate/testing/gemm_run.h"
#include "rooftile/lanes/testing/wgmma_gemm.h"

namespace rooftile::emulate {
namespace {

using testing::GemmCase;

struct Survivors {
  int caught = 0;
  std::vector<std::string> names;
};

// Runs every mutant of a gemm until a seed tells on it.
Survivors hunt(const lanes::Program& program, const std::function<GemmCase()>& fresh, int sms) {
  Survivors out;
  for (const Mutant& mutant : mutants(program)) {
    const std::string name = std::string(mutation_name(mutant.kind)) + " at " + mutant.site;
    std::string told;
    for (uint64_t seed = 0; seed < 8 && told.empty(); ++seed) {
      GemmCase gemm = fresh();
      Launch launch = gemm.launch(seed);
      launch.sms = sms;
      launch.max_statements = 20'000'000;
      const Status status = run(mutant.program, launch);
      if (!status.ok())
        told = status.str();
      else if (gemm.wrong() > 0)
        told = "wrong numbers";
    }
    if (told.empty())
      out.names.push_back(name);
    else
      ++out.caught;
  }
  return out;
}

// What does no harm is listed, with the reason.
TEST(Mutate, ProducerConsumerGemm) {
  const Result<lanes::Program> program = lanes::testing::wgmma_gemm({.bn = 64, .stages = 2});
  ASSERT_TRUE(program.ok()) << program.diag().str();
  const Survivors left = hunt(
      *program, [] { return GemmCase(66, 70, 840); }, 4);
  EXPECT_THAT(left.names, ::testing::ElementsAre());
  EXPECT_GE(left.caught, 20);
}

TEST(Mutate, ClusterGemm) {
  const Result<lanes::Program> program = testing::cluster_gemm();
  ASSERT_TRUE(program.ok()) << program.diag().str();
  const Survivors left = hunt(
      *program, [] { return GemmCase(258, 136, 328); }, 1);
  EXPECT_THAT(left.names,
              ::testing::UnorderedElementsAre(
                  // The hardware completes stores whose CTA has ended.
                  "wait dropped at cp.async.bulk.wait_group.read n=0",
                  "wait leaves one more at cp.async.bulk.wait_group.read n=0",
                  // The cluster's barrier counts every thread, the initialising one too.
                  "meeting dropped at bar.warp.sync"));
  EXPECT_GE(left.caught, 40);
}

}  // namespace
}  // namespace rooftile::emulate
