// SPDX-License-Identifier: Apache-2.0
// Callers who demand proved kernels: what passes, what is refused, and that nothing is written
// then.
#include "rooftile/compile/proof_gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rooftile/api.h"
#include "rooftile/compile/dispatch.h"
#include "rooftile/ops/op_def.h"
#include "rooftile/verify/shipped.h"
#include "tests/support/scoped_env.h"

namespace rooftile {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr int64_t kCount = 70;

// y[i] = 2 x[i], a tile of 32 after the other; `overlap` more elements than a tile has.
OpDef doubled(const char* name, int overlap) {
  const Expr n = Expr::sym("N");
  return OpDef("test", name, "2 x")
      .out({.name = "y", .shape = {n}, .dtypes = {DType::kF32}})
      .in({.name = "x", .shape = {n}, .dtypes = {DType::kF32}})
      .kernel({.name = "tiles", .build = [overlap](dsl::Kernel& k, const Config&) {
                 const dsl::Index count = k.dim("N");
                 k.tiles({{"i", ceil_div(count, 32)}}, [&](dsl::Index i) {
                   const dsl::Range part{i * 32, min(Expr(32 + overlap), count - i * 32)};
                   k.store(k["y"](part), k.load(k["x"](part)) * 2.0);
                 });
               }});
}

struct Doubling {
  std::vector<float> x = std::vector<float>(kCount, 3), y = std::vector<float>(kCount, -1);
  Status call(const OpDef& op, const CallOptions& options) {
    return rooftile::call(op,
                          {{"y", TensorView(y.data(), DType::kF32, {kCount})},
                           {"x", TensorView(x.data(), DType::kF32, {kCount})}},
                          {}, options);
  }
};

TEST(ProofGate, AnOperatorOfOnesOwnIsProvedAtItsFirstCall) {
  static const OpDef& op = keep(doubled("doubled", 0));
  Doubling doubling;
  const Status status = doubling.call(op, {.proved = true});
  ASSERT_TRUE(status.ok()) << status.str();
  EXPECT_THAT(doubling.y, Each(6.0F));
}

// Every element is right whatever the order, and yet two tiles write some of them.
TEST(ProofGate, WhatIsRefutedIsNotCalled) {
  static const OpDef& op = keep(doubled("doubled_twice", 1));
  Doubling doubling;
  const Status status = doubling.call(op, {.proved = true});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.diag().code, ErrorCode::kRefuted);
  EXPECT_THAT(status.str(), HasSubstr("tile.once"));
  EXPECT_THAT(status.str(), HasSubstr("proof_gate_test.cc"));
  EXPECT_THAT(doubling.y, Each(-1.0F));
}

TEST(ProofGate, TheProcessMayDemandIt) {
  static const OpDef& op = keep(doubled("doubled_again", 1));
  const testing_support::ScopedEnv demand("ROOFTILE_REQUIRE_PROVED", "1");
  Doubling doubling;
  const Status status = doubling.call(op, {});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.diag().code, ErrorCode::kRefuted);
}

TEST(ProofGate, HandWrittenKernelsAreRefused) {
  static const OpDef& op = keep(doubled("doubled_raw", 0));
  Doubling doubling;
  const Status status = doubling.call(op, {.route = Route::kRaw, .proved = true});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.diag().code, ErrorCode::kUnproved);
  KernelSource raw;
  raw.route = Route::kRaw;
  EXPECT_EQ(require_proved(raw).diag().code, ErrorCode::kUnproved);
}

TEST(Waivers, ComeFromTheKernelsSource) {
  OpDef op = doubled("doubled_waived", 0);
  op.kernels[0].waivers = {{"tile.once", "by inspection"}};
  const verify::ShippedKernel shipped{.op = &op, .kernel = &op.kernels[0]};
  const verify::ProofJob job = verify::job_for(shipped);
  ASSERT_EQ(job.waivers.size(), 1U);
  EXPECT_EQ(job.waivers[0].why, "by inspection");
}

}  // namespace
}  // namespace rooftile
