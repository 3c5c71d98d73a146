// SPDX-License-Identifier: Apache-2.0
// From a line of a case list to everything a call needs: sizes, dtypes, flags, attributes and
// random inputs.
//
// The words of a case are NAME=VALUE:
//   a symbol of the contract (T=8)          its size; an integer attribute likewise
//   dtype=bf16                              every tensor that may choose its dtype and admits this
//   one a tensor (out=f32)                      that tensor's dtype; of an optional tensor also 1
//   (given) or 0 (absent) a flag or choice (causal=1, act=silu)   its value, by name or position a
//   float attribute (eps=1e-5)            its value
// Optional tensors are absent and everything else has its default unless the case says otherwise.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rooftile/base/diag.h"
#include "rooftile/ops/op_def.h"

namespace rooftile::check {

// Reads one line as in a case list. The operator's own syntax checks come with resolve_case.
Result<Case> parse_case(std::string_view text);

// The case as it is on this target: without the words of flags that the target does not have.
Case for_target(const OpDef& op, const Case& test_case, const TargetInfo& target);

// Dims, config and attributes of a call; no tensors. Refuses words the operator does not know,
// symbols the case leaves unbound (it lists them), and sizes outside the contract.
Result<RefCall> resolve_case(const OpDef& op, const Case& test_case);

// Whether the sizes and attributes satisfy the contract's conditions that read no tensor.
Status check_conditions(const OpDef& op, const RefCall& call);

// Adds the tensors: inputs random, rounded to their dtypes and within their index ranges; outputs
// zero.
Status make_inputs(const OpDef& op, RefCall& call, uint64_t seed);

Result<std::vector<int64_t>> shape_of(const OpDef& op, const ArgDef& arg, const RefCall& call);

// What the elements of an index tensor may be, if the contract says so: lo <= element < hi.
struct IndexRange {
  int64_t lo = 0, hi = 0;
};
std::optional<IndexRange> index_range(const OpDef& op, const std::string& tensor,
                                      const RefCall& call);

// The dtype that names a call in results: that of its first input that is not an index tensor.
DType main_dtype(const OpDef& op, const Config& config);

uint64_t fresh_seed();

}  // namespace rooftile::check
