// SPDX-License-Identifier: Apache-2.0
// Float64 reference of gemm_batched.
#include "rooftile/ops/gemm/gemm_reference.h"

namespace rooftile::ops {

void gemm_batched_ref(RefCall& call) {
  const int64_t M = call.dim("M"), N = call.dim("N"), K = call.dim("K");
  for (int64_t batch = 0; batch < call.dim("B"); ++batch) {
    double* d = call["d"].data.data() + batch * M * N;
    matmul_f64(call["a"].data.data() + batch * M * K, call["b"].data.data() + batch * N * K,
               call.config.flag("layout") == 1, M, N, K, d);
    epilogue_f64(call, call.has("c") ? call["c"].data.data() + batch * M * N : nullptr, M, N, d);
  }
}

}  // namespace rooftile::ops
