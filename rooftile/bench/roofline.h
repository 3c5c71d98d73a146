// SPDX-License-Identifier: Apache-2.0
// The ceilings of this machine, measured: peak rate by dtype, memory bandwidth, cost of a launch.
// Every fraction of a roofline that Rooftile prints refers to them.
//
// Measured once by generated machine code that touches nothing but registers (rates) or streams
// through 1 GiB (bandwidth), and kept in the cache folder under a key of the processor, its
// features and the thread count.
#pragma once

#include <map>
#include <string>

#include "rooftile/base/diag.h"
#include "rooftile/base/dtype.h"
#include "rooftile/compile/target.h"
#include "rooftile/ops/op_def.h"

namespace rooftile::bench {

struct Peak {
  double gflops = 0;      // multiply-adds count two; integer operations for i8
  std::string mechanism;  // "amx", "vdpbf16ps", "fma zmm", ...
};

struct Ceilings {
  std::string device, isa, target_key;
  int threads = 1;
  std::map<std::string, Peak>
      peaks;  // by dtype name: f32, bf16, f16, i8; every mechanism also as "bf16/amx"
  double read_gb_per_s = 0;
  double copy_gb_per_s = 0;  // non-temporal; bytes read plus bytes written
  double launch_us = 0;      // an empty parallel region
  bool busy = false;         // another process was running: bandwidths may be too low
  std::string measured_at;   // UTC

  double peak_gflops(
      DType dtype) const;  // the peak of its arithmetic; f32's for types without their own
  // Least time to move cost.bytes, `written_bytes` of them stores.
  double memory_us(const Cost& cost, double written_bytes) const;
  // The time below which nothing can be done on this machine, and what sets it: "compute",
  // "bandwidth" or "launch". `written_bytes` of cost.bytes are stores, which cost what a copy
  // shows.
  double roof_us(const Cost& cost, DType dtype, double written_bytes = 0) const;
  std::string bound(const Cost& cost, DType dtype, double written_bytes = 0) const;

  // The better of both measurements of the same machine, each ceiling by itself.
  void raise_to(const Ceilings& other);

  std::string json_line() const;
  static Result<Ceilings> from_json(const std::string& text);
};

// From the cache, or measured now (a few seconds, with progress on stderr) and cached.
Result<Ceilings> ceilings();
// Measured now, whatever the cache holds, and cached.
Result<Ceilings> calibrate();

}  // namespace rooftile::bench
