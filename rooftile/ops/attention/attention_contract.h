// SPDX-License-Identifier: Apache-2.0
// Cost, tolerance and test inputs of the attention operators.
#pragma once

#include "rooftile/ops/op_def.h"

namespace rooftile::ops {

// Visible (query, key) pairs of a sequence under the window and mask of `call`.
double visible_pairs(const RefCall& call, int64_t q_len, int64_t k_len);

// Cost without the values of index tensors takes sequences of equal length.
Cost prefill_cost(const RefCall& call);
Cost decode_cost(const RefCall& call);

// Error of probabilities rounded to the storage type, of logits in f32, and of the final rounding.
Tolerance attention_tolerance(const RefCall& call);

// Sequence offsets: random lengths with empty sequences among them, or equal ones where they divide
// a long tensor evenly; self-attention (Tq == Tk) gets the same offsets for queries and keys. Keys
// and values that no query may look at are NaN.
void prefill_inputs(RefCall& call, uint64_t seed);

// Lengths around 0, 1 and page boundaries (all full for large caches, so that a benchmark means
// something), a shuffled block table, and NaN in every cache element that no length covers.
void decode_inputs(RefCall& call, uint64_t seed);

}  // namespace rooftile::ops
