// SPDX-License-Identifier: Apache-2.0
// Compares our declarations of the CUDA driver and NVRTC with the toolkit's own headers, where they
// are installed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "rooftile/base/env.h"
#include "rooftile/toolchain/child_process.h"
#include "rooftile/toolchain/host_cc.h"

namespace rooftile {
namespace {

std::string toolkit_headers() {
  std::vector<std::string> folders;
  if (const auto home = env_value(EnvVar::kCudaHome)) folders.push_back(*home + "/include");
  folders.insert(folders.end(), {"/usr/local/cuda/include", "/usr/include"});
  for (const std::string& folder : folders)
    if (std::filesystem::exists(folder + "/cuda.h") && std::filesystem::exists(folder + "/nvrtc.h"))
      return folder;
  return "";
}

ChildOutput compile_check(const std::string& headers, const std::string& define) {
  Result<Compiler> compiler = find_compiler();
  if (!compiler.ok()) return {1, compiler.diag().str()};
  const std::string source = ROOFTILE_SOURCE_DIR;
  std::vector<std::string> argv = {compiler->path, "-std=c++20", "-fsyntax-only",
                                   "-I" + source,  "-isystem",   headers};
  if (!define.empty()) argv.push_back(define);
  argv.push_back(source + "/tests/cuda_headers/headers_check.cc");
  Result<ChildOutput> out = run_child(argv);
  return out.ok() ? *out : ChildOutput{1, out.diag().str()};
}

TEST(CudaHeaders, OurDeclarationsAreTheirs) {
  const std::string headers = toolkit_headers();
  if (headers.empty())
    GTEST_SKIP() << "no cuda.h and nvrtc.h in CUDA_HOME, /usr/local/cuda or /usr/include";
  const ChildOutput check = compile_check(headers, "");
  EXPECT_EQ(check.exit_code, 0) << check.text;
  const ChildOutput wrong = compile_check(headers, "-DROOFTILE_WRONG_ON_PURPOSE");
  EXPECT_NE(wrong.exit_code, 0);
  EXPECT_THAT(wrong.text, testing::HasSubstr("CU_TENSOR_MAP_L2_PROMOTION_L2_128B"));
}

}  // namespace
}  // namespace rooftile
