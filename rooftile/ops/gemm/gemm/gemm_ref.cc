// SPDX-License-Identifier: Apache-2.0
// Float64 reference of gemm.
#include "rooftile/ops/gemm/gemm_reference.h"

namespace rooftile::ops {

void gemm_ref(RefCall& call) {
  const int64_t M = call.dim("M"), N = call.dim("N"), K = call.dim("K");
  double* d = call["d"].data.data();
  matmul_f64(call["a"].data.data(), call["b"].data.data(), call.config.flag("layout") == 1, M, N, K,
             d);
  epilogue_f64(call, call.has("c") ? call["c"].data.data() : nullptr, M, N, d);
}

}  // namespace rooftile::ops
