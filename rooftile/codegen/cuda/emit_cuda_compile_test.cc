// SPDX-License-Identifier: Apache-2.0
// NVRTC takes the text of every instruction and operation; skipped where there is no NVRTC.
#include <gtest/gtest.h>

#include "rooftile/codegen/cuda/emit_cuda.h"
#include "rooftile/lanes/testing/catalogue.h"
#include "rooftile/lanes/testing/wgmma_gemm.h"
#include "rooftile/toolchain/nvrtc.h"

namespace rooftile::codegen {
namespace {

class EmitCudaCompile : public testing::Test {
 protected:
  void SetUp() override {
    Result<const Nvrtc*> loaded = Nvrtc::load();
    if (!loaded.ok()) GTEST_SKIP() << "no NVRTC here: " << loaded.diag().str();
    nvrtc_ = *loaded;
  }

  // PTX alone needs no ptxas, whose check of instructions is the point: so always a cubin.
  Result<CudaBinary> compiled(const lanes::Program& program) const {
    Result<std::string> text = emit_cuda(program);
    if (!text.ok()) return text.status();
    return nvrtc_->compile(*text, CudaOptions(), program.name);
  }

  const Nvrtc* nvrtc_ = nullptr;
};

TEST_F(EmitCudaCompile, EveryInstruction) {
  for (const lanes::Program& program : lanes::testing::instruction_catalogue()) {
    const Result<CudaBinary> binary = compiled(program);
    EXPECT_TRUE(binary.ok()) << binary.status().str();
  }
}

TEST_F(EmitCudaCompile, EveryPureOperation) {
  const Result<CudaBinary> binary = compiled(lanes::testing::pure_catalogue());
  EXPECT_TRUE(binary.ok()) << binary.status().str();
}

TEST_F(EmitCudaCompile, EveryWidthOfAProduct) {
  const Result<CudaBinary> binary = compiled(lanes::testing::product_widths());
  EXPECT_TRUE(binary.ok()) << binary.status().str();
}

TEST_F(EmitCudaCompile, AGemmKeepsItsAccumulatorsInRegistersAndItsProductsInFlight) {
  for (const int bn : {64, 256}) {
    const Result<lanes::Program> gemm = lanes::testing::wgmma_gemm({.bn = bn, .stages = 2});
    ASSERT_TRUE(gemm.ok()) << gemm.status().str();
    const Result<CudaBinary> binary = compiled(*gemm);
    ASSERT_TRUE(binary.ok()) << binary.status().str();
    EXPECT_TRUE(shipped_ok(binary->report, "gemm").ok())
        << shipped_ok(binary->report, "gemm").str();
    EXPECT_TRUE(binary->report.remarks.empty()) << binary->log;
    EXPECT_EQ(binary->report.find("wgmma_gemm")->stack_bytes, 0);
  }
}

}  // namespace
}  // namespace rooftile::codegen
