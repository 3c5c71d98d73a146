// SPDX-License-Identifier: Apache-2.0
// A shared object of generated code, loaded for as long as someone holds it.
#pragma once

#include <memory>
#include <string>

#include "rooftile/base/diag.h"

namespace rooftile {

class Library {
 public:
  // RTLD_NOW: what is missing shows here, not in the first call. RTLD_LOCAL: kernels do not see one
  // another. A file that was published a moment ago may not be visible yet on a network file
  // system: tried again briefly.
  static Result<std::shared_ptr<Library>> open(const std::string& path);
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  Result<void*> symbol(const std::string& name) const;  // RT-R001 if there is none
  const std::string& path() const { return path_; }

 private:
  Library(void* handle, std::string path) : handle_(handle), path_(std::move(path)) {}
  void* handle_;
  std::string path_;
};

}  // namespace rooftile
