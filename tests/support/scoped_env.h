// SPDX-License-Identifier: Apache-2.0
// An environment variable, set or unset for one test.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>

namespace rooftile::testing_support {

class ScopedEnv {
 public:
  // `value` null: unset.
  ScopedEnv(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    set(value);
  }
  ScopedEnv(const char* name, const std::string& value) : ScopedEnv(name, value.c_str()) {}
  ~ScopedEnv() { set(old_ ? old_->c_str() : nullptr); }
  ScopedEnv(const ScopedEnv&) = delete;
  ScopedEnv& operator=(const ScopedEnv&) = delete;

 private:
  void set(const char* value) {
    if (value != nullptr)
      setenv(name_, value, 1);
    else
      unsetenv(name_);
  }
  const char* name_;
  std::optional<std::string> old_;
};

}  // namespace rooftile::testing_support
