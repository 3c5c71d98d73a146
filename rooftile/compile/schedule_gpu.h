// SPDX-License-Identifier: Apache-2.0
// The GPU half of Schedule: who runs what, how data moves, where values live, in what order.
//
// A plain value. Names are labels of the tile program (loads, products, values), tensors (stores),
// loop variables, or roles. An unknown name is RT-P001; a wish that cannot be met is RT-P002 and
// names the precondition that failed. Fields appear here when the lowering obeys them;
// docs/decisions/0001-language.md has the whole design.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace rooftile::gpu {

using Labels = std::vector<std::string>;

// ---- who ----------------------------------------------------------------------------------------

// Warps that run one part of the program. The first role in the list gets the first warps.
struct Role {
  std::string name;
  int groups = 1;  // warpgroups of 128 threads
  int regs = 0;    // a thread, moved by setmaxnreg; 0 leaves the compiled number
  Labels runs;     // loads (the copying role) or products (the computing role)
  bool operator==(const Role&) const = default;
};

// How the groups of the computing role divide the work of a CTA.
enum class Share : uint8_t {
  kRows,   // one tile, split along its first axis
  kTurns,  // whole tiles in turn (ping-pong): one group's epilogue runs beside another's products.
           // Wants a persistent grid and tiles of one number of steps.
};

// ---- where --------------------------------------------------------------------------------------

// CTAs of a cluster run neighbouring tiles along a parallel axis and share the operands that do not
// depend on it.
struct ClusterAxis {
  std::string axis;
  int size = 1;
  bool operator==(const ClusterAxis&) const = default;
};

// A serial loop of sums, shared among the CTAs of a cluster: each walks its run of the steps, the
// partial sums travel through distributed shared memory and are added in the order of the parts, so
// that results do not depend on timing. What follows the loop runs once an element.
struct LoopSplit {
  std::string loop;
  int ways = 2;
  bool operator==(const LoopSplit&) const = default;
};

enum class Grid : uint8_t {
  kCover,       // one CTA a tile
  kPersistent,  // as many CTAs as run at once; each walks tiles by stride
};

// The walk over the parallel space.
struct Order {
  Labels axes;            // slowest first; empty: as written
  std::string band_axis;  // walk in bands along this axis ...
  int band = 0;           // ... of so many tiles, so that tiles in flight share operands in L2
  bool operator==(const Order&) const = default;
};

// ---- how data moves -----------------------------------------------------------------------------

enum class Via : uint8_t {
  kVector,   // loads and stores of the threads that compute
  kTma,      // the copy engine: one thread asks for a box
  kCpAsync,  // cp.async: the copying role's threads bring 16 bytes each; rows may be gathered
};
enum class L2 : uint8_t { kPlain, kEvictFirst, kEvictLast };

struct Copy {
  Via via = Via::kVector;
  L2 l2 = L2::kPlain;
  bool multicast = false;  // the sharing CTAs of the cluster load one slice each, for all
  // stores through shared memory: columns a chunk, chunks in flight; 0: from registers
  int staging_columns = 0, staging_buffers = 1;
  bool operator==(const Copy&) const = default;
};

// One slot holds one step of all the copies, on one barrier. Copies of one shape that different
// loops make in turn share a ring as alternatives: "k_left|k|k_right".
struct Ring {
  Labels copies;
  int depth = 2;
  bool operator==(const Ring&) const = default;
};

// ---- how it is computed -------------------------------------------------------------------------

enum class Unit : uint8_t {
  kWgmma,    // operands in shared memory that the copy engine fills; wants roles
  kMmaSync,  // warps on operands that they staged themselves: any alignment and shape, no roles
  kFma,
};

struct Product {
  Unit unit = Unit::kWgmma;
  bool a_registers = false;  // the left operand is a value in registers, not a copy
  // Operands that were widened from 8-bit floats are multiplied as the bytes they were. Exact
  // products, but tensor cores keep 14 bits of the running sum of 8-bit ones.
  bool bytes = false;
  // The right operand takes the 64-row side of the instruction, the left one its narrow side: for
  // few rows. Everything behind the product is computed transposed. All products of a phase alike.
  bool swap = false;
  int in_flight = 1;  // groups still running when a slot of its operands is given back
  bool operator==(const Product&) const = default;
};

// Programs without products: tiles are strips over the threads of a CTA, 16-byte vectors strided by
// the number of threads.
struct Strips {
  int threads = 256;
  int vector_bytes = 16;  // of the narrowest tensor; also what alignment the fast variant needs
  int held_vectors = 0;   // vectors a thread that loads hold in registers from pass to pass; 0:
                          // every pass reads memory again. Bounds the length of a row when not 0.
  bool operator==(const Strips&) const = default;
};

// ---- when ---------------------------------------------------------------------------------------

struct Loop {
  std::string late;  // this product runs one step late, right behind the first one of the next step
  bool operator==(const Loop&) const = default;
};

// Only the group that holds the token issues products of this loop; it is passed on behind the last
// of them: of the loop, or of each step.
struct Turns {
  std::string loop;
  bool each_step = false;
  bool operator==(const Turns&) const = default;
};

struct Plan {
  std::map<std::string, int64_t> dims;  // dims of this value only; becomes part of the contract
  std::vector<Role> roles;
  Share share = Share::kRows;
  std::vector<ClusterAxis> cluster;
  std::vector<LoopSplit> split;
  Grid grid = Grid::kCover;
  int ctas_per_sm = 1;
  Order order;
  std::map<std::string, Copy> copy;
  std::vector<Ring> rings;
  std::map<std::string, Product> product;
  Strips strips;
  std::map<std::string, Loop> loop;
  std::vector<Turns> turns;
  Labels fast;  // values whose exp2 may flush subnormals (2 ulp otherwise)
  bool dependent_launch = false;
  bool operator==(const Plan&) const = default;

  std::string str() const;
};

}  // namespace rooftile::gpu
