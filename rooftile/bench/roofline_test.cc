// SPDX-License-Identifier: Apache-2.0
#include "rooftile/bench/roofline.h"

#include <gtest/gtest.h>

namespace rooftile::bench {
namespace {

Ceilings machine() {
  Ceilings c;
  c.device = "test";
  c.isa = "avx512";
  c.target_key = "key";
  c.threads = 2;
  c.peaks = {{"f32", {100, "fma"}}, {"bf16", {1000, "amx"}}, {"bf16/amx", {1000, "amx"}}};
  c.read_gb_per_s = 50;
  c.copy_gb_per_s = 40;
  c.launch_us = 2;
  c.measured_at = "now";
  return c;
}

TEST(Ceilings, RoofIsTheSlowestOfComputeMemoryAndLaunch) {
  const Ceilings c = machine();
  // 1 GFLOP at 100 GFLOP/s: 10 ms; 50 MB at 50 GB/s: 1 ms.
  EXPECT_DOUBLE_EQ(c.roof_us({1e9, 50e6}, DType::kF32), 10000);
  EXPECT_EQ(c.bound({1e9, 50e6}, DType::kF32), "compute");
  EXPECT_DOUBLE_EQ(c.roof_us({1e6, 50e6}, DType::kF32), 1000);
  EXPECT_EQ(c.bound({1e6, 50e6}, DType::kF32), "bandwidth");
  EXPECT_DOUBLE_EQ(c.roof_us({10, 10}, DType::kF32), 2);
  EXPECT_EQ(c.bound({10, 10}, DType::kF32), "launch");
}

TEST(Ceilings, ACopyTakesTheTimeOfTheMeasuredCopy) {
  // Half read, half written: 80 MB at 40 GB/s.
  EXPECT_DOUBLE_EQ(machine().roof_us({0, 80e6}, DType::kF32, 40e6), 2000);
  EXPECT_DOUBLE_EQ(machine().roof_us({0, 80e6}, DType::kF32), 1600);
}

TEST(Ceilings, TypesWithoutAnArithmeticOfTheirOwnUseAnothers) {
  const Ceilings c = machine();
  EXPECT_EQ(c.peak_gflops(DType::kBf16), 1000);
  EXPECT_EQ(c.peak_gflops(DType::kF8E4M3), 1000);
  EXPECT_EQ(c.peak_gflops(DType::kF16), 100);
  EXPECT_EQ(c.peak_gflops(DType::kI8), 100);
}

TEST(Ceilings, SurviveTheirFile) {
  const Ceilings before = machine();
  auto after = Ceilings::from_json(before.json_line());
  ASSERT_TRUE(after.ok()) << after.diag().str();
  EXPECT_EQ(after->json_line(), before.json_line());
}

TEST(Ceilings, OfTwoMeasurementsEachHigherCeilingStays) {
  Ceilings first = machine(), second = machine();
  second.read_gb_per_s = 5;
  second.copy_gb_per_s = 45;
  second.launch_us = 1;
  second.peaks["f32"].gflops = 120;
  second.peaks["bf16"].gflops = 900;
  second.raise_to(first);
  EXPECT_EQ(second.read_gb_per_s, 50);
  EXPECT_EQ(second.copy_gb_per_s, 45);
  EXPECT_EQ(second.launch_us, 1);
  EXPECT_EQ(second.peaks["f32"].gflops, 120);
  EXPECT_EQ(second.peaks["bf16"].gflops, 1000);
}

TEST(Ceilings, DamagedFilesAreRefused) {
  const std::string whole = machine().json_line();
  EXPECT_FALSE(Ceilings::from_json("").ok());
  EXPECT_FALSE(Ceilings::from_json(whole.substr(0, whole.size() / 2)).ok());
  EXPECT_FALSE(Ceilings::from_json("[1, 2]").ok());
  EXPECT_FALSE(Ceilings::from_json(R"({"device": 3})").ok());
  std::string no_bandwidth = whole;
  no_bandwidth.replace(no_bandwidth.find("50.0"), 4, "-1.0");
  EXPECT_FALSE(Ceilings::from_json(no_bandwidth).ok());
}

}  // namespace
}  // namespace rooftile::bench
