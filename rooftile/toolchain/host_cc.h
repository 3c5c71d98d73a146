// SPDX-License-Identifier: Apache-2.0
// The system's C++ compiler: found, identified and run, without a shell.
//
// ROOFTILE_CXX names it; otherwise the first usable of g++, clang++ and their versioned names on
// PATH. What is asked for by name is used or refused (RT-T001), never replaced. Compilation depends
// on text, flags and compiler alone: the text goes in through standard input, so no file name gets
// into the object.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "rooftile/base/diag.h"
#include "rooftile/compile/target.h"

namespace rooftile {

struct Compiler {
  std::string path;      // as run
  std::string version;   // first line of --version
  std::string identity;  // resolved path and version: goes into cache keys
};

struct CompileOutput {
  std::string path;  // the shared object
  double compile_ms = 0;
  std::string messages;  // warnings
};

// Found once and remembered until the file behind the name changes. RT-T001 if there is none.
Result<Compiler> find_compiler();

// Flags for generated kernels: the features are named, because -march=native guesses wrong on
// virtual machines.
std::vector<std::string> cpu_flags(const TargetInfo& target);

// Compiles `text` to the shared object `out_path`, in a folder that exists. RT-T002 carries the
// compiler's message.
Result<CompileOutput> compile_shared(const Compiler& compiler, std::string_view text,
                                     const std::vector<std::string>& flags,
                                     const std::string& out_path);
Result<CompileOutput> compile_shared(std::string_view text, const std::vector<std::string>& flags,
                                     const std::string& out_path);

}  // namespace rooftile
