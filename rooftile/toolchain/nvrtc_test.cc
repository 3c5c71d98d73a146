// SPDX-License-Identifier: Apache-2.0
// NVRTC itself; skipped where there is none (./dev test brings it).
#include "rooftile/toolchain/nvrtc.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "rooftile/toolchain/elf_file.h"
#include "tests/support/scoped_env.h"
#include "tests/toolchain/temp_dir.h"

namespace rooftile {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using testing_support::ScopedEnv;
using testing_support::TempDir;
using testing_support::write_text;

constexpr const char* kAxpy = R"(
extern "C" __global__ void __launch_bounds__(256) axpy(float a, const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += a * x[i];
})";

constexpr const char* kSpills = R"(
extern "C" __global__ void __launch_bounds__(1024, 2) spiller(float* p) {
  float a[80];
#pragma unroll
  for (int i = 0; i < 80; ++i) a[i] = p[threadIdx.x * 80 + i];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 80; ++i) {
    p[threadIdx.x * 80 + (i * 7) % 80] = a[i] * a[(i + 1) % 80];
    __syncthreads();
  }
})";

constexpr const char* kSetmaxnregDropped = R"(
extern "C" __global__ void __launch_bounds__(256) roles(float* p) {
  if (threadIdx.x >= 128) asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
  p[threadIdx.x] = 1;
})";

// 32 accumulators and two descriptors want more registers than 2048 threads leave.
constexpr const char* kSqueezed = R"(
extern "C" __global__ void __launch_bounds__(128, 16) squeezed(float* p, unsigned long long d) {
  float c[32];
  for (int i = 0; i < 32; ++i) c[i] = 0;
  asm volatile("wgmma.fence.sync.aligned;");
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,"
      "%25,%26,%27,%28,%29,%30,%31}, %32, %32, 1, 1, 1, 0, 0;"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]),
        "+f"(c[7]), "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]),
        "+f"(c[14]), "+f"(c[15]), "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]),
        "+f"(c[21]), "+f"(c[22]), "+f"(c[23]), "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]),
        "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31])
      : "l"(d));
  asm volatile("wgmma.commit_group.sync.aligned;");
  asm volatile("wgmma.wait_group.sync.aligned 0;");
  for (int i = 0; i < 32; ++i) p[threadIdx.x * 32 + i] = c[i];
})";

class NvrtcCompiler : public testing::Test {
 protected:
  void SetUp() override {
    Result<const Nvrtc*> loaded = Nvrtc::load();
    if (!loaded.ok()) GTEST_SKIP() << "no NVRTC here: " << loaded.diag().str();
    nvrtc_ = *loaded;
  }
  CudaBinary compile(const char* text, const CudaOptions& options = {}) {
    Result<CudaBinary> out = nvrtc_->compile(text, options);
    EXPECT_TRUE(out.ok()) << out.diag().str();
    return out.ok() ? *out : CudaBinary{};
  }
  const Nvrtc* nvrtc_ = nullptr;
};

TEST_F(NvrtcCompiler, TextBecomesACubinWithItsReport) {
  const CudaBinary out = compile(kAxpy);
  EXPECT_THAT(out.cubin, StartsWith("\177ELF"));
  EXPECT_THAT(out.ptx, HasSubstr(".target sm_90a"));
  ASSERT_NE(out.report.find("axpy"), nullptr) << out.log;
  EXPECT_GT(out.report.find("axpy")->registers, 4);
  EXPECT_TRUE(shipped_ok(out.report, "axpy").ok());
  EXPECT_GT(out.compile_ms, 0);
  EXPECT_THAT(out.nvrtc, StartsWith("NVRTC 1"));
}

// With a driver beside it NVRTC keeps a cache of its own, whose hits have no log (seen with 13.0).
TEST_F(NvrtcCompiler, EveryCompilationReports) {
  for (int i = 0; i < 3; ++i) EXPECT_NE(compile(kAxpy).report.find("axpy"), nullptr) << i;
}

TEST_F(NvrtcCompiler, PtxAlone) {
  const CudaBinary out = compile(kAxpy, {.arch = "compute_90a"});
  EXPECT_EQ(out.cubin, "");
  EXPECT_THAT(out.ptx, HasSubstr(".entry axpy"));
}

TEST_F(NvrtcCompiler, EqualInputsGiveEqualBytesAlsoFromSeveralThreads) {
  const CudaBinary alone = compile(kAxpy, {.flags = {"-use_fast_math", "--fmad=false"}});
  std::array<CudaBinary, 4> out;
  std::vector<std::thread> threads;
  for (CudaBinary& mine : out)
    threads.emplace_back([&] {
      mine = compile(kAxpy, {.flags = {"--fmad=false", "-use_fast_math"}});
    });
  for (std::thread& thread : threads) thread.join();
  for (const CudaBinary& mine : out) {
    EXPECT_EQ(mine.cubin, alone.cubin);
    EXPECT_EQ(mine.ptx, alone.ptx);
    EXPECT_EQ(mine.log, alone.log);
  }
}

