// SPDX-License-Identifier: Apache-2.0
// What benchmarks on a processor and on a GPU have in common.
#pragma once

#include <string>

#include "rooftile/bench/bench.h"
#include "rooftile/check/judge.h"
#include "rooftile/compile/kernel.h"

namespace rooftile::bench {

// What the options ask to be timed of ours: one kernel, or with route "all" one of each route. None
// with route "library".
Result<std::vector<const KernelDef*>> choose_kernels(const OpDef& op, const RefCall& call,
                                                     const TargetInfo& target,
                                                     const BenchOptions& options);
Diag no_kernel(const OpDef& op, const std::string& wanted);

// The source of what is timed.
Result<KernelSource> generate_for(const OpDef& op, const KernelDef& kernel, const RefCall& call,
                                  const TargetInfo& target, const BenchOptions& options);

// Names, sizes and cost of the case; seed and time.
void describe(const OpDef& op, const Case& test_case, const RefCall& call,
              const BenchOptions& options, BenchLine& line);
void describe(const CompiledKernel& kernel, BenchLine& line);

// The compiled code that is timed, against the float64 reference, on the sizes that are timed or on
// smaller ones for which it applies and the reference is quick.
Status check_against_reference(const OpDef& op, const KernelDef& kernel,
                               const CompiledKernel& compiled, const RefCall& call,
                               const check::Implementation& run, const BenchOptions& options,
                               BenchLine& line);

// At full size, where the float64 check was made on a smaller one. Two implementations that share
// nothing should agree; which of them is wrong where they do not, and how both do elsewhere, is
// decided by the float64 reference of a part of the call. Only where no part can be had does a
// difference count against ours. `theirs` and `ours` by output; `call` has the inputs.
void check_against_peer(const OpDef& op, RefCall call, const std::string& peer,
                        const std::map<std::string, NdArray>& theirs,
                        const std::map<std::string, NdArray>& ours, const BenchOptions& options,
                        BenchLine& line);

// The time of contestant `ours`, and those of the peers, which are the last contestants.
void record(const Race& race, size_t ours, const std::vector<PeerTime>& peers, BenchLine& line);
// The same where the first peer is what is timed.
void record_library(const Race& race, const std::vector<PeerTime>& peers, BenchLine& line);

// Rates and the fraction of the roofline. `written_bytes` of the case's are stores.
void rate(const Ceilings& ceilings, DType dtype, double written_bytes, BenchLine& line);

int64_t tensor_bytes(const OpDef& op, const check::Arguments& set, bool outputs);

}  // namespace rooftile::bench
