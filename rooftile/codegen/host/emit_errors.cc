// SPDX-License-Identifier: Apache-2.0
#include "rooftile/codegen/host/emit_errors.h"

#include <algorithm>

namespace rooftile::host {

std::string_view ffi_kind(ErrorCode code) {
  switch (code) {
    case ErrorCode::kArgCount:
    case ErrorCode::kArgKind:
    case ErrorCode::kDType:
      return "TypeError";
    default:
      return code_text(code).substr(0, 4) == "RT-C" ? "ValueError" : "RuntimeError";
  }
}

std::string c_string(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out + '"';
}

std::string ErrorSites::raise(const Site& site, const std::vector<std::string>& values) {
  std::string call = "fail_" + name_ + "(handle, " + std::to_string(sites_.size());
  size_t count = std::min(values.size(), kMaxSiteValues);
  for (size_t i = 0; i < count; ++i) call += ", " + values[i];
  sites_.push_back(site);
  return call + ")";
}

std::string ErrorSites::definitions() const {
  std::string out = "// Everything that can be wrong with a call of " + subject_ + ".\n";
  out += "const rth::Site sites_" + name_ + "[] = {\n";
  for (const Site& site : sites_) {
    out += "    {" + c_string(code_text(site.code)) + ", " + c_string(ffi_kind(site.code)) + ", " +
           c_string(site.argument) + ",\n     " + c_string(site.message) + ",\n     " +
           c_string(site.found) + ", " + c_string(site.expected) + ", " + c_string(site.when) +
           ",\n     " + c_string(site.fix) + "},\n";
  }
  out += "};\n__attribute__((cold, noinline)) int fail_" + name_ + "(void* handle, int site";
  for (size_t i = 0; i < kMaxSiteValues; ++i) out += ", rth::i64 v" + std::to_string(i) + " = 0";
  out += ") {\n  const rth::i64 values[] = {";
  for (size_t i = 0; i < kMaxSiteValues; ++i) out += (i ? ", v" : "v") + std::to_string(i);
  out += "};\n  return rth::raise(handle, " + c_string(subject_) + ", sites_" + name_ +
         "[site], values);\n}\n";
  return out;
}

}  // namespace rooftile::host
