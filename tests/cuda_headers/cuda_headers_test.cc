// SPDX-License-Identifier: Apache-2.0
// Compares our declarations of the CUDA driver and NVRTC with the toolkit's own headers, where they
// are installed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/header_comparison.h"

namespace rooftile {
namespace {

using testing_support::compile_check;

constexpr const char* kCheck = "tests/cuda_headers/headers_check.cc";

TEST(CudaHeaders, OurDeclarationsAreTheirs) {
  const std::string headers = testing_support::folder_of_headers({"cuda.h", "nvrtc.h"});
  if (headers.empty())
    GTEST_SKIP() << "no cuda.h and nvrtc.h in CUDA_HOME, /usr/local/cuda or /usr/include";
  const ChildOutput check = compile_check(kCheck, headers, "");
  EXPECT_EQ(check.exit_code, 0) << check.text;
  const ChildOutput wrong = compile_check(kCheck, headers, "-DROOFTILE_WRONG_ON_PURPOSE");
  EXPECT_NE(wrong.exit_code, 0);
  EXPECT_THAT(wrong.text, testing::HasSubstr("CU_TENSOR_MAP_L2_PROMOTION_L2_128B"));
}

}  // namespace
}  // namespace rooftile
