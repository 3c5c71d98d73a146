// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "rooftile/compile/target.h"
#include "rooftile/toolchain/child_process.h"

namespace rooftile {
namespace {

using ::testing::HasSubstr;

// The kernel's own view of the processor: a second opinion.
std::set<std::string> cpuinfo_flags() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("flags")) {
      std::istringstream words(line.substr(line.find(':') + 1));
      std::set<std::string> flags;
      for (std::string word; words >> word;) flags.insert(word);
      return flags;
    }
  return {};
}

TEST(HostTarget, AgreesWithTheOperatingSystem) {
  const std::set<std::string> flags = cpuinfo_flags();
  if (flags.empty()) GTEST_SKIP() << "/proc/cpuinfo has no flags line";
  if (getenv("ROOFTILE_ISA") != nullptr) GTEST_SKIP() << "ROOFTILE_ISA is set";
  const TargetInfo& target = host_target();
  EXPECT_EQ(target.isa == "avx512", flags.count("avx512bw") && flags.count("avx512dq") &&
                                        flags.count("avx512vl") && flags.count("fma"));
  EXPECT_EQ(target.isa != "generic",
            flags.count("avx2") && flags.count("fma") && flags.count("f16c"));
  if (target.isa != "avx512") return;
  EXPECT_EQ(target.avx512_vnni, flags.count("avx512_vnni") > 0);
  EXPECT_EQ(target.avx512_bf16, flags.count("avx512_bf16") > 0);
  EXPECT_EQ(target.avx512_fp16, flags.count("avx512_fp16") > 0);
  // AMX must also be granted, so only one direction holds.
  EXPECT_LE(target.amx_bf16, flags.count("amx_bf16") > 0);
  EXPECT_LE(target.amx_int8, flags.count("amx_int8") > 0);
}

TEST(HostTarget, SizesAndThreadsAreSane) {
  const TargetInfo& target = host_target();
  EXPECT_GE(target.threads, 1);
  EXPECT_GE(target.l1_bytes, 8 << 10);
  EXPECT_GE(target.l2_bytes, target.l1_bytes);
  EXPECT_FALSE(target.device.empty());
}

// What a fresh process finds with one variable set; this one has found its target already.
std::string target_under(const std::string& variable) {
  auto out =
      run_child({"/usr/bin/env", variable, ROOFTILE_BINARY_DIR "/rooftile_test_child", "target"});
  return out.ok() ? out->text : out.diag().str();
}

TEST(HostTargetOverride, IsaCanOnlyBeLowered) {
  EXPECT_THAT(target_under("ROOFTILE_ISA=generic"), HasSubstr("isa=generic amx=0 bf16=0"));
  if (host_target().isa != "generic") {
    EXPECT_THAT(target_under("ROOFTILE_ISA=avx2"), HasSubstr("isa=avx2 amx=0"));
  }
  EXPECT_THAT(target_under("ROOFTILE_ISA=sve"), HasSubstr("none of avx512, avx2, generic"));
}

TEST(HostTargetOverride, AmxAndThreads) {
  EXPECT_THAT(target_under("ROOFTILE_NO_AMX=1"), HasSubstr("amx=0"));
  EXPECT_THAT(target_under("ROOFTILE_THREADS=3"), HasSubstr("threads=3"));
  EXPECT_THAT(target_under("ROOFTILE_THREADS=many"), HasSubstr("is not a number"));
}

}  // namespace
}  // namespace rooftile
