// SPDX-License-Identifier: Apache-2.0
#include "rooftile/bench/timer.h"

#include <gtest/gtest.h>

#include <chrono>

namespace rooftile::bench {
namespace {

void spin_us(double us) {
  const auto begin = std::chrono::steady_clock::now();
  while (
      std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() <
      us) {
  }
}

TEST(Quantile, InterpolatesBetweenOrderStatistics) {
  EXPECT_DOUBLE_EQ(quantile({4, 1, 3, 2}, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(quantile({5, 1, 2, 3, 4}, 0.2), 1.8);
  EXPECT_DOUBLE_EQ(quantile({7}, 0.8), 7);
  EXPECT_DOUBLE_EQ(quantile({2, 9}, 0), 2);
  EXPECT_DOUBLE_EQ(quantile({2, 9}, 1), 9);
  EXPECT_EQ(quantile({}, 0.5), 0);
}

TEST(Race, RatioIsTheMedianOfRatiosWithinRounds) {
  // The machine slows down fourfold in the last two rounds; within each round the ratio is 2.
  Race race;
  race.timings = {{"a", {10, 10, 10, 40, 40}}, {"b", {5, 5, 5, 20, 20}}};
  EXPECT_DOUBLE_EQ(race.ratio(0, 1), 2.0);
  EXPECT_DOUBLE_EQ(race.ratio(1, 0), 0.5);
  // One disturbed round does not move it, though it moves the mean.
  race.timings[0].us[1] = 1000;
  EXPECT_DOUBLE_EQ(race.ratio(0, 1), 2.0);
}

TEST(Race, InterleavesContestantsAndNumbersEveryCall) {
  std::vector<std::pair<char, int64_t>> calls;
  TimingOptions options;
  options.warmup = 1;
  options.rounds = 5;
  options.seconds = 0;        // only the minimum of rounds
  options.min_sample_us = 0;  // one call a sample
  const Race result = race({{"a", [&](int64_t call) { calls.emplace_back('a', call); }},
                            {"b", [&](int64_t call) { calls.emplace_back('b', call); }}},
                           options);
  EXPECT_EQ(result.rounds(), 5);
  for (size_t i = 0; i < calls.size(); ++i) EXPECT_EQ(calls[i].second, static_cast<int64_t>(i));
  ASSERT_GE(calls.size(), 10u);
  for (size_t i = calls.size() - 10; i < calls.size(); i += 2) {
    EXPECT_EQ(calls[i].first, 'a');
    EXPECT_EQ(calls[i + 1].first, 'b');
  }
}

TEST(Race, RepeatsShortCallsWithinASample) {
  int64_t calls = 0;
  TimingOptions options;
  options.warmup = 0;
  options.rounds = options.min_rounds = 1;
  options.seconds = 0;
  options.min_sample_us = 1000;
  const Race result = race({{"short", [&](int64_t) { ++calls, spin_us(20); }}}, options);
  EXPECT_GT(calls, 10);
  EXPECT_GE(result.timings[0].us[0], 20);  // a call's time, not a sample's
}

}  // namespace
}  // namespace rooftile::bench