TEST_F(NvrtcCompiler, SlowKernelsCompileButAreNotShipped) {
  const CudaBinary spills = compile(kSpills), dropped = compile(kSetmaxnregDropped);
  ASSERT_NE(spills.report.find("spiller"), nullptr) << spills.log;
  EXPECT_GT(spills.report.find("spiller")->spill_store_bytes, 0);
  EXPECT_EQ(dropped.report.count(PtxasRemarkKind::kDroppedSetmaxnreg), 1) << dropped.log;
  EXPECT_FALSE(shipped_ok(spills.report, "spiller").ok());
  EXPECT_FALSE(shipped_ok(dropped.report, "roles").ok());
}

TEST_F(NvrtcCompiler, RefusedTextGivesTheCompilersMessage) {
  const auto out = nvrtc_->compile("__global__ void f() { undeclared_name = 1; }", {}, "my_op");
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.diag().code, ErrorCode::kCudaCompile);
  EXPECT_EQ(out.diag().subject, "my_op");
  EXPECT_THAT(out.diag().found, HasSubstr("undeclared_name"));
  const auto option = nvrtc_->compile(kAxpy, {.flags = {"--no-such-option"}});
  ASSERT_FALSE(option.ok());
  EXPECT_THAT(option.diag().str(), HasSubstr("no-such-option"));
}

TEST_F(NvrtcCompiler, TooFewRegistersNamesTheNumber) {
  const auto out = nvrtc_->compile(kSqueezed, {});
  ASSERT_FALSE(out.ok());
  EXPECT_THAT(out.diag().found, HasSubstr("C7602"));
  EXPECT_THAT(out.diag().fix,
              testing::MatchesRegex("let a thread have [0-9]+ registers or more.*"));
}

TEST_F(NvrtcCompiler, IdentityNeedsNoLoadingAndDoesNotDependOnThePlace) {
  TempDir dir;
  const std::string copy = dir.file("libnvrtc.so.13");
  std::filesystem::create_symlink(nvrtc_->location().path, copy);
  EXPECT_EQ(library_identity(copy), nvrtc_->location().identity);
}

TEST(FindNvrtc, NamedFileIsUsedOrRefusedNeverReplaced) {
  TempDir dir;
  ScopedEnv missing("ROOFTILE_NVRTC", dir.file("libnvrtc.so.13"));
  auto found = find_nvrtc();
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.diag().code, ErrorCode::kNoNvrtc);
  EXPECT_THAT(found.diag().str(), HasSubstr(dir.path()));
  write_text(dir.file("libnvrtc.so.13"), "not a library");
  found = find_nvrtc();
  ASSERT_FALSE(found.ok());
  EXPECT_THAT(found.diag().message, HasSubstr("no shared library"));
}

// A library that is one, but not NVRTC: found by its bytes, refused when it is to be loaded.
TEST(FindNvrtc, LibraryWithoutTheEntryPointsIsRefused) {
  const std::string other = std::filesystem::canonical("/proc/self/exe").string();
  ScopedEnv env("ROOFTILE_NVRTC", other);
  ASSERT_TRUE(find_nvrtc().ok());
  const auto loaded = Nvrtc::load();
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.diag().code, ErrorCode::kNoNvrtc);
  EXPECT_THAT(loaded.diag().when, HasSubstr("ROOFTILE_NVRTC"));
}

TEST(FindNvrtc, LinkerPathComesBeforeTheToolkit) {
  TempDir dir;
  const std::string mine = dir.file("libnvrtc.so.13");
  std::filesystem::copy_file("/proc/self/exe", mine);  // any ELF file: nothing loads it
  ScopedEnv none("ROOFTILE_NVRTC", nullptr), path("LD_LIBRARY_PATH", "/nowhere:" + dir.path());
  const auto found = find_nvrtc();
  ASSERT_TRUE(found.ok()) << found.diag().str();
  if (found->how == "already loaded") GTEST_SKIP() << "an earlier test of this process loaded it";
  EXPECT_EQ(found->path, mine);
  EXPECT_THAT(found->identity, Not(testing::IsEmpty()));
}

TEST(LibraryIdentity, WithoutBuildIdTheContentTells) {
  TempDir dir;
  std::string elf = "\177ELF\2\1\1";
  elf.resize(4096, 'x');
  write_text(dir.file("a"), elf);
  write_text(dir.file("b"), elf);
  const auto a = library_identity(dir.file("a"));
  ASSERT_TRUE(a.has_value());
  EXPECT_THAT(*a, StartsWith("size 4096 sha256 "));
  EXPECT_EQ(a, library_identity(dir.file("b")));
  elf.back() = 'y';
  write_text(dir.file("b"), elf);
  EXPECT_NE(a, library_identity(dir.file("b")));
  EXPECT_FALSE(library_identity(dir.file("none")).has_value());
  EXPECT_FALSE(library_identity(dir.path()).has_value());
}

}  // namespace
}  // namespace rooftile
