// SPDX-License-Identifier: Apache-2.0
// The memory that a CPU kernel works in besides its tensors, as data: what the layout function of
// the text is printed from, and what verify/cpu reads when it asks whether everything fits.
//
// Parts lie one after the other at multiples of 64 bytes, with 64 bytes between them. Extents are
// upper bounds that are known when the kernel starts.
#pragma once

#include <string>
#include <vector>

#include "rooftile/base/expr.h"

namespace rooftile::codegen {

struct ScratchPart {
  enum Form : uint8_t {
    kWorkspace,   // a workspace tensor of the program, compact
    kAhead,       // a tensor packed before the phase: {N, K, others...}, panels of 32 columns each
    kFlat,        // a buffer without rows to align: all extents, then room for a vector
    kRows,        // a buffer: rows `pitch` elements apart, then room for a vector
    kPackedRows,  // left operand of a product: {rows, words}
    kPanels,      // right operand: {columns, words}
  } form = kFlat;
  enum Owner : uint8_t { kShared, kThread, kMember } owner = kThread;  // who has one
  std::string name;                                                    // of the pointer in the text
  std::string like;  // the part whose pitch it shares: itself, or its twin
  int element_bytes = 4;
  std::vector<Expr> extents;
  int64_t pitch_unit = 1, pitch_pad = 0;  // kRows: width rounded up to the unit, and that much more
  bool whole_tiles = false;               // kRows: the first extent is rounded up to 32 rows
  int per_word = 1;                       // kAhead: elements along K in a word
  int buffer = -1;                        // kFlat, kRows: of the plan
  int source = -1;                        // kPackedRows, kPanels: value that is packed
  std::vector<Expr> holds;                // of it, what `extents` are bounds of
};

inline constexpr int64_t kVectorRoom = 128;  // elements behind the last one that vectors may touch
inline constexpr int64_t kTileRows = 32;     // rows of the largest register tile

// Elements (kRows), bytes (kPackedRows) or words (kPanels, kAhead) from a row or panel to the next.
Expr pitch(const ScratchPart& part);
// Bytes from the start of the part to its end; extents below zero count as zero.
Expr bytes(const ScratchPart& part);

// `struct Layout { ... }` and what fills it in, up to the sizes of thread and member scratch.
struct ScratchText {
  std::string fields, body;
};
ScratchText scratch_text(const std::vector<ScratchPart>& parts);

}  // namespace rooftile::codegen
