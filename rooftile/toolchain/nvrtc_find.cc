// SPDX-License-Identifier: Apache-2.0
#include "rooftile/toolchain/nvrtc_find.h"

#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "rooftile/base/env.h"
#include "rooftile/toolchain/elf_file.h"

namespace rooftile {

namespace fs = std::filesystem;

namespace {

constexpr const char* kFix =
    "install the CUDA toolkit, or: pip install --target ~/.cache/rooftile/nvrtc "
    "'nvidia-cuda-nvrtc==13.*'; or set ROOFTILE_NVRTC to libnvrtc.so.13, or ROOFTILE_CUBIN_DIR to "
    "a "
    "folder of kernels compiled elsewhere";
constexpr std::string_view kLibraries[] = {"libnvrtc.so.13", "libnvrtc.so.12"};

struct Folder {
  std::string path;
  std::string how;
};

// ---- the dynamic linker's folders ------------------------------------------------------------

void add_path_list(const std::string& list, const std::string& how, std::vector<Folder>& out) {
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(':', begin), list.size());
    if (end > begin) out.push_back({list.substr(begin, end - begin), how});
    begin = end + 1;
  }
}

// The folders that a file as ld.so.conf names, in order, with its includes (whose patterns are a
// folder and "*.conf" wherever they are seen).
void add_linker_config(const fs::path& file, std::vector<Folder>& out, int depth = 0) {
  constexpr int kMaxDepth = 4;
  if (depth > kMaxDepth) return;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    line = line.substr(0, line.find('#'));
    const auto blank = [](char c) { return c == ' ' || c == '\t'; };
    line.erase(line.begin(), std::find_if_not(line.begin(), line.end(), blank));
    while (!line.empty() && blank(line.back())) line.pop_back();
    if (line.rfind("include ", 0) == 0) {
      const fs::path pattern = fs::path("/etc") / line.substr(8);
      std::set<fs::path> files;
      std::error_code ignored;
      for (const auto& entry : fs::directory_iterator(pattern.parent_path(), ignored))
        if (entry.path().extension() == pattern.extension()) files.insert(entry.path());
      for (const fs::path& included : files) add_linker_config(included, out, depth + 1);
    } else if (!line.empty() && line.front() == '/') {
      out.push_back({line, "dynamic linker"});
    }
  }
}

// ---- toolkits and wheels ---------------------------------------------------------------------

// The entries of `dir` whose name starts with `prefix`, highest version first.
std::vector<fs::path> entries(const fs::path& dir, std::string_view prefix) {
  std::vector<fs::path> out;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(dir, ignored))
    if (entry.path().filename().string().rfind(prefix, 0) == 0) out.push_back(entry.path());
  std::sort(out.rbegin(), out.rend());
  return out;
}

// The two places where NVIDIA's wheels put the library, from CUDA 13 on and before.
void add_wheel(const std::string& site, const std::string& how, std::vector<Folder>& out) {
  out.push_back({site + "/nvidia/cu13/lib", how});
  out.push_back({site + "/nvidia/cuda_nvrtc/lib", how});
}

void add_python(const std::string& prefix, std::vector<Folder>& out) {
  for (const fs::path& python : entries(prefix + "/lib", "python3"))
    for (const char* site : {"/site-packages", "/dist-packages"})
      add_wheel(python.string() + site, "Python wheel", out);
}

struct Loaded {
  std::string nvrtc;            // a libnvrtc.so of this process
  std::set<std::string> sites;  // site-packages folders from which this process loaded libraries
};

Loaded loaded_libraries() {
  Loaded out;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        auto& loaded = *static_cast<Loaded*>(data);
        const std::string path = info->dlpi_name != nullptr ? info->dlpi_name : "";
        const size_t slash = path.rfind('/');
        if (slash == std::string::npos) return 0;
        if (path.compare(slash + 1, 12, "libnvrtc.so.") == 0) loaded.nvrtc = path;
        for (const std::string site : {"/site-packages/", "/dist-packages/"})
          if (const size_t at = path.find(site); at != std::string::npos)
            loaded.sites.insert(path.substr(0, at + site.size() - 1));
        return 0;
      },
      &out);
  return out;
}

std::vector<Folder> folders(const Loaded& loaded) {
  std::vector<Folder> out;
  add_path_list(env_value(EnvVar::kLibraryPath).value_or(""), "LD_LIBRARY_PATH", out);
  add_linker_config("/etc/ld.so.conf", out);
  for (const char* dir : {"/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"})
    out.push_back({dir, "dynamic linker"});
  if (const auto home = env_value(EnvVar::kCudaHome))
    out.push_back({*home + "/lib64", "CUDA toolkit"});
  out.push_back({"/usr/local/cuda/lib64", "CUDA toolkit"});
  for (const fs::path& toolkit : entries("/usr/local", "cuda-"))
    out.push_back({toolkit.string() + "/lib64", "CUDA toolkit"});
  for (const std::string& site : loaded.sites) add_wheel(site, "Python wheel", out);
  if (const auto env = env_value(EnvVar::kVirtualEnv)) add_python(*env, out);
  if (const auto home = env_value(EnvVar::kHome)) add_python(*home + "/.local", out);
  add_python("/usr/local", out);
  add_python("/usr", out);
  if (const std::string own = own_nvrtc_dir(); !own.empty())
    add_wheel(own, "Rooftile's own wheel", out);
  return out;
}

Diag not_found(std::string message, std::string found) {
  return {.code = ErrorCode::kNoNvrtc,
          .subject = "NVRTC",
          .message = std::move(message),
          .found = std::move(found),
          .fix = kFix};
}

Result<NvrtcLocation> located(std::string path, std::string how) {
  std::optional<std::string> identity = library_identity(path);
  if (!identity) return not_found("the file is no shared library", path);
  return NvrtcLocation{std::move(path), std::move(how), std::move(*identity)};
}

}  // namespace

std::string own_nvrtc_dir() {
  if (const auto cache = env_value(EnvVar::kXdgCache)) return *cache + "/rooftile/nvrtc";
  if (const auto home = env_value(EnvVar::kHome)) return *home + "/.cache/rooftile/nvrtc";
  return "";
}

Result<NvrtcLocation> find_nvrtc() {
  if (const auto wanted = env_value(EnvVar::kNvrtc)) {
    if (access(wanted->c_str(), R_OK) != 0)
      return not_found("ROOFTILE_NVRTC names no file", *wanted);
    return located(*wanted, "ROOFTILE_NVRTC");
  }
  const Loaded loaded = loaded_libraries();
  if (!loaded.nvrtc.empty()) return located(loaded.nvrtc, "already loaded");
  const std::vector<Folder> searched = folders(loaded);
  for (const std::string_view library : kLibraries)
    for (const Folder& folder : searched) {
      std::string path = folder.path + "/" + std::string(library);
      if (access(path.c_str(), R_OK) != 0) continue;
      if (auto found = located(std::move(path), folder.how); found.ok()) return found;
    }
  return not_found("libnvrtc.so.13 was not found",
                   std::to_string(searched.size()) +
                       " folders: the dynamic linker's, the CUDA toolkit's, Python's wheels");
}

}  // namespace rooftile
