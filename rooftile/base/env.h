// SPDX-License-Identifier: Apache-2.0
// The one table of environment variables. Nothing else in the tree calls getenv, so `rooftile
// doctor` can list what is set and the documentation what exists. An empty value counts as unset.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rooftile {

// clang-format off
#define RT_ENV_VARS(X)                                                                               \
  X(kCacheDir,    "ROOFTILE_CACHE_DIR",   "folder of compiled kernels (default: ~/.cache/rooftile)") \
  X(kCxx,         "ROOFTILE_CXX",         "C++ compiler for kernels (default: g++, then clang++)")   \
  X(kIsa,         "ROOFTILE_ISA",         "at most this instruction set: avx512, avx2, generic")     \
  X(kNoAmx,       "ROOFTILE_NO_AMX",      "1: do not use AMX tiles")                                 \
  X(kThreads,     "ROOFTILE_THREADS",     "threads of a kernel (default: as OMP_NUM_THREADS)")       \
  X(kQuiet,       "ROOFTILE_QUIET",       "1: no progress lines on standard error")                  \
  X(kNvrtc,       "ROOFTILE_NVRTC",       "the NVRTC library, a file (default: searched)")           \
  X(kCubinDir,    "ROOFTILE_CUBIN_DIR",   "folder of GPU kernels compiled elsewhere")                \
  X(kRequireProved, "ROOFTILE_REQUIRE_PROVED", "1: calls take proved kernels alone (docs/proofs.md)")     \
  X(kCudaDriver,  "ROOFTILE_CUDA_DRIVER", "the CUDA driver library (default: libcuda.so.1)")         \
  X(kXdgCache,    "XDG_CACHE_HOME",       "replaces ~/.cache")                                       \
  X(kHome,        "HOME",                 "home folder, for the default cache")                      \
  X(kPath,        "PATH",                 "where the compiler is looked for")                        \
  X(kLibraryPath, "LD_LIBRARY_PATH",      "where libraries are looked for first")                    \
  X(kCudaHome,    "CUDA_HOME",            "the CUDA toolkit, for its NVRTC")                         \
  X(kVirtualEnv,  "VIRTUAL_ENV",          "a Python environment, for its NVRTC")                     \
  X(kVisibleGpus, "CUDA_VISIBLE_DEVICES", "read by the driver: the GPUs it shows")
// clang-format on

enum class EnvVar {
#define RT_ENUM(id, name, doc) id,
  RT_ENV_VARS(RT_ENUM)
#undef RT_ENUM
};

struct EnvVarInfo {
  EnvVar id;
  std::string_view name;
  std::string_view doc;
};

const std::vector<EnvVarInfo>& env_vars();  // the whole table, in order
std::string_view env_name(EnvVar id);
std::optional<std::string> env_value(EnvVar id);  // read anew at each call; nullopt if unset or ""
bool env_flag(EnvVar id);                         // set, and not "0"

}  // namespace rooftile
