// SPDX-License-Identifier: Apache-2.0
// A kernel compiled here and used where there is neither NVRTC nor a compiler.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "rooftile/compile/gpu_kernel.h"
#include "rooftile/toolchain/nvrtc_find.h"
#include "tests/support/scoped_env.h"

namespace rooftile {
namespace {

using testing_support::ScopedEnv;

// Of its own, so that no other test of this process has compiled it.
Result<KernelSource> kernel_source() {
  const Expr N = Expr::sym("N");
  OpDef op("test", "times_1717", "");
  op.out({.name = "y", .shape = {N}, .same_dtype_as = "x"})
      .in({.name = "x", .shape = {N}, .dtypes = {DType::kF32}})
      .kernel({.name = "flat", .build = [](dsl::Kernel& k, const Config&) {
                 k.tiles({"block", ceil_div(k.dim("N"), 16)}, [&](dsl::Index i) {
                   const dsl::Range part = dsl::block(i, 16, k.dim("N"));
                   k.store(k["y"](part), k.load(k["x"](part)) * 1717.0);
                 });
               }});
  Config config;
  config.dtypes = {{"x", DType::kF32}, {"y", DType::kF32}};
  return generate(op, op.kernels.front(), config, {{"N", 100}}, sm90_target());
}

class CarryGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (!find_nvrtc().ok()) GTEST_SKIP() << "no NVRTC";
    std::string pattern = testing::TempDir() + "rooftile-carry-XXXXXX";
    dir_ = mkdtemp(pattern.data());
  }
  void TearDown() override {
    std::error_code ignored;
    std::filesystem::remove_all(dir_, ignored);
  }
  std::string dir_;
};

TEST_F(CarryGpu, NeedsNeitherNvrtcNorACompiler) {
  auto source = kernel_source();
  ASSERT_TRUE(source.ok()) << source.diag().str();
  const Status carried = carry_gpu(*source, dir_ + "/carry");
  ASSERT_TRUE(carried.ok()) << carried.str();

  const ScopedEnv folder("ROOFTILE_CUBIN_DIR", dir_ + "/carry");
  const ScopedEnv cache("ROOFTILE_CACHE_DIR", dir_ + "/cache");
  const ScopedEnv nvrtc("ROOFTILE_NVRTC", "/no/such/nvrtc.so"), cxx("ROOFTILE_CXX", "/no/such/cxx");
  auto kernel = compile(*source);
  ASSERT_TRUE(kernel.ok()) << kernel.diag().str();
  EXPECT_TRUE((*kernel)->from_cache);
  EXPECT_NE((*kernel)->launch, nullptr);
  EXPECT_EQ((*kernel)->library_path.rfind(dir_ + "/carry/", 0), 0u) << (*kernel)->library_path;
  EXPECT_NE((*kernel)->nvrtc, "");
}

}  // namespace
}  // namespace rooftile
