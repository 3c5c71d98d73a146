// SPDX-License-Identifier: Apache-2.0
// CUDA text to a cubin, compiled once: the way to NVRTC for everything above.
//
// An entry of the kernel cache (disk_cache.h) is found by schema, exact text, options, arch and the
// identity of NVRTC, and holds cubin, PTX, log and report; a damaged one is a miss. On a hit NVRTC
// is not loaded.
//
// Kernels can also be compiled where no GPU is, and carried: a folder that ROOFTILE_CUBIN_DIR names
// is looked into first. Its entries are found by text, options and arch alone, so the machine that
// uses them needs no NVRTC; which NVRTC made them is recorded and reported.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "rooftile/base/diag.h"
#include "rooftile/toolchain/disk_cache.h"
#include "rooftile/toolchain/nvrtc.h"

namespace rooftile {

enum class CubinOrigin : uint8_t { kCompiled, kCache, kCarried };

struct CachedCubin {
  CudaBinary binary;  // compile_ms is that of the original compilation
  CubinOrigin origin = CubinOrigin::kCompiled;
  std::string path;       // the entry; "" if it could not be kept
  std::string text_path;  // the text it was built from; "" if it could not be kept
};

// How cubins are made. The standard one is NVRTC; tests have others.
struct CudaCompiler {
  std::function<Result<std::string>()> identity;  // cheap: loads nothing
  std::function<Result<CudaBinary>(const std::string& text, const CudaOptions& options,
                                   const std::string& subject)>
      compile;
  static CudaCompiler nvrtc();
};

class CubinCache {
 public:
  // `dir` "": the default folder of DiskCache. `carried` "": ROOFTILE_CUBIN_DIR, or none. RT-T003
  // if a folder cannot be used; one that is named for carried kernels must exist.
  static Result<CubinCache> open(const std::string& dir = "", const std::string& carried = "",
                                 CudaCompiler compiler = CudaCompiler::nvrtc());

  // From the carried folder, from the cache, or compiled. Safe from any number of threads and
  // processes. RT-T004 without NVRTC, RT-T005 if the text is refused, RT-T003. `subject`: the
  // operator or kernel, for messages.
  Result<CachedCubin> get_or_compile(const std::string& text, const CudaOptions& options,
                                     const std::string& subject) const;

  // Makes an entry of a folder that is to be carried, from this cache or by compiling.
  Result<CachedCubin> carry_to(const std::string& dir, const std::string& text,
                               const CudaOptions& options, const std::string& subject) const;

  const std::string& dir() const { return cache_.dir(); }
  std::string carried_dir() const { return carried_ ? carried_->dir() : ""; }

 private:
  CubinCache(DiskCache cache, std::optional<DiskCache> carried, CudaCompiler compiler)
      : cache_(std::move(cache)), carried_(std::move(carried)), compiler_(std::move(compiler)) {}
  DiskCache cache_;
  std::optional<DiskCache> carried_;
  CudaCompiler compiler_;
};

// The usual way: NVRTC and the default folders.
Result<CachedCubin> compile_cubin_cached(const std::string& text, const CudaOptions& options,
                                         const std::string& subject);

}  // namespace rooftile
