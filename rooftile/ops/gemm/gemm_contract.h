// SPDX-License-Identifier: Apache-2.0
// The contract shared by gemm and gemm_batched: arguments, epilogue attributes, refusals, cost and
// tolerance. The two differ in one leading dimension.
#pragma once

#include "rooftile/ops/op_def.h"

namespace rooftile::ops {

// Declares d, a, b, bias, c, alpha, beta, layout and activation. `lead` are the batch dimensions.
void declare_gemm(OpDef& op, const std::vector<Expr>& lead);

// Error of a sum of `terms` products in f32, relative to sum |a||b|: each addition rounds by at
// most u = 2^-24, so terms * u always holds and 8 sqrt(terms) u holds but for a probability below
// 1e-13 (Higham and Mary 2019, "A new approach to probabilistic rounding error analysis",
// theorem 3.1).
double sum_error(double terms);

// Euclidean norm of all finite elements.
double euclidean_norm(const NdArray& x);

// Largest Euclidean norm of the vectors along the last axis (or along the one before it).
double largest_row_norm(const NdArray& x, bool along_last_axis = true);

}  // namespace rooftile::ops
