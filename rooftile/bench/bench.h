// SPDX-License-Identifier: Apache-2.0
// One driver that times any operator: checks the kernel first, then races it against the library
// that one would use instead, on the same inputs and from memory, and says how far it is from this
// machine's roofline.
//
// Everything a reader needs to judge or repeat a number is in its line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rooftile/bench/cuda/device_provenance.h"
#include "rooftile/bench/roofline.h"
#include "rooftile/bench/timer.h"
#include "rooftile/check/compare.h"
#include "rooftile/compile/kernel.h"
#include "rooftile/ops/op_def.h"

namespace rooftile::bench {

struct BenchOptions {
  std::string device = "cpu";  // "cpu", or "cuda": the first GPU
  // auto: what a call takes; tile, raw: the first choice of that route; all: tile and raw in one
  // race; library: the peer alone, against the roofline.
  std::string route = "auto";
  std::string kernel;                // "" : the first choice of the route
  std::optional<Schedule> schedule;  // instead of the kernel's own
  std::string changes;               // to the schedule: compile/schedule_change.h
  bool check = true;
  bool peers = true;
  std::optional<uint64_t> seed;  // default: fresh
  // A check whose float64 reference would take more is made on smaller sizes, with the same
  // compiled code.
  double max_reference_flops = 4e8;
  // Copies of the arguments are rotated over this much, or the caches swept with as much at most.
  int64_t rotate_bytes = int64_t{1} << 30;
  TimingOptions timing;  // sweep_bytes is chosen by the driver
};

struct Quantiles {
  double p20 = 0, p50 = 0, p80 = 0;  // microseconds a call
};

struct PeerTime {
  std::string name;       // "oneDNN 2.6.3 matmul"
  std::string prepacked;  // what it prepared outside the timed region
  Quantiles us;
  double ratio = 0;  // its time / ours, the median over rounds
};

struct BenchLine {
  std::string op, kernel, target, device, dtype, case_text;
  std::vector<std::pair<std::string, int64_t>> shape;  // named dims
  std::string route, schedule;
  Quantiles us;
  double flops = 0, bytes = 0;
  double tflops = 0, gb_per_s = 0;
  double roof_us = 0, roofline_fraction = 0;  // roof time / p50
  std::string bound;                          // compute, bandwidth, launch
  // The libraries that have this operator, timed in the same rounds; the first is the one that most
  // would use.
  std::vector<PeerTime> peers;
  std::string no_peer;  // why there is none
  // Correctness.
  bool checked = false, pass = true;
  std::string check_case;  // the sizes of the float64 check if not those that were timed
  check::Comparison errors;
  Tolerance tolerance;
  double peer_norm_err = -1;  // against the first peer at full size; -1: not compared
  std::string peer_wrong;     // how that peer misses the tolerance, if it does
  uint64_t seed = 0;
  // Provenance.
  std::string prepacked;  // which of our operands are packed outside the timed region; "" none
  std::string residency;  // how the operands were kept out of the caches
  double compile_ms = 0;  // 0: from the cache
  double first_call_us = 0;
  int warmup = 0, rounds = 0;
  bool busy = false;  // another process disturbed it
  int threads = 1;
  std::string isa, compiler, onednn, openblas;  // of a measurement on the processor
  std::optional<DeviceProvenance> gpu;          // of one on a GPU
  std::string commit, timestamp;

  std::string json_line() const;
};

// A line a kernel of ours, all timed in one race. RT-M003 for a case that does not fit the
// operator; a kernel that is wrong gives a line with pass = false, untimed.
Result<std::vector<BenchLine>> bench_case(const OpDef& op, const Case& test_case,
                                          const BenchOptions& options);

// The kernels that bench_case compiles for these cases. Those that cannot be generated are left
// out; the reasons go to `refused`.
std::vector<KernelSource> bench_sources(const std::vector<std::pair<const OpDef*, Case>>& cases,
                                        const BenchOptions& options, std::vector<Diag>& refused);
// Compiles the kernels of these cases on all cores, so that bench_case finds them in the cache.
void compile_ahead(const std::vector<std::pair<const OpDef*, Case>>& cases,
                   const BenchOptions& options);

// "smoke": the least of an operator's llm cases; "llm": the sizes of real models; "full": more;
// "large": those that a GPU needs to show its peak.
std::vector<const Case*> bench_cases(const OpDef& op, std::string_view set);
// Whether a GPU has a hand-written kernel for the case.
bool has_raw_kernel(const OpDef& op, const Case& test_case);

}  // namespace rooftile::bench
