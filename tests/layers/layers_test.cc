// SPDX-License-Identifier: Apache-2.0
// The layer check on small trees made for it, and the tree itself: its layers and its format.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "rooftile/toolchain/child_process.h"
#include "tests/toolchain/temp_dir.h"

namespace rooftile {
namespace {

using ::testing::HasSubstr;
using testing_support::TempDir;

constexpr const char* kLayers =
    "base 0  # comment\n"
    "ir 1\n"
    "runtime 1 only base\n"
    "compile/target.h 0\n"
    "dsl 2 only base\n"
    "compile 3 also cli/hook.h\n"
    "cli 4\n";

// Checks a tree given as file -> the file it includes.
ChildOutput check(const std::map<std::string, std::string>& includes) {
  TempDir dir;
  std::filesystem::create_directories(dir.file(".ci"));
  testing_support::write_text(dir.file(".ci/layers.txt"), kLayers);
  for (const auto& [file, included] : includes) {
    const std::filesystem::path path = dir.file("rooftile/" + file);
    std::filesystem::create_directories(path.parent_path());
    testing_support::write_text(path,
                                "#include <vector>\n#include \"rooftile/" + included + "\"\n");
  }
  return *run_child({ROOFTILE_SOURCE_DIR "/.ci/check_layers.sh", dir.path()});
}

TEST(Layers, LowerLayersAndOwnUnitAreAdmitted) {
  const ChildOutput out = check({{"ir/a.h", "base/x.h"},
                                 {"ir/b.cc", "ir/a.h"},
                                 {"compile/pipeline.cc", "ir/a.h"},
                                 {"runtime/load_test.cc", "cli/main.h"},
                                 {"dsl/d.h", "base/x.h"}});
  EXPECT_EQ(out.exit_code, 0) << out.text;
  EXPECT_THAT(out.text, HasSubstr("4 includes checked, 0 faults"));
}

TEST(Layers, HigherLayerAndSiblingAreRefusedWithThePlace) {
  const ChildOutput up = check({{"base/x.h", "ir/a.h"}});
  EXPECT_EQ(up.exit_code, 1);
  EXPECT_THAT(up.text, HasSubstr("rooftile/base/x.h:2: base (layer 0) includes rooftile/ir/a.h"));
  EXPECT_EQ(check({{"runtime/r.h", "ir/a.h"}}).exit_code, 1);
}

TEST(Layers, OnlyNarrowsAndFilesCanBeUnits) {
  EXPECT_THAT(check({{"dsl/d.h", "ir/a.h"}}).text, HasSubstr("is not on its list"));
  EXPECT_EQ(check({{"ir/a.h", "compile/target.h"}}).exit_code, 0);
  EXPECT_EQ(check({{"ir/a.h", "compile/kernel.h"}}).exit_code, 1);
}

TEST(Layers, AlsoAdmitsUpwardsUnlessThatClosesACycle) {
  EXPECT_EQ(check({{"compile/a.cc", "cli/hook.h"}}).exit_code, 0);
  const ChildOutput cycle = check({{"compile/a.cc", "cli/hook.h"}, {"cli/hook.cc", "compile/a.h"}});
  EXPECT_EQ(cycle.exit_code, 1);
  EXPECT_THAT(cycle.text, HasSubstr("rooftile/cli/hook.cc:2: part of a cycle"));
  EXPECT_THAT(cycle.text, HasSubstr("rooftile/compile/a.cc:2: part of a cycle"));
}

TEST(Layers, FolderWithoutALayerIsRefused) {
  EXPECT_THAT(check({{"misc/x.h", "base/x.h"}}).text, HasSubstr("belongs to no unit"));
}

TEST(Layers, ThisTreeKeepsThem) {
  const ChildOutput out = *run_child({ROOFTILE_SOURCE_DIR "/.ci/check_layers.sh"});
  EXPECT_EQ(out.exit_code, 0) << out.text;
}

TEST(SourceFormat, ThisTreeIsFormatted) {
  const ChildOutput out = *run_child({ROOFTILE_SOURCE_DIR "/.ci/check_format.sh"});
  if (out.exit_code == 77) GTEST_SKIP() << out.text;
  EXPECT_EQ(out.exit_code, 0) << out.text;
}

}  // namespace
}  // namespace rooftile
