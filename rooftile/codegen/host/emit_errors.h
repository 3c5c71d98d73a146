// SPDX-License-Identifier: Apache-2.0
// The error half of a launcher: each check that can fail owns a Site, a row of constant text in the
// generated code. The hot path passes the row's number and at most eight 64-bit values; everything
// else is cold and out of line.
//
// Patterns in the texts name a value and how to show it: {i0} integer, {f0} double (its bits), {t0}
// DLPack dtype word, {k0} kind of an argument, {s0} shape of the DLTensor at that address, {p0}
// address.
#pragma once

#include <string>
#include <vector>

#include "rooftile/base/error_codes.h"

namespace rooftile::host {

inline constexpr size_t kMaxSiteValues = 8;

struct Site {
  ErrorCode code = ErrorCode::kInternal;
  std::string argument;
  std::string message;   // lower case, no full stop
  std::string found;     // pattern
  std::string expected;  // pattern
  std::string when;      // pattern
  std::string fix;
};

class ErrorSites {
 public:
  explicit ErrorSites(std::string launcher_name, std::string subject)
      : name_(std::move(launcher_name)), subject_(std::move(subject)) {}

  // The call that raises it: "fail(handle, 3, n_x_0, d_H)", of type int (-1).
  std::string raise(const Site& site, const std::vector<std::string>& values = {});
  // The table and the function `fail`, to be emitted before the launcher.
  std::string definitions() const;

 private:
  std::string name_, subject_;
  std::vector<Site> sites_;
};

// The Python class that TVM-FFI raises: "ValueError", "TypeError" or "RuntimeError".
std::string_view ffi_kind(ErrorCode code);
std::string c_string(std::string_view text);  // quoted and escaped

}  // namespace rooftile::host
