// SPDX-License-Identifier: Apache-2.0
// bench_case on a GPU: the same line, timed by the device's clock, with its clocks and power.
#pragma once

#include "rooftile/bench/bench.h"

namespace rooftile::bench {

// RT-R004 if there is no GPU that can be used.
Result<std::vector<BenchLine>> device_bench_case(const OpDef& op, const Case& test_case,
                                                 const BenchOptions& options);

}  // namespace rooftile::bench
