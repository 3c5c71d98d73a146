// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/placed/ring_facts.h"

#include <algorithm>

namespace rooftile::verify {

using codegen::Placed;
using codegen::PlacedCopy;
using codegen::PlacedRing;

int cluster_ctas(const Placed& placed) {
  int ctas = placed.split.over_cluster() ? placed.split.ways : 1;
  for (const gpu::ClusterAxis& axis : placed.plan.cluster) ctas *= axis.size;
  return ctas;
}

bool takes_turns(const Placed& placed) { return placed.plan.share == gpu::Share::kTurns; }

namespace {

// Bytes of the boxes that land in one CTA's slot. Every box counts whole: what lies outside the
// tensor is written as zeros, and counted.
int boxes_bytes(const PlacedCopy& copy, int ctas) {
  const int row_bytes = 128;
  if (copy.run_rows > 0)
    return copy.rows / copy.run_rows * copy.run_rows * row_bytes * copy.chunks();
  // Each of the sharers brings its slice of the rows, to all of them.
  const int slices = copy.shared_axis.empty() ? 1 : ctas;
  return slices * (copy.rows / slices) * row_bytes * copy.chunks();
}

}  // namespace

RingFacts ring_facts(const Placed& placed, const PlacedRing& ring) {
  RingFacts facts;
  facts.depth = ring.depth;
  facts.slot_bytes = ring.slot_bytes;
  const int ctas = cluster_ctas(placed);
  bool engine = false, threads = false, shared = false;
  for (const std::vector<PlacedCopy>& copies : ring.alternatives) {
    int bytes = 0;
    for (const PlacedCopy& copy : copies) {
      (copy.by_threads() ? threads : engine) = true;
      shared |= !copy.shared_axis.empty();
      if (!copy.by_threads()) bytes += boxes_bytes(copy, ctas);
    }
    facts.engine_bytes.push_back(bytes);
  }
  facts.full_arrivals = (engine ? 1 : 0) + (threads ? codegen::kCopyingThreads : 0);
  facts.readers = (takes_turns(placed) ? 1 : placed.groups) * (ring.by_warps ? 4 : 1);
  facts.sharers = shared ? ctas : 1;
  return facts;
}

}  // namespace rooftile::verify
