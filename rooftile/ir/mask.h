// SPDX-License-Identifier: Apache-2.0
// When a mask hides nothing.
//
// A mask that compares positions, like that of causal attention, holds everywhere in most of the
// tiles that it is written for. Written as comparisons of sums of the tile's own indices, it can be
// asked so with a few scalar operations, and a lowering can then leave it out: one loop serves the
// blocks at an edge and those inside. Nothing here changes what a program means.
#pragma once

#include <optional>
#include <vector>

#include "rooftile/ir/ir.h"

namespace rooftile::ir {

// base + sum over the axes d of slope[d] * (index along d), which must not be negative.
struct Reach {
  Expr base;
  std::vector<int> slope;  // one an axis of the mask; -1, 0 or 1

  // Its least value over the tile, where the axes from `from` on move and those before stand still
  // (their terms are left to the caller).
  Expr least(const std::vector<Expr>& shape, size_t from = 0) const;
};

// The bool value `mask` holds at an index if and only if no Reach is negative there. nullopt for a
// mask of another form.
std::optional<std::vector<Reach>> reaches(const Program& program, ValueId mask);

// Whether `mask` holds in all of its tile, as a scalar condition; nullopt as above.
std::optional<Expr> holds_everywhere(const Program& program, ValueId mask);

}  // namespace rooftile::ir
