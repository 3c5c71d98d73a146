// SPDX-License-Identifier: Apache-2.0
// The machine: clusters of CTAs, their warps, and what is in flight between them.
//
// A warp is a set of strands: where its lanes diverge into both sides of an `if`, each side goes on
// by itself until the end of the `if`. A strand runs statement after statement until it must wait;
// it then begins the waiting statement again when the scheduler comes back to it. Instructions are
// member functions, in exec_*.cc by family; they return false to wait.
#pragma once

#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "rooftile/emulate/clock.h"
#include "rooftile/emulate/code.h"
#include "rooftile/emulate/fault.h"
#include "rooftile/emulate/global_memory.h"
#include "rooftile/emulate/shared_memory.h"

namespace rooftile::emulate {

// An mbarrier.
struct Barrier {
  int64_t offset = 0;
  int count = 0, pending = 0;        // arrivals of a phase, and those to come in this one
  int64_t tx = 0;                    // bytes to come: expected less landed
  int64_t expected = 0, issued = 0;  // bytes of this phase
  uint32_t phase = 0;                // phases completed
  Clock gathered, done;              // what arrivals of this phase, and of completed ones, hand on
  Agent agent = 0;                   // of the copies that complete its phases
  uint32_t last_issue = 0;           // epoch of the last of them
  Stamp init;
  bool fenced = false;                 // fence.mbarrier_init: the async proxy and peers may use it
  std::vector<Stamp> remote_arrivals;  // not yet known to the CTA's own threads
};

struct NamedBarrier {
  int threads = 0, arrived = 0;
  uint32_t generation = 0;
  Clock gathered, done;
};

struct Frame {
  enum Kind : uint8_t { kIf, kFork, kLoop } kind;
  uint32_t saved;
  int loop = -1;  // into Code::loops
};

struct Strand {
  uint32_t mask = kAllLanes;
  int pc = 0;
  std::vector<Frame> frames;
  int parent = -1, children = 0;
  bool alive = true, blocked = false;
  bool entered = false;     // the waiting statement has arrived at its barrier
  uint32_t generation = 0;  // the one it waits for
};

// cp.async of the lanes of a warp.
struct ThreadCopy {
  int instr = 0, stmt = 0;
  uint32_t id = 0;  // counts the warp's; also the epoch of the stamps
  int64_t element[kLanes], offset[kLanes];
  int source_bytes[kLanes];
  uint32_t lanes = 0;  // still in flight to their thread
  uint32_t group[kLanes];
  // When the thread first told a barrier of it, whichever of several arrivals comes first; 0: not.
  uint32_t told[kLanes] = {};
};

struct Cta;
struct Cluster;

struct Warp {
  Cta* cta = nullptr;
  int index = 0;  // in the CTA
  std::vector<Cell> cells;
  std::vector<uint32_t> valid;  // by register: lanes that hold a value
  std::vector<Strand> strands;
  WarpClock clock;
  bool done = false;
  int elected = 0;
  int weight = 1;  // of the scheduler
  int registers_a_thread = 0;
  // Products: see exec_product.cc.
  uint32_t products_issued = 0, products_known = 0;
  std::vector<uint32_t> group_ends;  // products issued when each group was committed
  uint32_t wgmma_fences = 0;
  std::vector<uint32_t> busy;     // by register: the last product that uses it
  std::vector<uint32_t> touched;  // by register: wgmma_fences + 1 when last touched
  // Copies.
  std::list<ThreadCopy> copies;
  Agent copy_agent = 0;  // of bytes in flight: no clock ever knows of it
  uint32_t num_copies = 0;
  uint32_t copy_groups[kLanes] = {};
  struct Bulk {
    Agent agent = 0;
    uint32_t committed = 0;
    uint32_t stored = 0;      // groups, the one that is open included, up to the last with a store
    uint32_t waited = 0;      // groups whose reads the thread knows to be over
    std::vector<int> unread;  // by group: stores that have not read their source
  };
  std::map<int, Bulk> bulk;  // by lane
  // barrier.cluster: times arrived and waited, by lane.
  uint32_t cluster_arrived[kLanes] = {}, cluster_waited[kLanes] = {};
};

// One wgmma of a warpgroup, from the first warp that issues it until it has run.
struct Product {
  const InstrCode* code = nullptr;
  int stmt = 0;
  uint64_t desc_a = 0, desc_b = 0;
  bool keep = false;
  int warps = 0;  // that have issued it
  Clock clock;    // what all of them know
};
struct Warpgroup {
  std::deque<Product> products;  // not yet run
  uint32_t run = 0;              // how many have run
};

struct Cta {
  Cluster* cluster = nullptr;
  int rank = 0;
  int64_t x = 0, y = 0, z = 0;
  std::unique_ptr<SharedMemory> shared;
  std::map<int64_t, Barrier> barriers;  // by offset
  std::map<int, NamedBarrier> named;
  std::vector<std::unique_ptr<Warp>> warps;
  std::vector<Warpgroup> groups;
  int running = 0;         // warps
  int free_registers = 0;  // those of ended warps do not come back
};

// An asynchronous copy, in pieces that land one by one.
struct Copy {
  enum Kind : uint8_t { kTensorLoad, kBulkLoad, kStoreAsync, kTensorStore, kCopyArrive } kind;
  Warp* warp = nullptr;  // who issued it
  int lane = 0;
  const InstrCode* code = nullptr;
  int stmt = 0;
  std::vector<int64_t> coords;   // kTensorLoad, kTensorStore
  int64_t element = 0;           // kBulkLoad
  uint32_t address = 0;          // shared, without a rank
  int64_t barrier = 0;           // offset
  std::vector<int> targets;      // ranks of the CTAs that get the bytes
  std::vector<uint32_t> phases;  // of their barriers, at issue
  uint32_t words[4] = {};        // kStoreAsync
  uint32_t group = 0;            // kTensorStore
  Stamp stamp;
  struct Piece {
    int target;            // index into targets
    int64_t first, count;  // rows of a box, or bytes
  };
  std::vector<Piece> pieces;  // to land, last first
  uint32_t last_copy = 0;     // kCopyArrive: the last cp.async that it waits for
  Clock handed;               // kCopyArrive
};

struct Cluster {
  Cluster(int size, int warps) : agents(size, warps) {}
  Agents agents;
  int id = 0;
  std::vector<std::unique_ptr<Cta>> ctas;
  std::list<Copy> copies;
  Agent earlier_grids = 0;  // known to be over past griddepcontrol.wait
  // barrier.cluster
  uint32_t generation = 0;
  Clock gathered, done;
  int running = 0;  // warps
};

class Machine {
 public:
  Machine(const Code& code, GlobalMemory& memory, const Launch& launch, Stats& stats);
  Status run();

