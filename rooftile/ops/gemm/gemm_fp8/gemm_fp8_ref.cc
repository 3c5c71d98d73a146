// SPDX-License-Identifier: Apache-2.0
// Float64 reference of gemm_fp8.
#include "rooftile/ops/op_def.h"

namespace rooftile::ops {

void gemm_fp8_ref(RefCall& call) {
  const int64_t M = call.dim("M"), N = call.dim("N"), K = call.dim("K");
  const double scale = call["scale_a"].data[0] * call["scale_b"].data[0];
  const std::vector<double>&a = call["a"].data, &b = call["b"].data;
  std::vector<double>& d = call["d"].data;
  for (int64_t i = 0; i < M; ++i)
    for (int64_t j = 0; j < N; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < K; ++k)
        sum += a[static_cast<size_t>(i * K + k)] * b[static_cast<size_t>(j * K + k)];
      double y = sum * scale;
      if (call.has("bias")) y += call["bias"].data[static_cast<size_t>(j)];
      d[static_cast<size_t>(i * N + j)] = y;
    }
}

}  // namespace rooftile::ops
