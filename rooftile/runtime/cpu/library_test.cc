// SPDX-License-Identifier: Apache-2.0
#include "rooftile/runtime/cpu/library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "rooftile/toolchain/host_cc.h"
#include "tests/toolchain/temp_dir.h"

namespace rooftile {
namespace {

using ::testing::HasSubstr;
using testing_support::TempDir;
using testing_support::write_text;

std::string build(const std::string& text, const std::string& path) {
  auto out = compile_shared(text, cpu_flags(TargetInfo{}), path);
  return out.ok() ? path : out.diag().str();
}

TEST(Library, MissingFileAndGarbageAreRefusedWithTheReason) {
  TempDir dir;
  auto missing = Library::open(dir.file("none.so"));
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.diag().code, ErrorCode::kLoad);
  EXPECT_THAT(missing.diag().found, HasSubstr("none.so"));
  write_text(dir.file("bad.so"), "not an object");
  auto garbage = Library::open(dir.file("bad.so"));
  ASSERT_FALSE(garbage.ok());
  EXPECT_EQ(garbage.diag().code, ErrorCode::kLoad);
}

TEST(Library, SymbolsAreFoundByNameOrRefused) {
  TempDir dir;
  auto library = Library::open(build("extern \"C\" int f() { return 7; }", dir.file("a.so")));
  ASSERT_TRUE(library.ok()) << library.diag().str();
  auto symbol = (*library)->symbol("f");
  ASSERT_TRUE(symbol.ok());
  EXPECT_EQ(reinterpret_cast<int (*)()>(*symbol)(), 7);
  auto missing = (*library)->symbol("g");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.diag().code, ErrorCode::kLoad);
  EXPECT_THAT(missing.diag().message, HasSubstr("`g`"));
}

TEST(Library, UndefinedSymbolShowsAtLoadingNotAtTheFirstCall) {
  TempDir dir;
  auto library = Library::open(build(
      "extern \"C\" int nobody_has_this();\nextern \"C\" int f() { return nobody_has_this(); }",
      dir.file("a.so")));
  ASSERT_FALSE(library.ok());
  EXPECT_THAT(library.diag().found, HasSubstr("nobody_has_this"));
}

// kf-jit-08: a file published by another process becomes visible a moment after it was announced.
TEST(Library, FileThatAppearsLateIsLoaded) {
  TempDir dir;
  const std::string hidden = build("extern \"C\" int f() { return 7; }", dir.file("hidden.so"));
  std::thread publisher([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(25));
    std::filesystem::rename(hidden, dir.file("late.so"));
  });
  auto library = Library::open(dir.file("late.so"));
  publisher.join();
  EXPECT_TRUE(library.ok()) << library.diag().str();
}

}  // namespace
}  // namespace rooftile
