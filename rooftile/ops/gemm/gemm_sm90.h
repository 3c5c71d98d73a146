// SPDX-License-Identifier: Apache-2.0
// Schedules of matrix products for Hopper: tensor cores, rings filled by the copy engine.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "rooftile/ops/op_def.h"

namespace rooftile::ops {

struct Sm90Gemm {
  int64_t rows = 0, columns = 0;  // of the result, per batch
  int64_t depth = 0;              // of the sums
  int64_t batches = 1;
  DType operand = DType::kBf16, result = DType::kBf16;
  bool b_is_kn = false;  // b lies [K, N], not [N, K]
  // Behind the sums stands a factor and nothing else: even wide tiles have registers for stream-K.
  bool plain_epilogue = false;
  // What the program calls its operands, products and result; several right operands are several
  // products of one left operand.
  std::string left = "a", out = "d";
  std::vector<std::string> right = {"b"}, products = {"mm"};
};

// The schedule of `blocked_product` and `store_with_epilogue` for this problem; nullopt if tensor
// cores do not take it (f32 operands; 8-bit ones that do not lie along K).
std::optional<Schedule> sm90_gemm_schedule(const Sm90Gemm& problem, const TargetInfo& target);

}  // namespace rooftile::ops
