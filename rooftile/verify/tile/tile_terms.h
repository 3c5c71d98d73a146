// SPDX-License-Identifier: Apache-2.0
// Values of integer tiles as formulas: what an index tile holds at a position.
//
// Arithmetic of the language wraps in its dtype; formulas are over mathematical integers. They
// agree while every step fits its dtype: those conditions come with the term and have to be proved.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "rooftile/ir/ir.h"

namespace rooftile::verify {

struct TileTerm {
  Expr value;
  std::vector<Expr> exact;  // under these, `value` is what the tile holds
};

// The element of `tile` at `at` (an index an axis; the indices of a rank-0 tile are not looked at).
// nullopt where the value is no formula: floats, products, reductions, carried values.
std::optional<TileTerm> tile_term(const ir::Program& program, ir::ValueId tile,
                                  const std::vector<Expr>& at);

// "at.0": the position along an axis of an access's tile.
inline std::string position_name(int axis) { return "at." + std::to_string(axis); }

}  // namespace rooftile::verify
