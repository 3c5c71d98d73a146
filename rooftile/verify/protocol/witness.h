// SPDX-License-Identifier: Apache-2.0
// A call that takes a given path: dims, attributes and elements that answer its decisions.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "rooftile/verify/protocol/flatten.h"
#include "rooftile/verify/protocol/terms.h"

namespace rooftile::verify::protocol {

// A small search over numbers that the conditions themselves suggest; nullopt: nothing found.
// Elements of tensors are named by tensor, "SMS" is the number of multiprocessors.
std::optional<Env> find_call(const Flat& flat, const Terms& terms,
                             const std::vector<std::pair<AtomId, bool>>& decisions,
                             const std::vector<Expr>& facts);

}  // namespace rooftile::verify::protocol
