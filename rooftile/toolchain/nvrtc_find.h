// SPDX-License-Identifier: Apache-2.0
// Where NVRTC, CUDA's run-time compiler, lies on this machine; found without loading it, because
// loading takes 30 to 200 ms and a cubin cache hit needs only its identity.
//
// Order: ROOFTILE_NVRTC (used or refused, never replaced); one that this process has loaded
// already, as torch does; the folders of the dynamic linker; the CUDA toolkit; the folders of
// Python wheels, also ~/.cache/rooftile/nvrtc, which `./dev` fills on machines without NVRTC.
#pragma once

#include <string>
#include <vector>

#include "rooftile/base/diag.h"

namespace rooftile {

struct NvrtcLocation {
  std::string path;  // of libnvrtc.so.13 or .12
  std::string how;   // "ROOFTILE_NVRTC", "already loaded", "dynamic linker", ...
  std::string
      identity;  // library_identity(): the same wherever the file lies; goes into cache keys
};

// RT-T004 if there is none, with the folders that were searched.
Result<NvrtcLocation> find_nvrtc();

// The folder for a wheel of this project's own: $XDG_CACHE_HOME or ~/.cache, then rooftile/nvrtc.
// "" if there is no home folder.
std::string own_nvrtc_dir();

}  // namespace rooftile
