// SPDX-License-Identifier: Apache-2.0
// The text form: print, parse, print gives the same text, for programs that use every operation.
#include <gtest/gtest.h>

#include <limits>

#include "rooftile/dsl/test_programs.h"

namespace rooftile::ir {
namespace {

using namespace test;

class RoundTrip : public ::testing::TestWithParam<NamedProgram> {};

TEST_P(RoundTrip, PrintsTheSame) {
  Result<Program> program = GetParam().build();
  ASSERT_TRUE(program.ok()) << program.diag().str();
  const std::string text = print(*program);
  Result<Program> back = parse(text);
  ASSERT_TRUE(back.ok()) << back.diag().str() << "\n" << text;
  EXPECT_EQ(print(*back), text);
}

INSTANTIATE_TEST_SUITE_P(Programs, RoundTrip, ::testing::ValuesIn(all_programs()),
                         [](const auto& param_info) { return param_info.param.name; });

TEST(Text, ReadsLikeTheProgram) {
  Result<Program> program = build_rms_norm();
  ASSERT_TRUE(program.ok()) << program.diag().str();
  const std::string text = print(*program);
  for (const char* line : {"program rms_norm\n", "tensor x : bf16[T, H] in align 2 unit\n",
                           "scalar eps : float range 0 exclusive to 1\n", "tiles row = T @ ",
                           "load x[row, 0:+H => 0] : bf16[H] \"x\" @ rooftile/dsl/test_programs.h:",
                           "reduce sum %", "rsqrt %", "store out[row, 0:+H => 0], %"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
}

struct BadText {
  const char* text;
  const char* expected;
};

TEST(Text, BrokenTextIsRefusedWithItsLine) {
  const BadText cases[] = {
      {"program p\ntensor x : f99[T] in align 4\n", "a dtype"},
      {"program p\ntensor x : f32[T] inward align 4\n", "in, out, inout or workspace"},
      {"program p\n%0 = flip %1 : f32[]\n", "an operation instead of `flip`"},
      {"program p\n%0 = fill 1 : f32[] junk\n", "the end of the line"},
      {"program p\n%0 tiles i = 4 {\n", "`}`"},
      {"program p\n}\n", "no `}`, no region is open"},
      {"program p\n%1 = fill 1 : f32[]\n", "a definition of %0"},
      {"program p\n%0 = fill 1 : f32[]\n%0 = fill 1 : f32[]\n", "one definition of %0"},
      {"program p\n%0 = load x[0:+4] : f32[4]\n", "`=>`"},
      {"program p\nneeds T > 0\n", "the reason in quotes"},
  };
  for (const BadText& bad : cases) {
    Result<Program> program = parse(bad.text);
    ASSERT_FALSE(program.ok()) << bad.text;
    EXPECT_EQ(program.diag().code, ErrorCode::kIrParse) << bad.text;
    EXPECT_EQ(program.diag().expected, bad.expected) << bad.text;
    EXPECT_NE(program.diag().message.find("line "), std::string::npos);
  }
}

TEST(Text, ParsedProgramsAreVerified) {
  Result<Program> program = parse("program p\n%0 = neg %0 : f32[]\n");
  ASSERT_FALSE(program.ok());
  EXPECT_EQ(program.diag().code, ErrorCode::kIrStructure);
}

TEST(Substitute, GivesTileParametersAndDimsTheirNumbers) {
  Result<Program> program = build_gemm();
  ASSERT_TRUE(program.ok()) << program.diag().str();
  const Program fixed =
      substitute_symbols(*program, {{"BM", 32}, {"BN", 64}, {"BK", 16}, {"N", 128}});
  EXPECT_TRUE(fixed.tile_params.empty());
  const Status status = verify(fixed);
  EXPECT_TRUE(status.ok()) << status.str();
  const std::string text = print(fixed);
  EXPECT_EQ(text.find("BM"), std::string::npos) << text;
  EXPECT_NE(text.find("j = 2"), std::string::npos) << text;
}

}  // namespace
}  // namespace rooftile::ir
