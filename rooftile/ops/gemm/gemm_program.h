// SPDX-License-Identifier: Apache-2.0
// The parts that the matrix-product operators have in common: the blocked product, the activations,
// the epilogue, the starting schedules and the accumulation bound.
//
// Epilogue order, all in f32 (i32 for an i32 result): scale by alpha, bias, activation, beta * C.
#pragma once

#include <vector>

#include "rooftile/ops/op_def.h"

namespace rooftile::ops {

// The values of the choice `activation`, in this order.
enum Activation : int64_t { kActNone, kActRelu, kActSilu, kActGelu, kActGeluTanh };
const std::vector<std::string>& activation_names();
dsl::Tile activate(const dsl::Tile& x, int64_t activation);  // f32, any shape

// Where a tile of the result lies. `lead` indexes the dimensions before the last two (a batch).
struct ResultBlock {
  std::vector<Expr> lead;
  dsl::Range rows, columns;
};

// Sum over K of A[rows, k] B[k, columns], K in blocks of `depth`. f32, or i32 for i8 operands.
dsl::Tile blocked_product(dsl::Kernel& k, const Config& config, const ResultBlock& at,
                          const Expr& depth);

// Everything from the sum to the store of D: alpha, bias, activation, beta, rounding.
void store_with_epilogue(dsl::Kernel& k, const Config& config, const ResultBlock& at,
                         const dsl::Tile& sum);

// Starting schedules. `weights` are the labels of the loads that may come packed.
bool is_small_m(const Env& dims);
Schedule small_m_schedule(const Env& dims, int64_t columns, DType dtype, bool packed,
                          const std::vector<std::string>& weights, const TargetInfo& target);
Schedule large_m_schedule(const Env& dims, int64_t columns, DType dtype, bool packed,
                          const std::vector<std::string>& weights, const TargetInfo& target);

}  // namespace rooftile::ops
