// SPDX-License-Identifier: Apache-2.0
// Requests that cannot be met are refused before anything is measured or written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "rooftile/cli/verb.h"

namespace rooftile::cli {
namespace {

Result<int> run(const std::string& arguments) {
  CLI::App app;
  Action action;
  add_report(app, action);
  app.parse("report " + arguments);
  return action();
}

TEST(ReportVerb, RefusesSizesOfTheOtherPhase) {
  auto tokens = run("--phase decode --tokens 64");
  ASSERT_FALSE(tokens.ok());
  EXPECT_EQ(tokens.diag().code, ErrorCode::kUsage);
  EXPECT_EQ(tokens.diag().argument, "--tokens");
  auto context = run("--phase prefill --context 64");
  ASSERT_FALSE(context.ok());
  EXPECT_EQ(context.diag().argument, "--context");
}

TEST(ReportVerb, RefusesAContextBeyondTheModels) {
  auto result = run("llama-3-8b --phase decode --context 100000");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.diag().code, ErrorCode::kUsage);
  EXPECT_EQ(result.diag().found, "100000");
}

TEST(ReportVerb, RefusesAnUnknownModel) {
  auto result = run("no-such-model");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.diag().code, ErrorCode::kIo);
}

TEST(ReportVerb, RefusesAnUnknownArchitectureByName) {
  const std::string path = testing::TempDir() + "unknown_model.json";
  std::ofstream(path) << R"({"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2"})";
  auto result = run(path);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.diag().code, ErrorCode::kModelConfig);
  EXPECT_EQ(result.diag().subject, "unknown_model");
  EXPECT_THAT(result.diag().str(), testing::HasSubstr("GPT2LMHeadModel"));
}

TEST(ReportVerb, ParsesOnlyPositiveSizes) {
  EXPECT_THROW((void)run("--batch 0"), CLI::ParseError);
  EXPECT_THROW((void)run("--phase sideways"), CLI::ParseError);
}

}  // namespace
}  // namespace rooftile::cli
