// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "rooftile/bench/bench.h"

namespace rooftile::bench {
namespace {

using nlohmann::json;

TEST(BenchLine, OfAGpuSaysWhatItWasMadeWith) {
  BenchLine line;
  line.op = "gemm";
  line.target = "sm90";
  line.device = "h200";
  line.gpu = DeviceProvenance{.name = "NVIDIA H200",
                              .driver = "580.1",
                              .cuda = "13.0",
                              .nvrtc = "NVRTC 13.0",
                              .cublaslt = "",
                              .before = GpuConditions{.sm_mhz = 345},
                              .after = std::nullopt};
  const json out = json::parse(line.json_line());
  EXPECT_EQ(out["target"], "sm90");
  EXPECT_EQ(out["device"], "h200");
  EXPECT_EQ(out["gpu"], "NVIDIA H200");
  EXPECT_EQ(out["driver"], "580.1");
  EXPECT_EQ(out["nvrtc"], "NVRTC 13.0");
  EXPECT_TRUE(out["cublaslt"].is_null());
  EXPECT_EQ(out["before"]["sm_mhz"], 345);
  EXPECT_TRUE(out["after"].is_null());
  EXPECT_FALSE(out.contains("onednn"));
}

TEST(BenchLine, OfAProcessorHasNoGpuFields) {
  BenchLine line;
  line.onednn = "2.6";
  const json out = json::parse(line.json_line());
  EXPECT_EQ(out["onednn"], "2.6");
  EXPECT_FALSE(out.contains("gpu"));
  EXPECT_FALSE(out.contains("driver"));
}

}  // namespace
}  // namespace rooftile::bench
