// SPDX-License-Identifier: Apache-2.0
// Layouts of L1, each looked at element by element or by rank over F2:
//   - rows of 128 swizzled bytes: no two bytes of a tile in one place, chunks at multiples of the
//     swizzle's own period, copies of a slot side by side
//   - threads that copy: every 16-byte piece of a tile brought by one thread, once
//   - sums: the registers of all threads hold every element of the tile once, by the table of the
//     instruction; sums that become a left operand lie as its table asks
//   - operands: as deep, as tall and as wide as the product reads
//   - register images of a split loop: one place a register
#pragma once

#include "rooftile/codegen/gpu/placed.h"
#include "rooftile/verify/placed/placed_problem.h"

namespace rooftile::verify {

// placed.layout
PlacedProblems check_layouts(const ir::Program& program, const codegen::Placed& placed);

// Rank over F2 of the columns of a linear map, each the image of one bit.
int rank_f2(std::vector<uint64_t> images);
// Where byte `byte` of row `row` lies in a chunk of 128-byte rows: 16-byte pieces change places by
// the row's number in its eight (the 128-byte swizzle of copy engine and wgmma).
int64_t swizzled(int row, int byte);

}  // namespace rooftile::verify
