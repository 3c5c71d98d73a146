// SPDX-License-Identifier: Apache-2.0
#include "rooftile/toolchain/compiler_messages.h"

#include <algorithm>

namespace rooftile {

std::string trim_messages(const std::string& text) {
  constexpr size_t kMaxLines = 12, kMaxBytes = 2000;
  size_t error = text.find("error:");
  size_t begin = error == std::string::npos ? 0 : text.rfind('\n', error);
  begin = begin == std::string::npos ? 0 : begin;
  while (begin < text.size() && text[begin] == '\n') ++begin;
  size_t end = begin;
  for (size_t lines = 0; lines < kMaxLines && end < text.size(); ++lines)
    end = std::min(text.find('\n', end), text.size() - 1) + 1;
  end = std::min(end, begin + kMaxBytes);
  std::string out = text.substr(begin, end - begin);
  while (!out.empty() && out.back() == '\n') out.pop_back();
  if (end < text.size()) out += "\n[" + std::to_string(text.size() - end) + " more bytes]";
  return out;
}

}  // namespace rooftile
