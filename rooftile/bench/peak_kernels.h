// SPDX-License-Identifier: Apache-2.0
// Machine code for measuring ceilings, as text for the system compiler: loops of one instruction
// over registers, and memory streams. Header-free; used by roofline.cc only.
#pragma once

#include <string>
#include <vector>

#include "rooftile/compile/target.h"

namespace rooftile::bench {

// One register-only loop: extern "C" void <symbol>(long iterations), on the calling thread.
struct PeakKernel {
  std::string dtype;      // "bf16"
  std::string mechanism;  // "vdpbf16ps"
  std::string symbol;
  double flops_per_iteration = 0;
  bool needs_amx = false;
  std::string text;
};
std::vector<PeakKernel> peak_kernels(const TargetInfo& target);

// extern "C" void rt_stream_read(const char* from, long bytes), rt_stream_copy(char* to, const
// char* from, long bytes): the calling thread's share; `bytes` a multiple of 1024, pointers aligned
// to 64.
std::string stream_kernels_text(const TargetInfo& target);

}  // namespace rooftile::bench
