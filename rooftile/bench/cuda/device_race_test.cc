// SPDX-License-Identifier: Apache-2.0
#include "rooftile/bench/cuda/device_race.h"

#include <gtest/gtest.h>

#include <map>

#include "rooftile/bench/cuda/ceiling_kernels.h"
#include "rooftile/bench/cuda/device_ceilings.h"
#include "rooftile/runtime/cuda/memory.h"
#include "rooftile/toolchain/nvrtc.h"
#include "tests/stub_driver/stub.h"

namespace rooftile::bench {
namespace {

// On the stub driver, for which every pair of events lies 1.5 ms apart.
class DeviceRaceTest : public testing_support::StubDriverTest {
 protected:
  DeviceRaceOptions options(size_t sets) const {
    DeviceRaceOptions out;
    out.timing.rounds = out.timing.min_rounds = 3;
    out.timing.seconds = 0;
    out.sets = sets;
    return out;
  }
};

TEST_F(DeviceRaceTest, EveryCopyIsUsedAsOftenAndTheTimeIsACalls) {
  auto stream = cuda::Stream::create(device());
  ASSERT_TRUE(stream.ok());
  std::map<size_t, int> used;
  int warm = 0;
  const DeviceContestant contestant = {"one", [&](size_t set) -> Status {
                                         if (cuda::is_capturing(device(), stream->get()))
                                           ++used[set];
                                         else
                                           ++warm;
                                         return {};
                                       }};
  auto race = device_race(device(), stream->get(), {contestant}, options(3));
  ASSERT_TRUE(race.ok()) << race.diag().str();
  EXPECT_EQ(race->rounds(), 3);
  EXPECT_GT(warm, 0);  // code is loaded outside the capture
  ASSERT_EQ(used.size(), 3u);
  EXPECT_EQ(used[0], used[1]);
  EXPECT_EQ(used[1], used[2]);
  EXPECT_NEAR(race->timings[0].us[0], 1500.0 / (3 * used[0]), 1e-6);
  EXPECT_EQ(control_->calls(stub::kGraphInstantiateWithFlags), 1u);
}

TEST_F(DeviceRaceTest, SweepsBeforeEachCallWhereCopiesDoNotHelp) {
  auto stream = cuda::Stream::create(device());
  ASSERT_TRUE(stream.ok());
  std::string order;
  auto with_sweep = options(1);
  with_sweep.sweep = [&]() -> Status {
    order += 's';
    return {};
  };
  with_sweep.timing.rounds = with_sweep.timing.min_rounds = 1;
  const DeviceContestant contestant = {"one", [&](size_t) -> Status {
                                         order += 'c';
                                         return {};
                                       }};
  auto race = device_race(device(), stream->get(), {contestant}, with_sweep);
  ASSERT_TRUE(race.ok()) << race.diag().str();
  EXPECT_EQ(order.substr(order.find('s')), "scscscscsc");
  EXPECT_NEAR(race->timings[0].us[0], 1500, 1e-6);
  EXPECT_EQ(control_->calls(stub::kGraphLaunch), 0u);
}

TEST_F(DeviceRaceTest, AFailedCallEndsTheRace) {
  auto stream = cuda::Stream::create(device());
  ASSERT_TRUE(stream.ok());
  const DeviceContestant refuses = {"refuses", [](size_t) -> Status {
                                      return Diag{.code = ErrorCode::kLaunch, .message = "no"};
                                    }};
  auto race = device_race(device(), stream->get(), {refuses}, options(2));
  ASSERT_FALSE(race.ok());
  EXPECT_EQ(race.diag().code, ErrorCode::kLaunch);
}

TEST_F(DeviceRaceTest, WhatCaptureForbidsEndsTheRace) {
  auto stream = cuda::Stream::create(device());
  ASSERT_TRUE(stream.ok());
  const DeviceContestant allocates = {
      "allocates", [&](size_t) -> Status {
        return cuda::DeviceBuffer::allocate(device(), 64, stream->get()).status();
      }};
  auto race = device_race(device(), stream->get(), {allocates}, options(1));
  ASSERT_FALSE(race.ok());
  EXPECT_EQ(race.diag().code, ErrorCode::kCapture);
}

TEST(CeilingKernels, CompileWithoutSpillsOrSerialisedProducts) {
  auto nvrtc = Nvrtc::load();
  if (!nvrtc.ok()) GTEST_SKIP() << nvrtc.diag().message;
  auto binary = (*nvrtc)->compile(ceiling_kernels_text(), {}, "ceilings");
  ASSERT_TRUE(binary.ok()) << binary.diag().str();
  const Status shipped = shipped_ok(binary->report, "ceilings");
  EXPECT_TRUE(shipped.ok()) << shipped.str();
  for (const DevicePeakKernel& kernel : device_peak_kernels())
    EXPECT_NE(binary->ptx.find(".entry " + kernel.symbol + "("), std::string::npos)
        << kernel.symbol;
}

TEST(DeviceName, IsShort) {
  EXPECT_EQ(short_device_name("NVIDIA H200"), "h200");
  EXPECT_EQ(short_device_name("NVIDIA H100 80GB HBM3"), "h100");
  EXPECT_EQ(short_device_name("NVIDIA GeForce RTX 4090"), "rtx");
  EXPECT_EQ(short_device_name(""), "");
}

}  // namespace
}  // namespace rooftile::bench
