// SPDX-License-Identifier: Apache-2.0
// The one object that the tests of concurrent processes build, load and call.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "rooftile/runtime/cpu/library.h"
#include "rooftile/toolchain/disk_cache.h"
#include "rooftile/toolchain/host_cc.h"

namespace rooftile::testing_support {

inline constexpr const char* kSubjectText = "extern \"C\" int answer() { return 4242; }";

inline ObjectInputs subject_inputs() {
  return {kSubjectText, cpu_flags(TargetInfo{}), "test compiler", "cpu-generic"};
}

inline Status compile_subject(const std::string& out_path) {
  return compile_shared(kSubjectText, cpu_flags(TargetInfo{}), out_path).status();
}

// A builder that copies an object made before: quick, so that publishing is what a test is about.
inline ObjectBuilder copy_of(std::string object, std::chrono::milliseconds pause = {}) {
  return [object = std::move(object), pause](const std::string& out_path) -> Status {
    std::this_thread::sleep_for(pause);
    std::filesystem::copy_file(object, out_path);
    return {};
  };
}

inline Status load_and_ask(const std::string& path) {
  Result<std::shared_ptr<Library>> library = Library::open(path);
  if (!library.ok()) return library.diag();
  Result<void*> symbol = (*library)->symbol("answer");
  if (!symbol.ok()) return symbol.diag();
  const int answer = reinterpret_cast<int (*)()>(*symbol)();
  if (answer == 4242) return {};
  return Diag{.subject = path, .message = "wrong answer", .found = std::to_string(answer)};
}

}  // namespace rooftile::testing_support
