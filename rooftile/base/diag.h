// SPDX-License-Identifier: Apache-2.0
// Diagnostics: what went wrong, where, what was found, what is allowed, and how to fix it.
//
// A Diag is a plain value. Functions that a user's input can make fail return Status or Result<T>;
// nothing in the library throws across its public interface or ends the process.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "rooftile/base/error_codes.h"

namespace rooftile {

// The caller's file and line, as a default argument: what std::source_location does, for clang 14
// too, which has the builtins but not the class.
class CallSite {
 public:
  static constexpr CallSite current(const char* caller_file = __builtin_FILE(),
                                    int caller_line = __builtin_LINE()) {
    CallSite site;
    site.file_ = caller_file;
    site.line_ = caller_line;
    return site;
  }
  constexpr const char* file_name() const { return file_; }
  constexpr int line() const { return line_; }

 private:
  const char* file_ = "";
  int line_ = 0;
};

struct SourceLoc {
  std::string file;
  int line = 0;
  static SourceLoc from(const CallSite& where) { return {where.file_name(), where.line()}; }
  // "ops/norm/rms_norm/rms_norm.cc:41", relative to the source tree; "" if unknown
  std::string str() const;
  bool operator==(const SourceLoc&) const = default;
};

struct Diag {
  ErrorCode code = ErrorCode::kInternal;
  std::string subject;   // the operator, file or tool the message is about
  std::string message;   // lower case, no full stop
  std::string argument;  // the argument, when one is to blame
  std::string found;
  std::string expected;
  std::string when;  // the values under which it fails
  std::string fix;
  SourceLoc at;

  // "error[RT-C003]: rms_norm: ..." followed by indented at/argument/found/expected/when/fix lines.
  std::string str() const;
};

// Success, or the Diag that says why not.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Diag diag) : diag_(std::move(diag)) {}  // NOLINT: implicit by intent
  bool ok() const { return !diag_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Diag& diag() const { return *diag_; }
  std::string str() const { return ok() ? "ok" : diag_->str(); }

 private:
  std::optional<Diag> diag_;
};

// A value, or the Diag that says why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}     // NOLINT: implicit by intent
  Result(Diag diag) : state_(std::move(diag)) {}    // NOLINT: implicit by intent
  Result(Status status) : state_(status.diag()) {}  // NOLINT: status must not be ok
  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& operator*() { return std::get<0>(state_); }
  const T& operator*() const { return std::get<0>(state_); }
  T* operator->() { return &std::get<0>(state_); }
  const T* operator->() const { return &std::get<0>(state_); }
  const Diag& diag() const { return std::get<1>(state_); }
  Status status() const { return ok() ? Status() : Status(diag()); }

 private:
  std::variant<T, Diag> state_;
};

#define RT_RETURN_IF_ERROR(expr)                                           \
  do {                                                                     \
    if (auto rt_status = (expr); !rt_status.ok()) return rt_status.diag(); \
  } while (false)

}  // namespace rooftile
