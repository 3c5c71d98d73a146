// SPDX-License-Identifier: Apache-2.0
// Compares our declarations of cuBLASLt with the library's own header, where it is installed.
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

std::string header_folder() {
  std::vector<std::string> folders;
  if (const auto home = env_value(EnvVar::kCudaHome)) folders.push_back(*home + "/include");
  folders.insert(folders.end(), {"/usr/local/cuda/include", "/usr/include"});
  for (const std::string& folder : folders)
    if (std::filesystem::exists(folder + "/cublasLt.h")) return folder;
  return "";
}

ChildOutput compile_check(const std::string& headers, const std::string& define) {
  Result<Compiler> compiler = find_compiler();
  if (!compiler.ok()) return {1, compiler.diag().str()};
  const std::string source = ROOFTILE_SOURCE_DIR;
  std::vector<std::string> argv = {compiler->path, "-std=c++20", "-fsyntax-only",
                                   "-I" + source,  "-isystem",   headers};
  if (!define.empty()) argv.push_back(define);
  argv.push_back(source + "/tests/cublaslt/headers_check.cc");
  Result<ChildOutput> out = run_child(argv);
  return out.ok() ? *out : ChildOutput{1, out.diag().str()};
}

TEST(CublasLtHeaders, OurDeclarationsAreTheirs) {
  const std::string headers = header_folder();
  if (headers.empty())
    GTEST_SKIP() << "no cublasLt.h in CUDA_HOME, /usr/local/cuda or /usr/include";
  const ChildOutput check = compile_check(headers, "");
  EXPECT_EQ(check.exit_code, 0) << check.text;
  const ChildOutput wrong = compile_check(headers, "-DROOFTILE_WRONG_ON_PURPOSE");
  EXPECT_NE(wrong.exit_code, 0);
  EXPECT_THAT(wrong.text, testing::HasSubstr("CUDA_R_16BF"));
}

}  // namespace
}  // namespace rooftile
