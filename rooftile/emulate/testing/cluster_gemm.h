// SPDX-License-Identifier: Apache-2.0
// For tests: a persistent, clustered, warp-specialised gemm by hand, with all that such a kernel
// needs: multicast loads, remote arrivals, register budgets, staged stores, a drained ring.
//
//   d[M, N] = a[M, K] . b[N, K]^T      bf16 in and out, sums in f32
//
// A cluster of two CTAs takes 256 rows by 64 columns: each CTA 128 rows, and half of the columns'
// operand, which it sends to both. Grid: 2 min(SMS, tiles); 384 threads.
#pragma once

#include "rooftile/lanes/lanes.h"

namespace rooftile::emulate::testing {

Result<lanes::Program> cluster_gemm(int stages = 3);

}  // namespace rooftile::emulate::testing
