// SPDX-License-Identifier: Apache-2.0
// What the report measures in place of a fused addition must itself be right.
#include "rooftile/report/residual_add.h"

#include <gtest/gtest.h>

#include "rooftile/check/ladder.h"

namespace rooftile::report {
namespace {

TEST(ResidualAdd, ClimbsTheLadder) {
  const OpDef op = residual_add();
  check::LadderOptions options;
  auto tally = check::run_ladder(op, options, [](const check::CheckLine& line) {
    EXPECT_TRUE(line.errors.pass) << line.text();
  });
  ASSERT_TRUE(tally.ok()) << tally.diag().str();
  EXPECT_EQ(tally->failed, 0);
  EXPECT_GE(tally->passed, 4);
}

}  // namespace
}  // namespace rooftile::report
