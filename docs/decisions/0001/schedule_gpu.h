// SPDX-License-Identifier: Apache-2.0
// The GPU half of Schedule as designed, compiled with the page 0001-language.md that explains it;
// what the lowering obeys so far is rooftile/compile/schedule_gpu.h. A plain value: no pointers, no
// functions, no order of evaluation. Strings are labels of the tile program (of loads and products;
// a store is called by its tensor, a loop by its variable, a phase by its first axis) or names of
// roles. An unknown one is RT-P001; a wish that cannot be met is RT-P002 and names the precondition
// that failed.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "rooftile/base/expr.h"

namespace rooftile::gpu_design {

using Labels = std::vector<std::string>;

// ---- who: warps and their registers
// --------------------------------------------------------------------------

struct Role {
  std::string name;
  int groups = 1;      // warpgroups of four warps
  int warps = 4;       // of each group, how many of them work
  int regs = 0;        // a thread; moved by setmaxnreg; 0 leaves the compiled number
  Labels runs;         // what is placed here; a node without a label goes where its users are
  std::string beside;  // uses the idle warps of that role's group instead of a group of its own
  std::string takes_empty;  // runs the tiles in which this loop has no step (rows that see no key)
};

// How the groups of a role divide the work of a CTA.
enum class Share : uint8_t {
  kRows,   // one tile, split along its first axis
  kTurns,  // whole tiles in turn
};

// ---- where: CTAs, clusters, and the order in which tiles are walked
// ------------------------------------------

struct ClusterAxis {
  std::string name;  // a parallel axis: its CTAs run neighbouring tiles, and share operands that do
                     // not depend on it; a label: that tile itself is spread over the CTAs
  int size = 1;
};

// A serial loop shared among several workers, each with a part of its range; the carried values are
// joined at the end in the order of the parts. Needs a loop whose states join (sums, products,
// online softmax: derived; else `join_of`).
struct LoopSplit {
  std::string loop;
  enum Across : uint8_t { kWarps, kGroups, kCluster, kGrid } across = kCluster;
  int ways =
      2;  // kGrid: 0 = stream-K, the steps of all tiles of the last waves cut into equal parts
  int stream_waves = 1;      // stream-K: how many of the last waves; earlier ones stay whole
  bool round_robin = false;  // single steps in turn, not runs
};

struct Grid {
  enum Kind : uint8_t { kCover, kPersistent, kPieces } kind = kCover;
  int tiles_per_cta = 1;    // kCover: consecutive tiles of one CTA
  int ctas_per_sm = 1;      // bounds the registers, and is promised to the hardware
  int max_ctas_per_sm = 0;  // a cap, made with unused shared memory; 0 none
  Expr owner;  // kPieces: the piece that runs a tile, over the parallel axes; one CTA a piece
};

struct Order {
  Labels axes;            // slowest first; empty: as written
  std::string band_axis;  // walk in bands along this axis ...
  int band = 0;  // ... of so many tiles, so that what is in flight shares rows and columns in L2
  std::string heaviest_first;  // axis whose tiles are sorted by falling trip count of their loop
  std::string section_axis;    // heads walked together ...
  int64_t section_bytes = 0;   // ... as long as what they read fits these bytes (part of L2)
  enum Next : uint8_t { kStride, kCounter } next = kStride;  // kCounter: first come first served
  int publish = 0;  // slots of the ring by which the loading role tells the others its tile (0:
                    // each computes)
  int bind_at_most = 0;  // bind the next tile when so few loop steps are left
  Labels ragged;         // axes whose dead tiles (a `when` over them is false) are never handed out
};

// ---- how data moves
// ------------------------------------------------------------------------------------------

enum class Via : uint8_t { kVector, kCpAsync, kTma, kBulk, kStAsync };
enum class L2 : uint8_t { kPlain, kEvictFirst, kEvictLast };
enum class Multicast : uint8_t {
  kNone,
  kSlices,  // every CTA of the sharing axis loads its part of the box for all
  kWhole,   // the CTAs load whole boxes for all, in turn
};
// The waits that the first copies of a kernel may go ahead of; each includes the ones before it.
enum class Ahead : uint8_t { kNothing, kCtaBarrier, kClusterBarrier, kDependency };
enum class When : uint8_t { kEarly, kAtUse };

struct Copy {
  Via via = Via::kVector;
  L2 l2 = L2::kPlain;
  bool no_l1 = false;
  int l2_prefetch_bytes = 0;  // promotion in the tensor map
  Multicast multicast = Multicast::kNone;
  Ahead ahead_of = Ahead::kNothing;
  When when =
      When::kEarly;  // kAtUse: fetched by the consumer of the value, after what comes before it
  int distance = 0;  // without a ring: steps of its loop (or tiles) fetched ahead, in registers
  bool prefetch_only = false;  // also ask L2 for it as soon as the address is known
  // stores
  int staging_columns = 0;  // through shared memory in chunks of so many columns; 0: from registers
  int staging_buffers = 1;
  bool by_warp = false;  // a warp stages and stores alone; else its warpgroup together
  bool quad_transpose =
      false;  // 4x4 words inside four lanes, so that a lane owns 16 contiguous bytes
};

struct Ring {
  Labels copies;  // one slot holds one step of all of them, on one barrier
  int depth = 2;
  int steps = 1;  // loop steps in a slot
};

// Where a value lives between its producer and its last use. Default: registers.
enum class Home : uint8_t { kRegisters, kPacked, kShared, kCluster, kReread, kRecompute };

// ---- how it is computed
// --------------------------------------------------------------------------------------

enum class Unit : uint8_t { kWgmma, kMmaSync, kFma };
enum class From : uint8_t {
  kShared,
  kRegisters,
  kGlobal
};  // kGlobal: straight into operand registers

struct Product {
  Unit unit = Unit::kWgmma;
  From a = From::kShared, b = From::kShared;
  bool swap = false;  // the right operand takes the M side of the instruction; the result is
                      // transposed at its store
  int in_flight = 1;  // groups still running when a slot of its operands is given back
  bool permute_k =
      false;  // the contraction index may be permuted, alike in both operands, to suit the loads
  int promote_every =
      0;  // fp8: k elements summed in the tensor core before they are added in fp32 registers
  std::string
      twin;  // a product of the same left operand, joined into one instruction of twice the width
};

enum class Exchange : uint8_t { kShuffle, kRedux, kShared, kStAsync };

struct Reduction {
  Exchange warp = Exchange::kShuffle, cta = Exchange::kShared, cluster = Exchange::kStAsync;
  int threads = 0;  // of a CTA that share a row; 0: all
  std::string
      with;  // another reduction that travels in the same message (a rewrite has made the pair)
  bool integer_keys = false;  // maxima of floats as order-preserving integers (redux)
};

// A rank-1 or row tile over the lanes: element = ((v * threads) + t) * vector + e, the CTAs of a
// cluster side by side.
struct Spread {
  int threads = 128;
  int vectors = 1;  // 16-byte vectors a thread
  enum Tail : uint8_t { kExact, kLastRagged, kGeneral } tail = kGeneral;
};

// ---- when: the order inside a loop
// ---------------------------------------------------------------------------

// One event of a loop step. The list of a loop must be a linear extension of its data dependences.
struct Event {
  enum Kind : uint8_t { kIssue, kWait, kAcquire, kRelease, kCompute } kind = kCompute;
  std::string label;
  bool operator==(const Event&) const = default;
};
inline Event issue(std::string l) {
  return {Event::kIssue, std::move(l)};
}  // start an asynchronous product
inline Event wait(std::string l) { return {Event::kWait, std::move(l)}; }  // its result may be read
inline Event acquire(std::string l) {
  return {Event::kAcquire, std::move(l)};
}  // the ring slot of a copy has arrived
inline Event release(std::string l) {
  return {Event::kRelease, std::move(l)};
}  // and may be overwritten
inline Event compute(std::string l) {
  return {Event::kCompute, std::move(l)};
}  // the value of that label

struct LoopPlan {
  std::map<std::string, int>
      shift;  // label -> steps early: {"qk", 1} issues QK(j+1) before the softmax of j
  std::vector<Event> sequence;  // one step; empty: the compiler's own order
  Expr cut;  // the loop is cut into two before this step; 0: not cut. `steps` is its trip count
  Labels gone_after_cut;  // masks that must be proved constant in the second part (else RT-P002)
  int unroll = 1;         // 2 with a carried register tile: the copies swap roles, nothing is moved
  bool carry = false;  // the first step of the next tile is issued with the last step of this one
  std::string
      stop_when;  // label of a rank-0 bool: from then on the step must be proved the identity
  bool outline = false;  // a function of its own
};

// A token passed round the groups of a role: only its holder issues between the two events.
struct Turns {
  std::string role, from, to;
};

// ---- between phases and kernels
// ------------------------------------------------------------------------------

enum class Join : uint8_t {
  kGridBarrier,  // all CTAs resident
  kTicket,       // the CTA that finishes the last tile a point depends on runs that point
  kLaunch,       // a kernel of its own
  kEverywhere,   // a small phase: every CTA runs all of it for itself, its workspaces in shared
                 // memory
};

struct Launch {
  bool dependent = false;  // programmatic dependent launch
  Labels wait_before;  // first node that must wait for the kernel before; empty: everything waits
  std::string let_next_after;      // loads of this label are all issued: the next kernel may start
  std::vector<std::string> ptxas;  // extra options
};

// ---- the value
// -----------------------------------------------------------------------------------------------

// A rewrite of the tile program, applied in order before placing; each has its obligations (see the
// page).
struct Rewrite {
  std::string name;
  Labels labels;
  std::map<std::string, double> numbers;
};

struct Schedule {
  std::string name;
  std::map<std::string, int64_t> tile;
  std::vector<Rewrite> rewrites;

  std::vector<Role> roles;
  Share share = Share::kRows;
  std::vector<ClusterAxis> cluster;
  std::vector<LoopSplit> split;
  Grid grid;
  Order order;

  std::map<std::string, Copy> copy;  // loads by label, stores by tensor
  std::vector<Ring> rings;
  std::map<std::string, Home> home;
  std::map<std::string, Product> product;
  std::map<std::string, Spread> spread;
  std::map<std::string, Reduction> reduction;
  std::map<std::string, std::string>
      lazy;  // condition -> "warp", "cta": what only its selects use runs after a vote
  std::map<std::string, int>
      storage_bits;  // workspace -> bits of an element, if its values are proved to fit

  std::map<std::string, LoopPlan> loop;
  std::vector<Turns> turns;
  std::map<std::string, Join> join;  // phase -> how it follows the one before
  Launch launch;
};

}  // namespace rooftile::gpu_design
