// SPDX-License-Identifier: Apache-2.0
// The logs below are ptxas 13.0's own words.
#include "rooftile/toolchain/ptxas_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rooftile {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kClean = R"(ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'gemm64' for 'sm_90a'
ptxas info    : Function properties for gemm64
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 58 registers, used 1 barriers, 1024 bytes smem
)";

constexpr const char* kTwoKernels =
    R"(ptxas warning : Registers are spilled to local memory in function 'spiller', 564 bytes spill stores, 568 bytes spill loads
ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register count at entry.
ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register count at entry.
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'small' for 'sm_90a'
ptxas info    : Function properties for small
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 1 barriers, 400 bytes smem
ptxas info    : Function properties for a_device_function
ptxas         .     96 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads
ptxas info    : Compiling entry function 'spiller' for 'sm_90a'
ptxas info    : Function properties for spiller
ptxas         .     480 bytes stack frame, 564 bytes spill stores, 568 bytes spill loads
ptxas info    : Used 32 registers, used 0 barriers, 480 bytes cumulative stack size
)";

constexpr const char* kSerialised =
    R"(ptxas info    : (C7519) warpgroup.arrive is injected in around line 307 by compiler to allow use of registers in GMMA in function 'gemm64'
ptxas info    : (C7511) Potential Performance Loss: wgmma.mma_async instructions are serialized due to insufficient register resources for the wgmma pipeline in the function 'gemm64'
)";

constexpr const char* kTooFewRegisters =
    R"(ptxas fatal   : (C7602) Insufficient registers (32) to compile instruction at line 199 in function gemm64. Try to compile with register target of 58 or higher.
ptxas fatal   : Ptx assembly aborted due to errors
)";

TEST(PtxasReport, ResourcesOfACleanKernel) {
  const PtxasReport report = parse_ptxas_log(kClean);
  ASSERT_EQ(report.kernels.size(), 1u);
  EXPECT_EQ(
      report.kernels[0],
      (PtxasKernel{.name = "gemm64", .registers = 58, .barriers = 1, .static_smem_bytes = 1024}));
  EXPECT_THAT(report.remarks, IsEmpty());
  EXPECT_TRUE(shipped_ok(report, "gemm").ok());
}

TEST(PtxasReport, EachKernelHasItsOwnLines) {
  const PtxasReport report = parse_ptxas_log(kTwoKernels);
  ASSERT_EQ(report.kernels.size(), 2u);
  ASSERT_NE(report.find("small"), nullptr);
  EXPECT_EQ(report.find("small")->stack_bytes, 0) << "those of a device function are not its own";
  EXPECT_EQ(report.find("small")->static_smem_bytes, 400);
  const PtxasKernel* spiller = report.find("spiller");
  ASSERT_NE(spiller, nullptr);
  EXPECT_EQ(spiller->stack_bytes, 480);
  EXPECT_EQ(spiller->spill_store_bytes, 564);
  EXPECT_EQ(spiller->spill_load_bytes, 568);
  EXPECT_EQ(spiller->static_smem_bytes, 0);
  EXPECT_EQ(report.find("no such kernel"), nullptr);
}

TEST(PtxasReport, SpillsAndDroppedSetmaxnregAreOneError) {
  const Status status = shipped_ok(parse_ptxas_log(kTwoKernels), "attention");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.diag().code, ErrorCode::kCudaReport);
  EXPECT_EQ(status.diag().subject, "attention");
  EXPECT_THAT(status.diag().found, HasSubstr("C7508"));
  EXPECT_THAT(status.diag().found, HasSubstr("spiller spills 564 bytes out and 568 in, at 32"));
  EXPECT_EQ(status.diag().found.find("C7508"), status.diag().found.rfind("C7508")) << "said once";
  EXPECT_THAT(status.diag().fix, HasSubstr("__launch_bounds__(threads, 1)"));
}

TEST(PtxasReport, SerialisedWgmmaIsRefusedAnInjectedWaitIsNot) {
  PtxasReport report = parse_ptxas_log(std::string(kSerialised) + kClean);
  EXPECT_EQ(report.count(PtxasRemarkKind::kSerialisedWgmma), 1);
  EXPECT_EQ(report.count(PtxasRemarkKind::kInjectedWait), 1);
  for (const PtxasRemark& remark : report.remarks) EXPECT_EQ(remark.kernel, "gemm64");
  EXPECT_THAT(shipped_ok(report, "gemm").diag().found, HasSubstr("C7511"));
  std::erase_if(report.remarks,
                [](const auto& r) { return r.kind == PtxasRemarkKind::kSerialisedWgmma; });
  EXPECT_TRUE(shipped_ok(report, "gemm").ok());
}

TEST(PtxasReport, EveryCodeOfSerialisedWgmmaIsRefused) {
  for (const char* code :
       {"C7509", "C7510", "C7511", "C7512", "C7513", "C7514", "C7515", "C7516", "C7518", "C7520"}) {
    const std::string line = "ptxas info    : (" + std::string(code) + ") words in function 'f'\n";
    const Status status = shipped_ok(parse_ptxas_log(line + kClean), "gemm");
    ASSERT_FALSE(status.ok()) << code;
    EXPECT_THAT(status.diag().found, HasSubstr(code));
    EXPECT_FALSE(status.diag().fix.empty());
  }
}

TEST(PtxasReport, RegisterTargetIsANumber) {
  const PtxasReport report = parse_ptxas_log(kTooFewRegisters);
  EXPECT_EQ(report.registers_at_least, 58);
  ASSERT_EQ(report.remarks.size(), 2u);
  EXPECT_EQ(report.remarks[0].kind, PtxasRemarkKind::kRegisterTarget);
  EXPECT_EQ(report.remarks[0].kernel, "gemm64");
}

TEST(PtxasReport, EmptyReportProvesNothing) {
  EXPECT_FALSE(shipped_ok(parse_ptxas_log(""), "gemm").ok());
  EXPECT_FALSE(shipped_ok(parse_ptxas_log("noise\nptxas\nptxas : \n"), "gemm").ok());
}

TEST(PtxasReport, SurvivesJson) {
  for (const char* log : {kClean, kTwoKernels, kSerialised, kTooFewRegisters}) {
    const PtxasReport report = parse_ptxas_log(log);
    const auto back = report_from_json(report_json(report));
    ASSERT_TRUE(back.has_value());
    EXPECT_EQ(*back, report);
  }
  EXPECT_FALSE(report_from_json("[1]").has_value());
  EXPECT_FALSE(report_from_json("{}").has_value());
  EXPECT_FALSE(report_from_json("not json").has_value());
}

}  // namespace
}  // namespace rooftile
