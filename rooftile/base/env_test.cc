// SPDX-License-Identifier: Apache-2.0
#include "rooftile/base/env.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

namespace rooftile {
namespace {

TEST(Env, EveryVariableHasOneRowAndADocString) {
  std::set<std::string_view> names;
  for (const EnvVarInfo& row : env_vars()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_GT(row.doc.size(), 8u) << row.name;
    EXPECT_EQ(env_name(row.id), row.name);
  }
}

TEST(Env, EmptyCountsAsUnsetAndZeroAsOff) {
  setenv("ROOFTILE_NO_AMX", "", 1);
  EXPECT_FALSE(env_value(EnvVar::kNoAmx).has_value());
  setenv("ROOFTILE_NO_AMX", "0", 1);
  EXPECT_EQ(env_value(EnvVar::kNoAmx), "0");
  EXPECT_FALSE(env_flag(EnvVar::kNoAmx));
  setenv("ROOFTILE_NO_AMX", "1", 1);
  EXPECT_TRUE(env_flag(EnvVar::kNoAmx));
  unsetenv("ROOFTILE_NO_AMX");
  EXPECT_FALSE(env_flag(EnvVar::kNoAmx));
}

}  // namespace
}  // namespace rooftile
