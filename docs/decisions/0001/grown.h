// SPDX-License-Identifier: Apache-2.0
// What the language has to grow for the programs of 0001-language.md, as declarations, so that
// those programs are checked by a compiler. Each is one IR node or one field; the page gives its
// meaning. Nothing here is defined.
#pragma once

#include "rooftile/dsl/dsl.h"

namespace rooftile::dsl {

// G1 kBitcast: the same bits as another type of the same size (f32 <-> i32).
Tile bits(const Tile& x, RT_HERE);
Tile from_bits(const Tile& x, RT_HERE);

// G2 kReshape: the same elements in row-major order under another shape; extents multiply to the
// same number.
Tile reshape(const Tile& x, std::vector<Expr> shape, RT_HERE);

// G3 an indirect index of -1: a store skips the row, a load gives zeros. No new node: a rule of
// kLoad and kStore.
inline constexpr int kSkip = -1;

// G9 an index load from an i32 workspace that the same parallel index has written before. No new
// node: a rule.

// G4 a loop may say how two of its carried states join. Obligation: running the body over a range
// equals running it over two halves, each from the initial state, and joining.
using Join = std::function<std::vector<Tile>(std::vector<Tile>, std::vector<Tile>)>;
void join_of(std::vector<Tile> loop_results, const Join& join, RT_HERE);

}  // namespace rooftile::dsl
