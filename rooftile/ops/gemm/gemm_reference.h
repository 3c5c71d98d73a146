// SPDX-License-Identifier: Apache-2.0
// Float64 pieces of the matrix-product references. They share no code with the kernels.
#pragma once

#include "rooftile/ops/op_def.h"

namespace rooftile::ops {

// The activation at position `activation` of {none, relu, silu, gelu, gelu_tanh}.
double activation_f64(double x, int64_t activation);

// out[m, n] = sum_k a[m, k] * (b_is_kn ? b[k, n] : b[n, k]) over plain row-major arrays.
void matmul_f64(const double* a, const double* b, bool b_is_kn, int64_t M, int64_t N, int64_t K,
                double* out);

// Finishes one M x N result: in d on entry the sums, on return the values. `c` may be null.
void epilogue_f64(const RefCall& call, const double* c, int64_t M, int64_t N, double* d);

}  // namespace rooftile::ops
