// SPDX-License-Identifier: Apache-2.0
// Every reason why no GPU is usable, and what a usable one is.
#include "rooftile/runtime/cuda/driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "rooftile/runtime/cuda/driver_error.h"
#include "tests/stub_driver/stub.h"
#include "tests/support/scoped_env.h"

namespace rooftile::cuda {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_support::FreshStub;
using testing_support::ScopedEnv;
using testing_support::stub_path;
using testing_support::StubDriverTest;

Diag open_failure(const std::string& path) {
  Result<const Driver*> opened = Driver::open(path);
  EXPECT_FALSE(opened.ok());
  if (opened.ok()) return {};
  EXPECT_EQ(opened.diag().code, ErrorCode::kNoGpu);
  EXPECT_FALSE(opened.diag().fix.empty()) << opened.diag().str();
  return opened.diag();
}

TEST(NoGpu, LibraryIsNotThere) {
  const Diag diag = open_failure("/no/such/libcuda.so.1");
  EXPECT_THAT(diag.str(), HasSubstr("/no/such/libcuda.so.1"));
  EXPECT_THAT(diag.fix, HasSubstr("ROOFTILE_CUDA_DRIVER"));
}

TEST(NoGpu, LibraryIsNoDriver) {
  EXPECT_THAT(open_failure("libm.so.6").found, HasSubstr("cuGetProcAddress_v2"));
}

TEST(NoGpu, DriverIsTooOld) {
  FreshStub without("without=LibraryLoadData");
  EXPECT_THAT(open_failure(without.path()).found, HasSubstr("cuLibraryLoadData"));
  FreshStub reports("fail=DriverGetVersion:1:999");
  EXPECT_THAT(open_failure(reports.path()).message, HasSubstr("too old"));
}

TEST(NoGpu, InitialisationFails) {
  FreshStub mismatch("fail=Init:1:803");
  const Diag diag = open_failure(mismatch.path());
  EXPECT_THAT(diag.found, HasSubstr("CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)"));
  EXPECT_THAT(diag.fix, HasSubstr("restart"));
  FreshStub link_stub("fail=Init:1:34");
  EXPECT_THAT(open_failure(link_stub.path()).fix, HasSubstr("lib64/stubs"));
  FreshStub fabric("fail=Init:1:802");
  EXPECT_THAT(open_failure(fabric.path()).fix, HasSubstr("fabricmanager"));
}

TEST(NoGpu, NoDeviceNamesTheVariableThatHidesThem) {
  FreshStub none("devices=");
  ScopedEnv hidden("CUDA_VISIBLE_DEVICES", "7");
  EXPECT_THAT(open_failure(none.path()).fix, HasSubstr("CUDA_VISIBLE_DEVICES is '7'"));
  ScopedEnv unset("CUDA_VISIBLE_DEVICES", nullptr);
  EXPECT_THAT(open_failure(none.path()).fix, HasSubstr("nvidia-smi"));
}

// A failure is not remembered: what failed may have been put right.
TEST(NoGpu, NextTryMaySucceed) {
  FreshStub once("fail=Init:1:802");
  open_failure(once.path());
  EXPECT_TRUE(Driver::open(once.path()).ok());
}

TEST(NoGpu, DeviceOfAnotherKindIsRefusedByName) {
  FreshStub mixed("devices=8.0,9.0,10.0");
  Result<const Driver*> opened = Driver::open(mixed.path());
  ASSERT_TRUE(opened.ok()) << opened.diag().str();
  EXPECT_TRUE((*opened)->device(1).ok());
  for (int other : {0, 2}) {
    const auto refused = (*opened)->device(other);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.diag().code, ErrorCode::kNoGpu);
    EXPECT_THAT(refused.diag().found, HasSubstr("compute capability is"));
  }
  EXPECT_FALSE((*opened)->device(3).ok());
  EXPECT_FALSE((*opened)->device(-1).ok());
}

TEST(NoGpu, ProhibitedDeviceIsRefused) {
  FreshStub stub("devices=9.0,9.0 prohibited=1");
  Result<const Driver*> opened = Driver::open(stub.path());
  ASSERT_TRUE(opened.ok());
  EXPECT_TRUE((*opened)->device(0).ok());
  EXPECT_THAT((*opened)->device(1).diag().found, HasSubstr("prohibited"));
}

