// SPDX-License-Identifier: Apache-2.0
// A compiler's output, cut to what a person reads.
#pragma once

#include <string>

namespace rooftile {

// The lines that say what is wrong: from the first error on, cut to what fits on a screen.
std::string trim_messages(const std::string& text);

}  // namespace rooftile
