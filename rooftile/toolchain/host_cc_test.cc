// SPDX-License-Identifier: Apache-2.0
#include "rooftile/toolchain/host_cc.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>

#include "rooftile/runtime/cpu/library.h"
#include "rooftile/toolchain/child_process.h"
#include "tests/support/scoped_env.h"
#include "tests/toolchain/temp_dir.h"

namespace rooftile {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using testing_support::read_text;
using testing_support::ScopedEnv;
using testing_support::TempDir;
using testing_support::write_text;

void write_program(const std::string& path, const std::string& text) {
  write_text(path, text);
  chmod(path.c_str(), 0755);
}

int call(const std::string& path, const std::string& name) {
  auto library = Library::open(path);
  if (!library.ok()) return -1;
  auto symbol = (*library)->symbol(name);
  return symbol.ok() ? reinterpret_cast<int (*)()>(*symbol)() : -2;
}

TEST(HostCc, CompilesTextToAnObjectThatRuns) {
  TempDir dir;
  auto out = compile_shared("extern \"C\" int answer() { return 42; }", cpu_flags(host_target()),
                            dir.file("a.so"));
  ASSERT_TRUE(out.ok()) << out.diag().str();
  EXPECT_GT(out->compile_ms, 0);
  EXPECT_EQ(call(out->path, "answer"), 42);
}

TEST(HostCc, SameTextAndFlagsGiveTheSameBytes) {
  TempDir dir;
  const std::string text =
      "static int three() { return 3; }\nextern \"C\" int f() { return three(); }";
  ASSERT_TRUE(compile_shared(text, cpu_flags(host_target()), dir.file("first.so")).ok());
  ASSERT_TRUE(compile_shared(text, cpu_flags(host_target()), dir.file("second.so")).ok());
  EXPECT_EQ(read_text(dir.file("first.so")), read_text(dir.file("second.so")));
}

TEST(HostCc, RefusedTextGivesTheCompilersMessageTrimmed) {
  TempDir dir;
  std::string text = "int f() { return undeclared_name; }\n";
  for (int i = 0; i < 200; ++i) text += "int g" + std::to_string(i) + "() { return nothing; }\n";
  auto out = compile_shared(text, cpu_flags(host_target()), dir.file("a.so"));
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.diag().code, ErrorCode::kCompileFailed);
  EXPECT_THAT(out.diag().found, HasSubstr("undeclared_name"));
  EXPECT_THAT(out.diag().found, HasSubstr("more bytes]"));
  EXPECT_LT(out.diag().found.size(), 2200u);
  EXPECT_FALSE(std::filesystem::exists(dir.file("a.so")));
}

TEST(HostCc, NamedCompilerThatDoesNotExistIsRefusedNotReplaced) {
  ScopedEnv env("ROOFTILE_CXX", "no-such-compiler");
  auto compiler = find_compiler();
  ASSERT_FALSE(compiler.ok());
  EXPECT_EQ(compiler.diag().code, ErrorCode::kNoCompiler);
  EXPECT_THAT(compiler.diag().str(), HasSubstr("no-such-compiler"));
  EXPECT_THAT(compiler.diag().fix, HasSubstr("apt-get install g++"));
}

TEST(HostCc, ProgramThatIsNoCompilerIsRefused) {
  TempDir dir;
  write_program(dir.file("cc"), "#!/bin/sh\nexit 7\n");
  ScopedEnv env("ROOFTILE_CXX", dir.file("cc"));
  auto compiler = find_compiler();
  ASSERT_FALSE(compiler.ok());
  EXPECT_EQ(compiler.diag().code, ErrorCode::kNoCompiler);
  EXPECT_THAT(compiler.diag().found, HasSubstr("exit status 7"));
}

TEST(HostCc, EmptyPathGivesNoCompiler) {
  TempDir dir;
  ScopedEnv env("PATH", dir.path());
  auto compiler = find_compiler();
  ASSERT_FALSE(compiler.ok());
  EXPECT_EQ(compiler.diag().code, ErrorCode::kNoCompiler);
}

// kf-jit-04: another version of the compiler behind the same name is another compiler.
TEST(HostCc, UpgradedCompilerHasAnotherIdentity) {
  TempDir dir;
  ScopedEnv env("ROOFTILE_CXX", dir.file("cc"));
  write_program(dir.file("cc"), "#!/bin/sh\necho cc 12.1\necho more\n");
  auto before = find_compiler();
  ASSERT_TRUE(before.ok()) << before.diag().str();
  EXPECT_EQ(before->version, "cc 12.1");
  write_program(dir.file("cc"), "#!/bin/sh\necho cc 12.2 of another day\n");
  auto after = find_compiler();
  ASSERT_TRUE(after.ok());
  EXPECT_NE(before->identity, after->identity);
}

// No shell: what looks like shell syntax reaches the program as it is.
TEST(ChildProcess, ArgumentsAndInputArriveUnchanged) {
  auto echo = run_child({"/bin/echo", "a b", "$HOME", "`id`"});
  ASSERT_TRUE(echo.ok());
  EXPECT_EQ(echo->text, "a b $HOME `id`\n");
  const std::string big(1 << 20, 'x');
  auto cat = run_child({"/bin/cat"}, big);
  ASSERT_TRUE(cat.ok());
  EXPECT_EQ(cat->text, big);
}

TEST(ChildProcess, ReportsExitStatusSignalAndMissingProgram) {
  EXPECT_EQ(run_child({"/bin/sh", "-c", "exit 3"})->exit_code, 3);
  EXPECT_EQ(run_child({"/bin/sh", "-c", "kill -9 $$"})->exit_code, 128 + 9);
  EXPECT_EQ(run_child({"/no/such/program"}).diag().code, ErrorCode::kNoCompiler);
}

TEST(CpuFlags, NameOnlyFeaturesThatTheTargetHas) {
  TargetInfo target;
  EXPECT_THAT(cpu_flags(target), Not(Contains("-mavx2")));
  target.isa = "avx2";
  EXPECT_THAT(cpu_flags(target), Contains("-mfma"));
  EXPECT_THAT(cpu_flags(target), Not(Contains(HasSubstr("avx512"))));
  target.isa = "avx512";
  EXPECT_THAT(cpu_flags(target), Contains("-mprefer-vector-width=512"));
  EXPECT_THAT(cpu_flags(target), Not(Contains("-mavx512bf16")));
  EXPECT_THAT(cpu_flags(target), Not(Contains(HasSubstr("amx"))));
  target.avx512_bf16 = target.avx512_fp16 = target.avx512_vnni = target.amx_int8 = true;
  for (const char* flag :
       {"-mavx512bf16", "-mavx512fp16", "-mavx512vnni", "-mamx-tile", "-mamx-int8"})
    EXPECT_THAT(cpu_flags(target), Contains(flag));
  EXPECT_THAT(cpu_flags(target), Not(Contains("-mamx-bf16")));
}

// The compiler takes every flag that can be asked for, whatever this machine has.
TEST(CpuFlags, CompilerTakesTheFullSet) {
  TempDir dir;
  TargetInfo all{.isa = "avx512",
                 .amx_bf16 = true,
                 .amx_int8 = true,
                 .avx512_bf16 = true,
                 .avx512_vnni = true,
                 .avx512_fp16 = true};
  auto out = compile_shared("extern \"C\" int f() { return 1; }", cpu_flags(all), dir.file("a.so"));
  EXPECT_TRUE(out.ok()) << out.diag().str();
}

}  // namespace
}  // namespace rooftile