TEST(Driver, EnvironmentNamesTheLibrary) {
  FreshStub stub("devices=9.0,9.0,9.0");
  ScopedEnv env("ROOFTILE_CUDA_DRIVER", stub.path());
  Result<const Driver*> opened = driver();
  ASSERT_TRUE(opened.ok());
  EXPECT_EQ((*opened)->path(), stub.path());
  EXPECT_EQ((*opened)->num_devices(), 3);
  EXPECT_EQ((*opened)->version(), 13000);
  EXPECT_TRUE(device(2).ok());
}

TEST(Driver, OptionalEntryPointMayBeMissing) {
  FreshStub stub("version=12020");
  Result<const Driver*> opened = Driver::open(stub.path());
  ASSERT_TRUE(opened.ok()) << opened.diag().str();
  EXPECT_EQ((*opened)->api().FuncLoad, nullptr) << "it came with 12.4";
  EXPECT_NE((*opened)->api().LaunchKernelEx, nullptr);
}

using DeviceTest = StubDriverTest;

TEST_F(DeviceTest, SaysWhatItIs) {
  const DeviceInfo& info = device(1).info();
  EXPECT_EQ(info.ordinal, 1);
  EXPECT_EQ(info.name, "Stub H200");
  EXPECT_EQ(info.pci, "0000:1c:00");
  EXPECT_EQ(info.num_sms, 132);
  EXPECT_EQ(info.smem_per_block_bytes, 232448);
  EXPECT_EQ(info.l2_bytes, 60 << 20);
  EXPECT_EQ(info.clock_khz, 1980000);
  EXPECT_THAT(why_unusable(info), IsEmpty());
}

TEST_F(DeviceTest, ContextIsMadeCurrentAndPutBack) {
  const abi::Api& api = driver_->api();
  api.CtxSetCurrent(device(1).context());
  {
    const ContextGuard guard(device(2));
    abi::Context current = nullptr;
    api.CtxGetCurrent(&current);
    EXPECT_EQ(current, device(2).context());
  }
  abi::Context after = nullptr;
  api.CtxGetCurrent(&after);
  EXPECT_EQ(after, device(1).context());
  const uint64_t before = control_->calls(stub::kCtxSetCurrent);
  { const ContextGuard same(device(1)); }
  EXPECT_EQ(control_->calls(stub::kCtxSetCurrent), before) << "nothing to do";
  api.CtxSetCurrent(nullptr);
}

TEST_F(DeviceTest, OneContextHoweverManyThreadsAsk) {
  FreshStub stub("devices=9.0");
  Result<const Driver*> opened = Driver::open(stub.path());
  ASSERT_TRUE(opened.ok());
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) threads.emplace_back([&] { EXPECT_TRUE((*opened)->device(0).ok()); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(stub.control().calls(stub::kDevicePrimaryCtxRetain), 1u);
}

TEST_F(DeviceTest, StickyFailureIsToldAsSuchAndRemembered) {
  FreshStub stub("devices=9.0,9.0 fail=CtxSynchronize:1:700");
  Result<const Driver*> opened = Driver::open(stub.path());
  ASSERT_TRUE(opened.ok());
  const Device& lost = **(*opened)->device(0);
  EXPECT_FALSE(lost.lost());
  const Status status = lost.synchronize();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.diag().code, ErrorCode::kDeviceLost);
  EXPECT_THAT(status.diag().str(), HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS (700)"));
  EXPECT_THAT(status.diag().fix, HasSubstr("compute-sanitizer"));
  EXPECT_TRUE(lost.lost());
  EXPECT_FALSE((*(*opened)->device(1))->lost()) << "the other device is untouched";
}

TEST(DriverError, OnlyFailuresThatEndTheContextAreSticky) {
  for (abi::Result error : {abi::kIllegalAddress, abi::kLaunchFailed, abi::kAssert,
                            abi::kMisalignedAddress, abi::kIllegalInstruction})
    EXPECT_TRUE(is_sticky(error)) << error;
  for (abi::Result error : {abi::kSuccess, abi::kInvalidValue, abi::kOutOfMemory, abi::kNotReady,
                            abi::kLaunchOutOfResources, abi::kCaptureInvalidated})
    EXPECT_FALSE(is_sticky(error)) << error;
}

}  // namespace
}  // namespace rooftile::cuda
