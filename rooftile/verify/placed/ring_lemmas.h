// SPDX-License-Identifier: Apache-2.0
// The arithmetic of rings, for a number of slots and any number of steps.
//
// Item n = q S + s lies in slot s. Producer: p items filled. Reader: c given back, the next to look
// at is n. The invariant c <= p <= c + S, for each reader, is kept by a producer that waits for a
// free slot and a reader that waits for a full one; barriers tell them by parity alone. What is
// asked:
//   credit   filling when the wait lets it keeps the invariant, and so does giving back
//   parity   under it, each of the two waits passes exactly when its own phase is over
//   hazard   the slot being filled is none that a reader holds
// With several readers a slot's phase ends with the last of them, so c is the least; with several
// producers (copies shared by a cluster) a slot is full with the last slice, so p is the least for
// readers, and each producer for itself in its own wait.
#pragma once

#include <vector>

#include "rooftile/base/expr.h"
#include "rooftile/verify/verdict.h"

namespace rooftile::verify {

struct Lemma {
  Kind kind = Kind::kRingCredit;
  const char* what = "";
  std::vector<Expr> facts;
  Expr goal;
};

// Over the symbols p, c, d (another reader), q, s, m, k; f of a barrier.
std::vector<Lemma> ring_lemmas(int depth);

}  // namespace rooftile::verify