 private:
  // An instruction being executed.
  struct At {
    Warp& warp;
    Strand& strand;
    const InstrCode& code;
    const lanes::Instr& instr;
    uint32_t mask;  // active lanes whose guard holds
    int stmt;
    Cta& cta() const { return *warp.cta; }
    Cluster& cluster() const { return *warp.cta->cluster; }
  };

  // ---- scheduling (machine.cc)
  void start_cluster(int64_t id);
  void start_warp(Cta& cta, int index);
  bool turn();  // false: nothing can go on
  bool advance(Warp& warp, int statements);
  bool advance_strand(Warp& warp, size_t strand, int& budget);
  void retire_strand(Warp& warp, size_t strand);
  void finish_warp(Warp& warp);
  void finish_cluster(Cluster& cluster);
  bool land_something();
  uint32_t random(uint32_t below) { return static_cast<uint32_t>(rng_() % below); }
  bool chance(int percent) { return static_cast<int>(rng_() % 100) < percent; }

  // ---- control (machine.cc)
  void control(Warp& warp, size_t strand, const Op& op);
  void branch(Warp& warp, size_t strand, const Op& op);
  uint32_t condition(const Warp& warp, const Strand& strand, const Op& op);
  void assign(Warp& warp, const Strand& strand, const Op& op);
  void touch(Warp& warp, CellId id, bool write);

  // ---- registers
  const Cell& in(const Warp& warp, CellId id) const {
    return id < num_constants_ ? code_.constants[static_cast<size_t>(id)]
                               : warp.cells[static_cast<size_t>(id - num_constants_)];
  }
  uint32_t valid(const Warp& warp, CellId id) const {
    return id < num_constants_ ? kAllLanes : warp.valid[static_cast<size_t>(id - num_constants_)];
  }
  Cell& out(Warp& warp, CellId id) const {
    return warp.cells[static_cast<size_t>(id - num_constants_)];
  }
  uint32_t& valid_out(Warp& warp, CellId id) const {
    return warp.valid[static_cast<size_t>(id - num_constants_)];
  }
  // Argument `index` of the instruction; every active lane must have a value.
  const Cell& arg(const At& at, size_t index) const;
  uint32_t uniform_arg(const At& at, size_t index) const;  // the same in all active lanes
  void need(const At& at, CellId id, const char* what) const;
  void set_result(const At& at, size_t index, int lane, uint64_t bits) const;
  void results_written(const At& at) const;  // marks them as holding values

  // ---- instructions
  bool execute(Warp& warp, size_t strand, const Op& op);
  bool dispatch(const At& at);
  void check_convergence(const At& at);

