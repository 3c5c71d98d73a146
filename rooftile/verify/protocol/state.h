// SPDX-License-Identifier: Apache-2.0
// A state of the protocol: where every warp of a cluster stands, what its barriers count, what has
// been decided, and who knows of which accesses.
//
// Knowledge is a vector clock cut down to one bit: of each access that somebody may still meet, the
// agents that it is ordered before. An agent is a warp (twice: what all its lanes know, and what
// the lanes of one mask know), or a barrier (twice: what arrivals have handed in, and what waits
// hand out).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "rooftile/verify/protocol/access.h"
#include "rooftile/verify/protocol/terms.h"
#include "rooftile/verify/verdict.h"

namespace rooftile::verify::protocol {

using Agent = int;
inline constexpr int kMaxAgents = 768;

struct Agents {
  std::array<uint64_t, kMaxAgents / 64> words{};
  bool has(Agent a) const { return (words[static_cast<size_t>(a) / 64] >> (a % 64) & 1) != 0; }
  void set(Agent a) { words[static_cast<size_t>(a) / 64] |= uint64_t{1} << (a % 64); }
  void clear(Agent a) { words[static_cast<size_t>(a) / 64] &= ~(uint64_t{1} << (a % 64)); }
};

enum class Of : uint8_t {
  kRead,
  kWrite,
  // Of a barrier: its initialisation; its last completion and the one before; a wait that the last
  // one ended; an arrival from another CTA.
  kInit,
  kDone,
  kDoneBefore,
  kWaited,
  kOwed,
};
enum class By : uint8_t {
  kThread,   // owner: a warp
  kEngine,   // the copy engine or st.async; owner: the barrier that counts its bytes
  kProduct,  // owner: a warpgroup
  kBulk,     // a store that reads shared memory; owner: a warp
  kCopy,     // cp.async; owner: a warp
};

struct Record {
  Of of = Of::kRead;
  By by = By::kThread;
  bool running = false;  // nobody can know yet
  bool flag = false;     // kInit: fence.mbarrier_init has been executed
  int16_t cta = 0;
  int16_t owner = 0;
  int32_t access = -1;
  int32_t barrier = -1;
  uint32_t lanes = 0;
  uint32_t group = 0;  // kProduct: number of its batch; kBulk, kCopy: commits since
  int32_t stmt = 0;    // operation, for the story; not part of the state
  Agents known, fenced;
  bool generic_write() const { return of == Of::kWrite && (by == By::kThread || by == By::kCopy); }
  bool memory() const { return of == Of::kRead || of == Of::kWrite; }
};

struct Frame {
  enum Kind : uint8_t { kIf, kElse, kConcrete, kUndecided, kRepeat } kind = kIf;
  bool saved_may = false;
  uint32_t saved = 0;
  int op = 0;         // its kLoop
  LoopId loop = -1;   // kUndecided
  int64_t index = 0;  // of the step; kRepeat: rounds to go
  int64_t stride = 1;
  AtomId outer = kNoAtom;  // the step around
};

// Batches of products in flight that are told apart.
inline constexpr uint32_t kBatchTags = 16;

struct Batch {
  uint64_t registers = 0;  // groups that its products use
  uint64_t signature = 0;  // of its products: the four warps must agree
};

struct Warp {
  int pc = 0;
  uint32_t mask = kAllLanes;
  bool may = false;  // perhaps not executed
  bool done = false;
  bool arrived = false, released = false;  // at a named barrier
  int8_t answer = -1;                      // to a decision of its own
  std::vector<Frame> frames;
  std::vector<ValueId> slots;
  AtomId step = kNoAtom;     // of the innermost undecided loop
  std::vector<LoopId> left;  // undecided loops left since the steps around
  uint32_t part = 0;         // lanes that know what the second agent knows
  uint32_t cluster_arrived = 0, cluster_over = 0;
  int registers = 0;
  // Products: batches committed, and known to be over; those between; the open one.
  uint32_t committed = 0, over = 0;
  std::vector<Batch> batches;
  Batch open;
  uint64_t touched = ~uint64_t{0};  // since the last wgmma.fence
  // Accesses since the warp last met anybody: empty in states that are compared.
  std::vector<AccessId> reads, writes, operands;
  int read_op = 0, write_op = 0, operand_op = 0;
};

struct Barrier {
  bool ready = false;  // initialised
  int count = 0, pending = 0;
  int64_t expected = 0, issued = 0;
  bool phase = false;
};

struct NamedBarrier {
  int threads = 0, arrived = 0;
};

struct State {
  std::vector<Warp> warps;
  std::vector<Barrier> barriers;
  std::vector<NamedBarrier> named;
  std::vector<Record> records;
  std::vector<ExtentId> initialised;  // by CTA
  std::vector<int> free_registers;    // by CTA
  std::vector<std::pair<AtomId, bool>> decided;
};

// What cannot go on is thrown, and caught by the exploration.
struct Fault {
  Kind kind;
  std::string reason;
  int warp = -1;
  int op = -1;
};
struct Refusal {
  std::string why;
  int op = -1;
};

}  // namespace rooftile::verify::protocol
