// SPDX-License-Identifier: Apache-2.0
#include "rooftile/toolchain/host_cc.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>

#include "rooftile/base/env.h"
#include "rooftile/base/log.h"
#include "rooftile/toolchain/child_process.h"
#include "rooftile/toolchain/compiler_messages.h"

namespace rooftile {

namespace {

constexpr const char* kFixNoCompiler =
    "install g++ 12 or later (Debian: apt-get install g++), or set ROOFTILE_CXX to a compiler's "
    "path";

// First choice first. Names with versions matter where only those are installed.
const std::vector<std::string>& compiler_names() {
  static const std::vector<std::string> names = {
      "g++",        "g++-12",     "g++-13",     "g++-14",     "g++-15",     "clang++",
      "clang++-14", "clang++-15", "clang++-16", "clang++-17", "clang++-18", "clang++-19"};
  return names;
}

bool is_program(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && access(path.c_str(), X_OK) == 0;
}

std::optional<std::string> on_path(const std::string& name) {
  if (name.find('/') != std::string::npos)
    return is_program(name) ? std::optional(name) : std::nullopt;
  std::string path = env_value(EnvVar::kPath).value_or("/usr/bin:/bin");
  for (size_t begin = 0; begin <= path.size();) {
    size_t end = std::min(path.find(':', begin), path.size());
    std::string candidate = path.substr(begin, end - begin) + "/" + name;
    if (end > begin && is_program(candidate)) return candidate;
    begin = end + 1;
  }
  return std::nullopt;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// Symbolic links are resolved for the identity only: ccache's links must be run under their own
// name.
std::string resolved(const std::string& path) {
  char* real = realpath(path.c_str(), nullptr);
  std::string out = real != nullptr ? real : path;
  std::free(real);
  return out;
}

// What a file was when it was looked at; a compiler that is upgraded gives another stamp.
struct FileStamp {
  std::string path;
  int64_t size = 0, mtime_s = 0, mtime_ns = 0;
  bool operator==(const FileStamp&) const = default;
};

FileStamp stamp(const std::string& path) {
  struct stat info {};
  stat(path.c_str(), &info);
  return {path, info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec};
}

// Asks a program for its version; RT-T001 if it does not answer as a compiler does. Answers are
// remembered.
Result<Compiler> identify(const std::string& path) {
  static std::mutex mutex;
  static std::vector<std::pair<FileStamp, Compiler>> known;
  const FileStamp now = stamp(path);
  std::lock_guard lock(mutex);
  for (const auto& [seen, compiler] : known)
    if (seen == now) return compiler;

  Result<ChildOutput> answer = run_child({path, "--version"});
  if (!answer.ok()) return answer.diag();
  if (answer->exit_code != 0 || answer->text.empty())
    return Diag{.code = ErrorCode::kNoCompiler,
                .subject = path,
                .message = "the program does not answer --version as a compiler does",
                .found = "exit status " + std::to_string(answer->exit_code),
                .fix = kFixNoCompiler};
  Compiler compiler = {.path = path, .version = first_line(answer->text), .identity = ""};
  compiler.identity = resolved(path) + " | " + compiler.version;
  known.emplace_back(now, compiler);
  return compiler;
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : " ") + word;
  return out;
}

Diag compile_failed(const Compiler& compiler, const ChildOutput& child,
                    const std::vector<std::string>& flags) {
  const bool no_openmp = child.text.find("lomp") != std::string::npos;
  const bool killed = child.exit_code > 128;
  return {
      .code = ErrorCode::kCompileFailed,
      .subject = compiler.path,
      .message = killed
                     ? "the compiler was killed by signal " + std::to_string(child.exit_code - 128)
                     : "the compiler refused generated code",
      .found = trim_messages(child.text),
      .when = compiler.version + ", " + joined(flags),
      .fix = no_openmp ? "install the compiler's OpenMP library (Debian: libomp-dev), or use g++"
                       : "use g++ 12 or clang 14 or later; if it is, please report this text"};
}

}  // namespace

Result<Compiler> find_compiler() {
  if (std::optional<std::string> wanted = env_value(EnvVar::kCxx)) {
    if (std::optional<std::string> path = on_path(*wanted)) return identify(*path);
    return Diag{.code = ErrorCode::kNoCompiler,
                .subject = "ROOFTILE_CXX",
                .message = "no such program",
                .found = *wanted,
                .fix = kFixNoCompiler};
  }
  for (const std::string& name : compiler_names())
    if (std::optional<std::string> path = on_path(name))
      if (Result<Compiler> compiler = identify(*path); compiler.ok()) return compiler;
  return Diag{.code = ErrorCode::kNoCompiler,
              .subject = "toolchain",
              .message = "no C++ compiler was found",
              .found = "PATH = " + env_value(EnvVar::kPath).value_or(""),
              .expected = joined(compiler_names()),
              .fix = kFixNoCompiler};
}

std::vector<std::string> cpu_flags(const TargetInfo& target) {
  // -fno-math-errno: sqrt is an instruction. -Wno-psabi: g++ remarks on passing 64-byte vectors by
  // value.
  std::vector<std::string> flags = {"-std=c++20",
                                    "-fPIC",
                                    "-shared",
                                    "-fopenmp",
                                    "-ffp-contract=fast",
                                    "-fno-exceptions",
                                    "-fno-rtti",
                                    "-fno-math-errno",
                                    "-Wno-psabi",
                                    "-march=x86-64",
                                    "-fwrapv"};  // integer arithmetic of the tile language wraps
  auto add = [&flags](std::initializer_list<const char*> more) {
    flags.insert(flags.end(), more.begin(), more.end());
  };
#ifdef __SANITIZE_ADDRESS__
  // A sanitizer build checks what it generates, too.
  add({"-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"});
#else
  add({"-O3"});
#endif
  if (target.isa == "generic") return flags;
  add({"-mavx2", "-mfma", "-mf16c"});
  if (target.isa == "avx2") return flags;
  // clang halves 64-byte vectors unless it is told the width; g++ accepts the same flag.
  add({"-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mprefer-vector-width=512"});
  if (target.avx512_vnni) add({"-mavx512vnni"});
  if (target.avx512_bf16) add({"-mavx512bf16"});
  if (target.avx512_fp16) add({"-mavx512fp16"});
  if (target.amx_bf16 || target.amx_int8) add({"-mamx-tile"});
  if (target.amx_bf16) add({"-mamx-bf16"});
  if (target.amx_int8) add({"-mamx-int8"});
  return flags;
}

Result<CompileOutput> compile_shared(const Compiler& compiler, std::string_view text,
                                     const std::vector<std::string>& flags,
                                     const std::string& out_path) {
  std::vector<std::string> argv = {compiler.path};
  argv.insert(argv.end(), flags.begin(), flags.end());
  argv.insert(argv.end(), {"-x", "c++", "-", "-o", out_path});

  Progress progress("compiling " + std::to_string(text.size() >> 10) + " KB of generated code");
  const auto start = std::chrono::steady_clock::now();
  Result<ChildOutput> child = run_child(argv, text, &progress);
  if (!child.ok()) return child.diag();
  if (child->exit_code != 0) {
    std::remove(out_path.c_str());
    return compile_failed(compiler, *child, flags);
  }
  const std::chrono::duration<double, std::milli> elapsed =
      std::chrono::steady_clock::now() - start;
  return CompileOutput{out_path, elapsed.count(), child->text};
}

Result<CompileOutput> compile_shared(std::string_view text, const std::vector<std::string>& flags,
                                     const std::string& out_path) {
  Result<Compiler> compiler = find_compiler();
  if (!compiler.ok()) return compiler.diag();
  return compile_shared(*compiler, text, flags, out_path);
}

}  // namespace rooftile