  bool exec_global(const At& at);  // exec_memory.cc
  void load_global(const At& at, int lane);
  void store_global(const At& at, int lane);
  void atomic_global(const At& at, int lane);
  bool wait_global(const At& at);
  int64_t element_of(const At& at, int lane, int64_t width) const;
  void global_read(const At& at, const Tensor& t, int64_t element, int64_t count, int lane);
  void global_write(const At& at, Tensor& t, int64_t element, int64_t count, int lane, Stamp stamp);
  void check_dependency(const At& at, const Tensor& t, bool write, int lane) const;
  bool exec_shared(const At& at);
  void load_shared(const At& at);
  void deliver(const At& at, int lane, const uint8_t* from);
  void store_shared(const At& at, int lane);
  void atomic_shared(const At& at, int lane);
  bool exec_matrix(const At& at);       // ldmatrix, stmatrix
  bool exec_thread_copy(const At& at);  // cp.async and its waits
  void copy_async(const At& at);
  void copy_arrive(const At& at, int lane);
  void land(Warp& warp, ThreadCopy& copy, uint32_t lanes, uint32_t epoch);
  int64_t shared_range(const At& at, uint32_t address, int64_t bytes, int align, int lane) const;
  void check_shared_range(int64_t offset, int64_t bytes, int alloc, int lane) const;
  void shared_read(const At& at, Cta& cta, int64_t offset, int64_t bytes, int lane, bool async);
  void shared_write(const At& at, Cta& cta, int64_t offset, int64_t bytes, int lane, Stamp stamp,
                    bool async);
  [[noreturn]] void conflict(const Cta& cta, const Conflict& c, bool is_write, int lane) const;

  bool exec_tensor_copy(const At& at);  // exec_copy.cc
  void tensor_load(const At& at, int lane);
  void tensor_store(const At& at, int lane);
  void bulk_load(const At& at, int lane);
  bool bulk_group(const At& at, int lane);
  void store_async(const At& at, int lane);
  void bytes_issued(Cta& cta, Barrier& barrier, int64_t bytes);
  Barrier& copy_barrier(const At& at, Cta& cta, int64_t offset, int lane, bool remote);
  Warp::Bulk& bulk_of(const At& at, int lane);
  void land_piece(Copy& copy);
  void land_rows(const Copy& copy, const Copy::Piece& piece);
  void bytes_landed(const Copy& copy, const Copy::Piece& piece, int64_t bytes);

  bool exec_barrier(const At& at);  // exec_barrier.cc
  void barrier_init(const At& at, int lane);
  void barrier_arrive(const At& at);
  bool barrier_wait(const At& at);
  Barrier& barrier_at(const At& at, Cta& cta, int64_t address, int lane, bool remote);
  void arrive(Cta& cta, Barrier& barrier, int arrivals, const Clock& handed);
  void complete_if_due(Cta& cta, Barrier& barrier);
  bool exec_meeting(const At& at);
  bool named_sync(const At& at, int id, int threads, bool wait);
  bool cluster_wait(const At& at);
  void cluster_arrive(const At& at, bool release);
  void cluster_complete_if_due(Cluster& cluster);

  bool exec_lanes(const At& at);  // exec_warp.cc
  bool exec_registers(const At& at);

  bool exec_product(const At& at);  // exec_product.cc
  void issue_product(const At& at);
  void check_operands(const At& at, const Product& product);
  bool wait_products(const At& at);
  void run_product(Cta& cta, int group);
  void exec_mma(const At& at);

  // ---- reports (report.cc)
  Diag report(const Fault& fault, const Warp* warp, const Strand* strand, int stmt) const;
  Diag deadlock() const;
  std::string wait_text(const Warp& warp, const Strand& strand) const;
  std::string barrier_text(const Cta& cta, const Barrier& barrier) const;
  std::string who_text(const Cluster& cluster, const Stamp& stamp) const;
  std::string address_text(int64_t offset) const;
  const lanes::Stmt& stmt_of(const Stamp& stamp) const {
    return *code_.stmts[static_cast<size_t>(stamp.pc()) % code_.stmts.size()];
  }
  std::string loops_text(const Warp& warp, const Strand& strand) const;

  const Code& code_;
  GlobalMemory& memory_;
  const Launch& launch_;
  Stats& stats_;
  const int num_constants_;
  const int warps_a_cta_;
  std::mt19937_64 rng_;
  int landing_percent_ = 30;  // chance that something lands after a turn
  int longest_turn_ = 16;
  std::vector<int64_t> waiting_;  // clusters to start, last first
  std::list<std::unique_ptr<Cluster>> resident_;
  std::vector<Warp*> runnable_;  // warps of resident clusters that are not done
  // What a fault thrown now is about.
  const Warp* blamed_warp_ = nullptr;
  const Strand* blamed_strand_ = nullptr;
  int blamed_stmt_ = 0;
};

}  // namespace rooftile::emulate
