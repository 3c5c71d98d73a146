// SPDX-License-Identifier: Apache-2.0
// TargetInfo: what schedules, code generators and compiler flags may know about a machine. Plain
// data; a question about the target that is not answered here is a missing field, never an `if
// (cuda)` elsewhere.
#pragma once

#include <cstdint>
#include <string>

namespace rooftile {

struct TargetInfo {
  std::string name = "cpu";     // "cpu", "sm90"
  std::string isa = "generic";  // "avx512", "avx2", "generic"
  bool amx_bf16 = false, amx_int8 = false, avx512_bf16 = false, avx512_vnni = false,
       avx512_fp16 = false;
  int threads = 1;
  int64_t l1_bytes = 32 << 10, l2_bytes = 1 << 20, l3_bytes = 32 << 20;
  bool gpu = false;  // kernels are lanes and CUDA text (codegen/gpu), launched on a stream
  int multiprocessors = 0;
  std::string device;  // the processor's own name, for people; not part of the key

  // Generic code uses 8 lanes through vector extensions.
  int lanes_f32() const { return isa == "avx512" ? 16 : 8; }
  std::string key() const;  // canonical: cache keys
};

// This machine, found once (runtime/cpu/host_target.cc). What the environment overrides is in
// base/env.h.
const TargetInfo& host_target();

// An H100 or H200, whether or not there is one: what kernels for sm_90a are generated for.
const TargetInfo& sm90_target();

}  // namespace rooftile
