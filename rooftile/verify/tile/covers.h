// SPDX-License-Identifier: Apache-2.0
// Every element of a tensor is stored: the argument behind tile.covers.
//
// A dimension at a time. A region starts as an interval [first, first + count) of the dimension,
// and each index that moves it, the innermost first, lays intervals side by side: where
//     end(x) >= min(begin(x + 1), cap)   for every x in [0, n)
// the intervals of all x cover [begin(0), min(begin(n), cap)). No order of the beginnings is
// needed: for t in [begin(0), begin(n)) there is an x with begin(x) <= t < begin(x + 1). At the end
// the interval must be the whole dimension. Blocks, ranges of a table of offsets (cu[b] .. cu[b +
// 1]), groups of heads and serial loops are all of this form; an index that runs backwards is
// turned around first.
//
// An instance that looks up in a workspace whose it is (the owner of a slot) is named by what it
// finds instead: every element of the workspace was stored once, so the instances are in bijection
// with the stores' own indices.
#pragma once

#include <string>
#include <vector>

#include "rooftile/verify/tile/accesses.h"
#include "rooftile/verify/tile/reasoner.h"

namespace rooftile::verify {

struct Coverage {
  Verdict verdict = Verdict::kUnknown;
  std::string reason;
  std::vector<Env> models;           // of steps that failed: dims that may show a counterexample
  std::vector<std::string> tensors;  // workspaces that must be stored exactly once for it
};

// Whether the stores of the phases before `phase` cover `tensor`.
Coverage covered_before(Reasoner& reasoner, const Accesses& accesses, const std::string& tensor,
                        size_t phase);

}  // namespace rooftile::verify
