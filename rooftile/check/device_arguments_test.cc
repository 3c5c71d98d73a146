// SPDX-License-Identifier: Apache-2.0
// Arguments there and back, on the stub driver, whose device memory is host memory: a test can do
// to it what a kernel would.
#include "rooftile/check/device_arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>

#include "rooftile/check/ladder.h"
#include "rooftile/toolchain/nvrtc_find.h"
#include "tests/stub_driver/stub.h"
#include "tests/support/scoped_env.h"

namespace rooftile::check {
namespace {

OpDef scale_op() {
  const Expr M = Expr::sym("M"), N = Expr::sym("N");
  OpDef op("test", "scale", "");
  op.out({.name = "y", .shape = {M, N}, .same_dtype_as = "x", .may_alias = {"x"}})
      .in({.name = "x", .shape = {M, N}, .dtypes = {DType::kBf16}, .align_bytes = 16});
  return op;
}

RefCall call_of(int64_t rows, int64_t columns) {
  RefCall call;
  call.dims = {{"M", rows}, {"N", columns}};
  for (const char* tensor : {"x", "y"}) {
    call.config.dtypes[tensor] = DType::kBf16;
    NdArray values{{rows, columns}, std::vector<double>(static_cast<size_t>(rows * columns))};
    for (size_t i = 0; i < values.data.size(); ++i) values.data[i] = static_cast<double>(i % 97);
    call.tensors[tensor] = values;
  }
  return call;
}

class DeviceArgumentsTest : public testing_support::StubDriverTest {};
class DeviceLayouts : public DeviceArgumentsTest, public testing::WithParamInterface<bool> {};

TEST_P(DeviceLayouts, KeepTheLayoutAndComeBackByteForByte) {
  Arguments host = place(scale_op(), call_of(5, 24), GetParam());
  host.tensor("y").poison(Poison::kFirst);
  const std::vector<std::byte> before = host.tensor("x").elements();
  auto there = DeviceArguments::allocate(device(1), host);
  ASSERT_TRUE(there.ok()) << there.diag().str();
  ASSERT_TRUE(there->upload(host, nullptr).ok());

  const TensorView on_host = host.tensor("x").view();
  const TensorView& view = there->views().find("x")->second;
  EXPECT_EQ(view.device, DeviceKind::kCuda);
  EXPECT_EQ(view.device_id, 1);
  EXPECT_NE(view.data, on_host.data);
  EXPECT_EQ(view.shape, on_host.shape);
  EXPECT_EQ(view.strides, on_host.strides);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(view.data) % 64,
            reinterpret_cast<uintptr_t>(on_host.data) % 64);

  host.tensor("x").poison(Poison::kSecond);
  ASSERT_TRUE(there->download(host, nullptr).ok());
  EXPECT_EQ(host.tensor("x").elements(), before);
  EXPECT_FALSE(host.tensor("y").guard_damage());
}

TEST_P(DeviceLayouts, AWriteOutsideATensorThereIsSeenHere) {
  Arguments host = place(scale_op(), call_of(5, 24), GetParam());
  auto there = DeviceArguments::allocate(device(), host);
  ASSERT_TRUE(there.ok());
  ASSERT_TRUE(there->upload(host, nullptr).ok());
  const TensorView& view = there->views().find("y")->second;
  auto* row_end = static_cast<uint16_t*>(view.data) + 4 * view.strides[0] + view.shape[1];
  *row_end = 0;
  ASSERT_TRUE(there->download(host, nullptr).ok());
  EXPECT_TRUE(host.tensor("y").guard_damage());
  EXPECT_FALSE(host.tensor("x").guard_damage());
}

INSTANTIATE_TEST_SUITE_P(Both, DeviceLayouts, testing::Bool(),
                         [](const auto& padded) { return padded.param ? "Padded" : "Compact"; });

TEST_F(DeviceArgumentsTest, InPlaceIsOneMemory) {
  Arguments host = place(scale_op(), call_of(2, 8), false);
  host.aliases["y"] = "x";
  auto there = DeviceArguments::allocate(device(), host);
  ASSERT_TRUE(there.ok());
  EXPECT_EQ(there->views().find("y")->second.data, there->views().find("x")->second.data);
}

TEST_F(DeviceArgumentsTest, WithoutMemoryThereIsADiag) {
  control_->script("fail=MemAlloc:1:2+");
  const Arguments host = place(scale_op(), call_of(2, 8), false);
  const auto there = DeviceArguments::allocate(device(), host);
  ASSERT_FALSE(there.ok());
  EXPECT_EQ(there.diag().code, ErrorCode::kOutOfMemory);
}

// y = x + 1, in one case.
OpDef plus_one() {
  const Expr N = Expr::sym("N");
  OpDef op("test", "plus_one", "");
  op.out({.name = "y", .shape = {N}, .same_dtype_as = "x"})
      .in({.name = "x", .shape = {N}, .dtypes = {DType::kF32}})
      .reference([](RefCall& call) {
        for (size_t i = 0; i < call["x"].data.size(); ++i)
          call["y"].data[i] = call["x"].data[i] + 1;
      })
      .tolerance([](const RefCall&) {
        return Tolerance{1e-6, 1e-6, 1e-6, "one rounding"};
      })
      .kernel({.name = "flat",
               .build =
                   [](dsl::Kernel& k, const Config&) {
                     k.tiles({"block", ceil_div(k.dim("N"), 16)}, [&](dsl::Index i) {
                       const dsl::Range part = dsl::block(i, 16, k.dim("N"));
                       k.store(k["y"](part), k.load(k["x"](part)) + 1.0);
                     });
                   }})
      .cases("N=37 : smoke\n");
  return op;
}

// A GPU on which kernels do nothing: what nobody wrote must not pass.
TEST_F(DeviceArgumentsTest, AKernelThatDoesNotRunFails) {
  if (!find_nvrtc().ok()) GTEST_SKIP() << "no NVRTC";
  const testing_support::ScopedEnv driver("ROOFTILE_CUDA_DRIVER", testing_support::stub_path());
  CheckLine last;
  auto tally = run_ladder(plus_one(), {.target = "sm90", .rung = Rung::kKernel},
                          [&](const CheckLine& line) { last = line; });
  ASSERT_TRUE(tally.ok()) << tally.diag().str();
  EXPECT_EQ(tally->failed, 1);
  EXPECT_EQ(last.target, "sm90");
  EXPECT_EQ(last.errors.reason, "never written");
}

TEST(EmulatedLadder, RunsTheSameKernelUnderManyOrders) {
  CheckLine last;
  auto tally = run_ladder(plus_one(), {.target = "sm90-emulated", .rung = Rung::kKernel, .runs = 5},
                          [&](const CheckLine& line) { last = line; });
  ASSERT_TRUE(tally.ok()) << tally.diag().str();
  EXPECT_EQ(tally->passed, 1) << last.text();
  EXPECT_EQ(last.id, "plus_one/kernel/sm90-emulated/f32/N37");
}

TEST(DeviceExecutor, SaysWhyThereIsNoGpu) {
  const testing_support::ScopedEnv driver("ROOFTILE_CUDA_DRIVER", "/no/such/driver.so");
  const OpDef* op = find_op("softmax");
  ASSERT_NE(op, nullptr);
  auto tally = run_ladder(*op, {.target = "sm90"}, [](const CheckLine&) {});
  ASSERT_FALSE(tally.ok());
  EXPECT_EQ(tally.diag().code, ErrorCode::kNoGpu);
  EXPECT_THAT(tally.diag().str(), testing::HasSubstr("/no/such/driver.so"));
}

}  // namespace
}  // namespace rooftile::check
