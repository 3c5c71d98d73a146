// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "rooftile/base/env.h"
#include "rooftile/toolchain/child_process.h"
#include "rooftile/toolchain/host_cc.h"

namespace rooftile::testing_support {

// The first of CUDA_HOME/include, /usr/local/cuda/include and /usr/include that holds all `files`;
// empty if none does.
inline std::string folder_of_headers(const std::vector<std::string>& files) {
  std::vector<std::string> folders;
  if (const auto home = env_value(EnvVar::kCudaHome)) folders.push_back(*home + "/include");
  folders.insert(folders.end(), {"/usr/local/cuda/include", "/usr/include"});
  for (const std::string& folder : folders)
    if (std::all_of(files.begin(), files.end(), [&](const std::string& file) {
          return std::filesystem::exists(folder + "/" + file);
        }))
      return folder;
  return "";
}

// Compiles `check`, a source of this tree that asserts what must be equal, beside those headers.
inline ChildOutput compile_check(const std::string& check, const std::string& headers,
                                 const std::string& define) {
  Result<Compiler> compiler = find_compiler();
  if (!compiler.ok()) return {1, compiler.diag().str()};
  const std::string source = ROOFTILE_SOURCE_DIR;
  std::vector<std::string> argv = {compiler->path, "-std=c++20", "-fsyntax-only",
                                   "-I" + source,  "-isystem",   headers};
  if (!define.empty()) argv.push_back(define);
  argv.push_back(source + "/" + check);
  Result<ChildOutput> out = run_child(argv);
  return out.ok() ? *out : ChildOutput{1, out.diag().str()};
}

}  // namespace rooftile::testing_support
