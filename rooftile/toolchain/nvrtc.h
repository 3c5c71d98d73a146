// SPDX-License-Identifier: Apache-2.0
// CUDA text to a cubin for Hopper, by NVRTC, loaded at run time.
//
// The text has no includes. Its file name is fixed and options are canonical, so that equal text,
// options and NVRTC give equal bytes, on any machine. ptxas always reports: the report comes back
// as data, and whether a kernel may be shipped is shipped_ok()'s to say (ptxas_report.h).
// Compilation may run in several threads at once. The usual way in is cubin_cache.h.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "rooftile/base/diag.h"
#include "rooftile/toolchain/nvrtc_find.h"
#include "rooftile/toolchain/ptxas_report.h"

namespace rooftile {

struct CudaOptions {
  std::string arch = "sm_90a";     // or "compute_90a": PTX alone, and then no report
  std::vector<std::string> flags;  // beyond the standard ones, e.g. "-use_fast_math"; order-free
  // What NVRTC is given: arch, the standard flags, `flags`, sorted.
  std::vector<std::string> canonical() const;
};

struct CudaBinary {
  std::string cubin;  // "" for compute_90a
  std::string ptx;
  std::string log;  // without the lines that change from run to run
  PtxasReport report;
  std::string nvrtc;  // "NVRTC 13.0, build-id 65be0d...", for people
  double compile_ms = 0;
};

class Nvrtc {
 public:
  // Finds and loads it, once in a process; 30 to 200 ms. RT-T004 if it is not there or cannot be
  // loaded (that is tried again at the next call).
  static Result<const Nvrtc*> load();

  // RT-T005 with the compiler's message if the text is refused; the message names the register
  // count that ptxas needs where that is the reason. `subject`: the operator or kernel, for people.
  Result<CudaBinary> compile(std::string_view text, const CudaOptions& options,
                             std::string_view subject = "generated kernel") const;

  int major() const { return major_; }
  int minor() const { return minor_; }
  const NvrtcLocation& location() const { return location_; }
  std::string name() const;  // "NVRTC 13.0, build-id ..."

 private:
  struct Impl;
  static Result<const Nvrtc*> open(NvrtcLocation location);
  Nvrtc() = default;
  const Impl* impl_ = nullptr;
  NvrtcLocation location_;
  int major_ = 0, minor_ = 0;
};

}  // namespace rooftile
