// SPDX-License-Identifier: Apache-2.0
#include "rooftile/base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <thread>

namespace rooftile {
namespace {

void one_slow_step() {
  Progress progress("packing", 2);
  progress.step("wq");
  std::this_thread::sleep_for(std::chrono::milliseconds(1010));
  progress.step("wk");
}

TEST(Progress, QuickWorkPrintsNothing) {
  testing::internal::CaptureStderr();
  {
    Progress progress("quick", 3);
    for (int i = 0; i < 3; ++i) progress.step();
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(Progress, WorkOverASecondSaysWhereItIsAndWhenItIsDone) {
  testing::internal::CaptureStderr();
  one_slow_step();
  EXPECT_THAT(
      testing::internal::GetCapturedStderr(),
      testing::MatchesRegex("packing 2/2: wk \\([0-9.]+ s\\)\npacking: done in [0-9.]+ s\n"));
}

TEST(Progress, QuietSilencesProgressButNotWarnings) {
  setenv("ROOFTILE_QUIET", "1", 1);
  testing::internal::CaptureStderr();
  one_slow_step();
  log_warning("odd");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "rooftile: warning: odd\n");
  unsetenv("ROOFTILE_QUIET");
}

}  // namespace
}  // namespace rooftile
