// SPDX-License-Identifier: Apache-2.0
// A part of a call: chosen indices of some of its dims, as a smaller call with the same results
// there. So what has no affordable float64 reference at full size is judged by samples of it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "rooftile/ops/op_def.h"

namespace rooftile::check {

// Dim -> indices, ascending; dims that are not named stay whole.
using Chosen = std::map<std::string, std::vector<int64_t>, std::less<>>;

// The dims along which a result needs only what its inputs hold at its own index: rows and columns
// of a product, rows of a softmax. Found out by trying: the reference of a small call with random
// inputs must, at the chosen indices, be bit for bit that of the part.
std::vector<std::string> independent_dims(const OpDef& op, const RefCall& call, uint64_t seed);

// A tensor of the call at the chosen indices.
NdArray part_of(const ArgDef& arg, const RefCall& call, const NdArray& values,
                const Chosen& chosen);
// The call itself, with all its tensors; nullopt where the contract does not admit those sizes.
std::optional<RefCall> part_of(const OpDef& op, const RefCall& call, const Chosen& chosen);

// At most `limit` indices of each dim: those of the `wanted` positions of the output first (in this
// order, row-major), then the first, the last and some in between.
Chosen choose_indices(const ArgDef& output, const RefCall& call,
                      const std::vector<std::string>& dims, const std::vector<int64_t>& wanted,
                      int64_t limit);

}  // namespace rooftile::check
