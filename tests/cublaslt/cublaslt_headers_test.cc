// SPDX-License-Identifier: Apache-2.0
// Compares our declarations of cuBLASLt with the library's own header, where it is installed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/header_comparison.h"

namespace rooftile {
namespace {

using testing_support::compile_check;

constexpr const char* kCheck = "tests/cublaslt/headers_check.cc";

TEST(CublasLtHeaders, OurDeclarationsAreTheirs) {
  const std::string headers = testing_support::folder_of_headers({"cublasLt.h"});
  if (headers.empty())
    GTEST_SKIP() << "no cublasLt.h in CUDA_HOME, /usr/local/cuda or /usr/include";
  const ChildOutput check = compile_check(kCheck, headers, "");
  EXPECT_EQ(check.exit_code, 0) << check.text;
  const ChildOutput wrong = compile_check(kCheck, headers, "-DROOFTILE_WRONG_ON_PURPOSE");
  EXPECT_NE(wrong.exit_code, 0);
  EXPECT_THAT(wrong.text, testing::HasSubstr("CUDA_R_16BF"));
}

}  // namespace
}  // namespace rooftile
