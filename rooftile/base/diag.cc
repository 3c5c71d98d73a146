// SPDX-License-Identifier: Apache-2.0
#include "rooftile/base/diag.h"

namespace rooftile {

std::string_view code_text(ErrorCode code) {
  switch (code) {
#define RT_CASE(name, text, meaning) \
  case ErrorCode::name:              \
    return text;
    RT_ERROR_CODES(RT_CASE)
#undef RT_CASE
  }
  return "RT-I001";
}

std::string_view code_meaning(ErrorCode code) {
  switch (code) {
#define RT_CASE(name, text, meaning) \
  case ErrorCode::name:              \
    return meaning;
    RT_ERROR_CODES(RT_CASE)
#undef RT_CASE
  }
  return "";
}

std::string SourceLoc::str() const {
  if (file.empty()) return "";
  // Build trees differ; what a reader wants is the path from the source root.
  std::string_view path = file;
  for (std::string_view root : {"rooftile/", "examples/", "tests/"})
    if (size_t at = path.rfind(root);
        at != std::string_view::npos && (at == 0 || path[at - 1] == '/')) {
      path.remove_prefix(at);
      break;
    }
  return std::string(path) + ":" + std::to_string(line);
}

std::string Diag::str() const {
  std::string out = "error[" + std::string(code_text(code)) + "]: ";
  if (!subject.empty()) out += subject + ": ";
  out += message;
  auto line = [&out](std::string_view label, const std::string& text) {
    if (text.empty()) return;
    out += "\n  ";
    out += label;
    out.append(12 - label.size(), ' ');
    out += text;
  };
  line("at:", at.str());
  line("argument:", argument);
  line("found:", found);
  line("expected:", expected);
  line("when:", when);
  line("fix:", fix);
  return out;
}

}  // namespace rooftile
