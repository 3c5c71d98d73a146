// SPDX-License-Identifier: Apache-2.0
// L1 of the fragment way: a tile program whose every operation has been placed.
//
// One phase becomes two roles over one walk of the parallel space: the copying role fills rings of
// shared memory, the computing groups consume them. A role's body is a tree of events in issue
// order. Barriers, parities, arrivals and bytes do not appear: they follow from rings and events
// (fragment_lowering.h), which is what the protocol proof works on.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "rooftile/compile/schedule_gpu.h"
#include "rooftile/ir/ir.h"
#include "rooftile/lanes/lanes.h"

namespace rooftile::codegen {

using ir::ValueId;

// Threads of the copying role.
inline constexpr int kCopyingThreads = 128;

// A load that is brought into shared memory: rows of 128 swizzled bytes, in chunks of that width
// along the contiguous axis. By the copy engine, or (cp.async) row by row by the copying role's
// threads, which look up where rows lie and leave zeros for those that a short tile lacks.
struct PlacedCopy {
  ValueId load = -1;
  std::string label;
  int rows = 0, columns = 0;  // of the whole tile, in elements; columns are contiguous in memory
  int element_bytes = 2;
  // Rows beyond a short tile are rows of the contraction and lie inside the tensor: whatever they
  // hold must be zeroed before a product reads the slot.
  bool clear_rows = false;
  gpu::Copy how;
  std::string shared_axis;  // parallel axis whose CTAs of a cluster share this copy; "": none
  // Copy engine, rows that are looked up: so many side by side are one box, of which dimension
  // `run_dim` of the region walks.
  int run_rows = 0, run_dim = -1;
  bool by_threads() const { return how.via == gpu::Via::kCpAsync; }
  int pieces_a_row() const { return columns * element_bytes / 16; }  // 16 bytes each
  int rows_at_once() const { return kCopyingThreads / pieces_a_row(); }
  // Rows (or runs of rows) that one thread looks up and brings.
  int lookups() const { return by_threads() ? rows / rows_at_once() : rows / run_rows; }
  int chunk_columns() const { return 128 / element_bytes; }
  int chunks() const { return columns / chunk_columns(); }
  int chunk_bytes() const { return rows * 128; }
  int bytes() const { return chunks() * chunk_bytes(); }
};

// A slot holds one of the alternatives: the copies of one step, on one barrier. Alternatives are
// copies of one shape made by different loops.
struct PlacedRing {
  std::string name;
  int depth = 2;
  std::vector<std::vector<PlacedCopy>> alternatives;
  int slot_bytes = 0;
  // Who gives a slot back: one thread for its group, which has met at a product behind the slot's
  // arrival; or each warp for itself, where there may be no product (a loop without a step), and a
  // warp that is late must not find the slot filled again.
  bool by_warps = false;
  const PlacedCopy* find(ValueId load) const;
  int offset_in_slot(ValueId load) const;      // bytes
  int engine_bytes(size_t alternative) const;  // of a slot, those that the copy engine brings
  bool has_engine() const;                     // some copy is made by the copy engine
  bool has_threads() const;                    // some copy is made by threads
  // Arrivals that complete a slot: one announces the engine's bytes, one a thread that copies.
  int arrivals() const { return (has_engine() ? 1 : 0) + (has_threads() ? kCopyingThreads : 0); }
};

// The value's place in the computing groups.
enum class Home : uint8_t {
  kInline,    // recomputed at each use
  kFragment,  // registers of the accumulator fragment, f32 or i32
  kOperand,   // packed registers of the left operand's fragment
  kRow,       // one register a row of the thread
  kScalar,    // one register, the same in every thread
  kRing,      // shared memory, read by products only
};

struct PlacedValue {
  Home home = Home::kInline;
  std::string reg;  // register array; several values may share one (an accumulator and its sum)
  bool partial = false;  // kRow: sums of the lane's own columns, not yet joined over the four lanes
  int parts = 1;  // each CTA of a cluster holds this share of the columns: behind a split loop
};

// A loop of sums whose steps several CTAs share. Across a cluster, behind it each of the `owners`
// has a part of the columns, with whole sums; one owner: rank 0 has them all, and the others are
// done. Across the grid the CTA with the first steps of a tile owns its sums.
struct PlacedSplit {
  ValueId loop = -1;
  gpu::Across across = gpu::Across::kCluster;
  int ways = 1, owners = 1;  // ways, across the grid: 0 is stream-K
  int stream_waves = 1;
  int columns = 0;  // of an owner's part
  std::vector<ValueId> results;
  bool over_cluster() const { return loop >= 0 && across == gpu::Across::kCluster; }
  bool over_grid() const { return loop >= 0 && across == gpu::Across::kGrid; }
  std::string str() const;  // "split over ..."
};

struct Event {
  enum Kind : uint8_t {
    kLoop,      // body once a step of loop `id`
    kWhen,      // body if the condition of `id` holds
    kFill,      // copying role: one slot of `ring`, alternative `n`
    kAcquire,   // computing role: the slot of `ring` has arrived; `id` is a load it holds
    kRelease,   // the oldest slot held of `ring` goes back
    kIssue,     // product `id` starts
    kWait,      // at most `n` products still run
    kCompute,   // value `id` into its registers
    kRescale,   // accumulator of product `id`: its element-wise operand, in place
    kJoin,      // partial sums of `id` are added up over the lanes
    kYield,     // carried values of loop `id` take their next values
    kStore,     // node `id`
    kTakeTurn,  // the token that lets a group issue products arrives ...
    kPassTurn,  // ... and goes to the next group
    kCombine,   // partial sums of the split loop `id` go to their owners and are added there
    kOwner,     // body in the CTA that owns the sums of the split loop
  } kind = kCompute;
  int ring = -1;
  ValueId id = -1;
  int n = 0;
  std::vector<Event> body = {};
  // kLoop of the computing role, when a product runs one step late: `first` is the step before the
  // rest (in which nothing is late), `last` what remains after the final step.
  std::vector<Event> first = {}, last = {};
};

struct Placed {
  ValueId phase = -1;  // the kTiles node
  gpu::Plan plan;
  int tile_rows = 0;  // rows of a tile; each group has rows / groups of them, or all in turns
  int groups = 1;
  int row_blocks = 1;  // 64-row blocks of one group
  PlacedSplit split;
  std::vector<PlacedRing> rings;
  std::map<ValueId, PlacedValue> values;
  std::vector<Event> copying, computing;
  bool has_thread_copies() const;  // the whole copying role works, not one thread of it
  std::string str(const ir::Program& program) const;
};

}  // namespace rooftile::codegen
