// SPDX-License-Identifier: Apache-2.0
#include "rooftile/toolchain/cubin_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "tests/support/scoped_env.h"
#include "tests/toolchain/temp_dir.h"

namespace rooftile {
namespace {

using ::testing::HasSubstr;
using testing_support::read_text;
using testing_support::ScopedEnv;
using testing_support::TempDir;
using testing_support::write_text;

const CudaOptions kOptions;

// A compiler that needs no NVRTC; counts what is asked of it.
struct FakeNvrtc {
  std::string identity = "build-id 1234";
  std::atomic<int> compiled = 0;
  CudaCompiler compiler() {
    return {.identity = [this]() -> Result<std::string> { return identity; },
            .compile = [this](const std::string& text, const CudaOptions& options,
                              const std::string&) -> Result<CudaBinary> {
              ++compiled;
              CudaBinary out;
              out.cubin = std::string("\177ELF\0\n", 6) + text + options.arch;
              out.ptx = "ptx of " + text;
              out.log =
                  "ptxas info    : Compiling entry function 'f' for 'sm_90a'\n"
                  "ptxas info    : Used 8 registers\n";
              out.report = parse_ptxas_log(out.log);
              out.nvrtc = "NVRTC 13.0, " + identity;
              out.compile_ms = 12.5;
              return out;
            }};
  }
};

// What a machine has where nothing may be compiled.
CudaCompiler known_but_not_loadable(std::string identity) {
  return {.identity = [identity]() -> Result<std::string> { return identity; },
          .compile = [](const std::string&, const CudaOptions&,
                        const std::string&) -> Result<CudaBinary> {
            return Diag{.code = ErrorCode::kNoNvrtc, .message = "NVRTC must not be loaded"};
          }};
}
CudaCompiler no_nvrtc() {
  return {.identity = []() -> Result<std::string> {
            return Diag{.code = ErrorCode::kNoNvrtc, .message = "no NVRTC", .found = ""};
          },
          .compile = known_but_not_loadable("").compile};
}

class CubinCacheTest : public testing::Test {
 protected:
  CubinCache open(CudaCompiler compiler, const std::string& carried = "") {
    auto cache = CubinCache::open(dir_.file("cache"), carried, std::move(compiler));
    EXPECT_TRUE(cache.ok()) << cache.diag().str();
    return *cache;
  }
  TempDir dir_;
  FakeNvrtc nvrtc_;
  ScopedEnv nothing_carried_{"ROOFTILE_CUBIN_DIR", nullptr};
};

void expect_same(const CudaBinary& a, const CudaBinary& b) {
  EXPECT_EQ(a.cubin, b.cubin);
  EXPECT_EQ(a.ptx, b.ptx);
  EXPECT_EQ(a.log, b.log);
  EXPECT_EQ(a.report, b.report);
  EXPECT_EQ(a.nvrtc, b.nvrtc);
  EXPECT_EQ(a.compile_ms, b.compile_ms);
}

TEST_F(CubinCacheTest, HitGivesAllThatWasCompiledAndLoadsNoNvrtc) {
  const auto first = open(nvrtc_.compiler()).get_or_compile("text", kOptions, "op");
  ASSERT_TRUE(first.ok()) << first.diag().str();
  EXPECT_EQ(first->origin, CubinOrigin::kCompiled);
  const auto second =
      open(known_but_not_loadable(nvrtc_.identity)).get_or_compile("text", kOptions, "op");
  ASSERT_TRUE(second.ok()) << second.diag().str();
  EXPECT_EQ(second->origin, CubinOrigin::kCache);
  expect_same(first->binary, second->binary);
  EXPECT_EQ(read_text(second->text_path), "text");
  EXPECT_THAT(second->text_path, testing::EndsWith(".cu"));
}

// The real NVRTC on a hit: its file is looked at, the library is not opened.
TEST_F(CubinCacheTest, HitWithTheRealFinderOpensNothing) {
  const std::string library = dir_.file("libnvrtc.so.13");
  std::string elf = "\177ELF\2\1\1";  // an ELF file that no loader takes
  elf.resize(256);
  write_text(library, elf);
  ScopedEnv env("ROOFTILE_NVRTC", library);
  CudaCompiler real = CudaCompiler::nvrtc();
  nvrtc_.identity = *real.identity();
  ASSERT_TRUE(open(nvrtc_.compiler()).get_or_compile("text", kOptions, "op").ok());
  const CubinCache cache = open(real);
  const auto hit = cache.get_or_compile("text", kOptions, "op");
  ASSERT_TRUE(hit.ok()) << hit.diag().str();
  EXPECT_EQ(hit->origin, CubinOrigin::kCache);
  const auto miss = cache.get_or_compile("another text", kOptions, "op");
  ASSERT_FALSE(miss.ok()) << "the library cannot be loaded, as the test wants it";
  EXPECT_EQ(miss.diag().code, ErrorCode::kNoNvrtc);
}

TEST_F(CubinCacheTest, EveryInputMakesAnEntryOfItsOwn) {
  const CubinCache cache = open(nvrtc_.compiler());
  const auto compile = [&](const std::string& text, const CudaOptions& options) {
    const auto out = cache.get_or_compile(text, options, "op");
    EXPECT_TRUE(out.ok());
    EXPECT_EQ(out->binary.ptx, "ptx of " + text);
    return nvrtc_.compiled.load();
  };
  EXPECT_EQ(compile("a", {}), 1);
  EXPECT_EQ(compile("b", {}), 2);
  EXPECT_EQ(compile("a", {.arch = "compute_90a"}), 3);
  EXPECT_EQ(compile("a", {.flags = {"-x", "-y"}}), 4);
  EXPECT_EQ(compile("a", {.flags = {"-y", "-x"}}), 4) << "the order of flags does not count";
  nvrtc_.identity = "build-id 5678";
  EXPECT_EQ(compile("a", {}), 5);
  EXPECT_EQ(compile("a", {}), 5);
}

TEST_F(CubinCacheTest, DamagedEntryIsCompiledAgain) {
  const CubinCache cache = open(nvrtc_.compiler());
  const auto first = cache.get_or_compile("text", kOptions, "op");
  ASSERT_TRUE(first.ok());
  std::string bytes = read_text(first->path);
  bytes[bytes.size() / 2] ^= 1;
  write_text(first->path, bytes);
  const auto again = cache.get_or_compile("text", kOptions, "op");
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->origin, CubinOrigin::kCompiled);
  expect_same(first->binary, again->binary);
  EXPECT_EQ(cache.get_or_compile("text", kOptions, "op")->origin, CubinOrigin::kCache);
}

TEST_F(CubinCacheTest, FailedCompilationIsReportedAndNotKept) {
  const CubinCache cache = open(known_but_not_loadable("build-id 1234"));
  EXPECT_FALSE(cache.get_or_compile("text", kOptions, "op").ok());
  EXPECT_TRUE(std::filesystem::is_empty(cache.dir()));
}

// Compiled here, used where there is no NVRTC or another one.
TEST_F(CubinCacheTest, CarriedFolderNeedsNoNvrtc) {
  const std::string carried = dir_.file("carried");
  const auto made = open(nvrtc_.compiler()).carry_to(carried, "text", kOptions, "op");
  ASSERT_TRUE(made.ok()) << made.diag().str();
  std::filesystem::remove_all(dir_.file("cache"));
  std::filesystem::rename(carried, dir_.file("elsewhere"));

  for (const CudaCompiler& machine : {no_nvrtc(), known_but_not_loadable("build-id other")}) {
    const CubinCache cache = open(machine, dir_.file("elsewhere"));
    const auto hit = cache.get_or_compile("text", kOptions, "op");
    ASSERT_TRUE(hit.ok()) << hit.diag().str();
    EXPECT_EQ(hit->origin, CubinOrigin::kCarried);
    expect_same(hit->binary, made->binary);
    EXPECT_EQ(hit->binary.nvrtc, "NVRTC 13.0, build-id 1234") << "who made it is on record";
  }
  const auto miss = open(no_nvrtc(), dir_.file("elsewhere")).get_or_compile("b", kOptions, "op");
  ASSERT_FALSE(miss.ok());
  EXPECT_EQ(miss.diag().code, ErrorCode::kNoNvrtc);
  EXPECT_THAT(miss.diag().when, HasSubstr("elsewhere"));
}

TEST_F(CubinCacheTest, EnvironmentNamesTheCarriedFolder) {
  const std::string carried = dir_.file("carried");
  ASSERT_TRUE(open(nvrtc_.compiler()).carry_to(carried, "text", kOptions, "op").ok());
  ScopedEnv env("ROOFTILE_CUBIN_DIR", carried);
  const auto hit = open(no_nvrtc()).get_or_compile("text", kOptions, "op");
  ASSERT_TRUE(hit.ok()) << hit.diag().str();
  EXPECT_EQ(hit->origin, CubinOrigin::kCarried);
}

TEST_F(CubinCacheTest, CarriedFolderMustExistAndBeSafe) {
  const auto missing = CubinCache::open(dir_.file("cache"), dir_.file("none"), no_nvrtc());
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.diag().code, ErrorCode::kCache);
  EXPECT_THAT(missing.diag().fix, HasSubstr("ROOFTILE_CUBIN_DIR"));
  mkdir(dir_.file("open").c_str(), 0700);
  chmod(dir_.file("open").c_str(), 0777);
  EXPECT_FALSE(CubinCache::open(dir_.file("cache"), dir_.file("open"), no_nvrtc()).ok());
}

TEST_F(CubinCacheTest, ThreadsCompileAKeyOnce) {
  const CubinCache cache = open(nvrtc_.compiler());
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      const auto out = cache.get_or_compile("text", kOptions, "op");
      if (out.ok() && out->binary.ptx == "ptx of text") ++right;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 8);
  EXPECT_EQ(nvrtc_.compiled, 1);
}

}  // namespace
}  // namespace rooftile
