// SPDX-License-Identifier: Apache-2.0
// What a placed ring asks of its barriers: arrivals, bytes and readers, counted from the copies and
// from who works in the CTA and the cluster. The lowering counts for itself; `ring.counts` and
// `lanes.matches` compare.
#pragma once

#include <vector>

#include "rooftile/codegen/gpu/placed.h"

namespace rooftile::verify {

struct RingFacts {
  int depth = 0;
  int slot_bytes = 0;
  int full_arrivals = 0;          // that end a slot's filling, beside the bytes
  std::vector<int> engine_bytes;  // of each alternative: bytes that the engine brings into a slot
  int readers = 1;                // groups (or warps) of a CTA that give a slot back
  int sharers = 1;                // CTAs that fill, and read, one another's slots
  int empty_arrivals() const { return readers * sharers; }
};

int cluster_ctas(const codegen::Placed& placed);
bool takes_turns(const codegen::Placed& placed);  // whole tiles in turn
RingFacts ring_facts(const codegen::Placed& placed, const codegen::PlacedRing& ring);

}  // namespace rooftile::verify
