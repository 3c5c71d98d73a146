// SPDX-License-Identifier: Apache-2.0
#include "rooftile/runtime/cpu/library.h"

#include <dlfcn.h>
#include <unistd.h>

#include <chrono>
#include <thread>

namespace rooftile {

namespace {

std::string last_error() {
  const char* text = dlerror();
  return text != nullptr ? text : "no reason given";
}

}  // namespace

Result<std::shared_ptr<Library>> Library::open(const std::string& path) {
  constexpr int kTries = 5;
  for (int i = 1; i < kTries && access(path.c_str(), F_OK) != 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10 * i));
  // Always a path, never a bare name: that would search the system's folders.
  const std::string file = path.find('/') == std::string::npos ? "./" + path : path;
  void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
    return Diag{.code = ErrorCode::kLoad,
                .subject = path,
                .message = "the shared object cannot be loaded",
                .found = last_error(),
                .fix = "delete the file; it is built again at the next use"};
  return std::shared_ptr<Library>(new Library(handle, path));
}

Library::~Library() { dlclose(handle_); }

Result<void*> Library::symbol(const std::string& name) const {
  if (void* address = dlsym(handle_, name.c_str())) return address;
  return Diag{.code = ErrorCode::kLoad,
              .subject = path_,
              .message = "the shared object has no symbol `" + name + "`",
              .found = last_error()};
}

}  // namespace rooftile
