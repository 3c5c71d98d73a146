// SPDX-License-Identifier: Apache-2.0
// A whole kernel written by hand in L2, for the tests of emitter, emulator and prover.
//
//   d[M, N] = a[M, K] . b[N, K]^T      bf16 in and out, sums in f32
//
// One producer warp keeps a ring of TMA tiles full, one consumer warpgroup multiplies them with
// wgmma m64n<bn>k16. Contract: K >= 1; N even; rows of a and b aligned to 16 bytes, of d to 4.
// Grid: x walks N in blocks of bn, y walks M in blocks of 64; 160 threads.
#pragma once

#include "rooftile/lanes/lanes.h"

namespace rooftile::lanes::testing {

struct WgmmaGemm {
  int bn = 64;     // columns of a tile, a multiple of 8 up to 256
  int stages = 2;  // depth of the ring
};

// Placed (plan_shared) and verified.
Result<Program> wgmma_gemm(const WgmmaGemm& shape = {});

}  // namespace rooftile::lanes::testing
