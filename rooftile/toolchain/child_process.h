// SPDX-License-Identifier: Apache-2.0
// Runs one program to its end by posix_spawn: an argument list, text for its standard input, and
// what it printed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "rooftile/base/diag.h"

namespace rooftile {

class Progress;

struct ChildOutput {
  int exit_code = 0;  // 128 + signal if it was killed
  std::string text;   // standard output and error together
};

// argv[0] is a path; PATH is not searched. Fails (RT-T001) only if the program cannot be started.
Result<ChildOutput> run_child(const std::vector<std::string>& argv, std::string_view input = "",
                              Progress* progress = nullptr);

}  // namespace rooftile
