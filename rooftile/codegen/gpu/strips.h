// SPDX-License-Identifier: Apache-2.0
// Strips: one phase of a tile program as one kernel in which every thread of a CTA does the same.
//
// One CTA runs one parallel index. Values whose extents are all 1 are registers that every thread
// computes alike. Other values are computed element by element where they are used, in *passes*:
// loops of all threads over the elements of a tile. A phase with products works on tiles of
// bounded size instead, whose elements have fixed places in the registers of the threads
// (fragments) and, as operands, in shared memory.
//
// Synchronisation follows fixed rules: a barrier stands between accesses of different threads to
// the same memory, and inside every reduction. All control flow around barriers is uniform.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rooftile/codegen/gpu/element_ops.h"
#include "rooftile/codegen/gpu/index_lowering.h"
#include "rooftile/codegen/gpu/lower.h"
#include "rooftile/codegen/gpu/strips_facts.h"

namespace rooftile::codegen {

// The elements of a run along the last axis; one entry if they are all the same.
using Vec = std::vector<lanes::Val>;

// Which elements of a tile are meant: `width` of them along the last axis, the first at `at`.
struct Point {
  std::vector<lanes::Val> at;  // one an axis
  int width = 1;
  lanes::Val guard;           // memory is touched only where it holds; absent: always
  lanes::Val held;            // streamed: which of the thread's held vectors this is
  lanes::Val row_slot, slot;  // fragments: position in registers, of the row and the element
};

class Strips {
 public:
  // `vectors`: the variant with vector accesses, else element by element.
  Strips(const ir::Program& program, const ir::Node& phase, const gpu::Plan& plan, bool vectors);
  Result<lanes::Program> lower(const std::string& name);
  const GpuNeeds& needs() const { return needs_; }
  const std::string& listing() const { return listing_; }

 private:
  // ---- writing (strips.cc)
  lanes::Program interface(const std::string& name) const;
  void open_phase();
  template <class Fill>
  lanes::Body scoped(Fill&& fill) {
    lanes::Body body;
    std::swap(body, body_);
    push_scope();
    fill();
    pop_scope();
    std::swap(body, body_);
    return body;
  }
  void push_scope();
  void pop_scope();
  void emit(lanes::Stmt stmt) { body_.push_back(std::move(stmt)); }
  lanes::Val name_value(const std::string& hint, const lanes::Val& value);
  lanes::Val declare(lanes::Ty type, const std::string& hint, const lanes::Val& initial = {});
  std::string declare_array(lanes::Ty type, const std::string& hint, int count);
  void set(const lanes::Val& variable, const lanes::Val& value);
  lanes::Val number(const Expr& expr);  // i32 or i64, once a scope
  lanes::Val size(const Expr& expr);    // i32
  void fail(const ir::Node& node, std::string message, std::string found, std::string expected,
            std::string fix = "");
  void note(const std::string& line);
  std::string hint_of(const ir::Node& node) const;
  const ir::Node& node(ValueId id) const { return program_.node(id); }
  lanes::Val tid() const { return lanes::special(lanes::Special::kTid); }
  lanes::Val lane() const { return lanes::special(lanes::Special::kLane); }
  lanes::Val warp() const { return lanes::special(lanes::Special::kWarp); }
  int warps() const { return threads_ / 32; }

  // ---- values (strips_values.cc)
  Vec eval(ValueId id, const Point& at);
  lanes::Val scalar(ValueId id);  // of a value whose extents are all 1
  Vec compute(const ir::Node& n, const Point& at);
  Vec map_operands(const ir::Node& n, const Point& at);
  Vec iota(const ir::Node& n, const Point& at);
  Vec transposed(const ir::Node& n, const Point& at);
  Vec philox(const ir::Node& n, const Point& at);
  Vec serial_reduce(const ir::Node& n, const Point& at);
  Point clipped(const ir::Node& n, const Point& at) const;
  Point point_of(const std::vector<Expr>& shape, const std::vector<lanes::Val>& coordinates) const;
  std::string memo_key(ValueId id, const Point& at) const;
  const Vec* remembered(const std::string& key) const;
  void remember(ValueId id, const Point& at, Vec value);
  int cost_of(ValueId id) const;
  bool worth_a_name(const ir::Node& n) const;

  // ---- memory (strips_memory.cc)
  Vec load(const ir::Node& n, const Point& at);
  void store(const ir::Node& n, const Point& at, const Vec& values);
  lanes::Instr access(const ir::Node& n, lanes::Ins ins, const Point& at, int element, int width);
  void load_run(const ir::Node& n, const Point& at, int element, int width, const std::string& raw,
                const lanes::Val& first);
  bool vector_access(const ir::Node& n, int width, std::vector<Expr>* conditions) const;
  void reach_loads(ValueId id, std::set<ValueId>* out) const;
  void prepare(const ir::Node& n);  // what the region's addresses need, outside of loops
  void check_fresh(const ir::Node& load);
  void sync();
  // Barriers for global memory: before what `loads` and `stores` do, in loops like `mapping`.
  void order_memory(const std::set<ValueId>& loads, const std::vector<ValueId>& stores,
                    const std::string& mapping);
  void note_accesses(const std::set<ValueId>& loads, const std::vector<ValueId>& stores,
                     const std::string& mapping);

  // ---- control (strips_blocks.cc)
  void block(const ir::Block& block);
  void loop(const ir::Node& n);
  void when(const ir::Node& n);
  bool breaks_run(const ir::Node& n, const std::vector<ValueId>& run) const;
  void open_loop(const ir::Node& n);       // registers of what it carries
  void next_iteration(const ir::Node& n);  // the yielded values become the carried ones
  bool crosses_itself(const ir::Block& block) const;

  // ---- runs of nodes without control flow, streamed (strips_passes.cc)
  struct Item {
    ValueId id = -1;
    int level = 0;
    std::vector<Expr> shape;  // of what is walked
  };
  struct Reduction {
    ValueId id = -1;
    ir::ReduceKind kind = ir::ReduceKind::kSum;
    DType dtype = DType::kF32;
    lanes::Val value, position;  // registers; position: arg max only
  };
  // All that walks one shape in a run: its passes differ by level only.
  struct Strip {
    std::vector<Expr> extents;
    std::vector<Item> items;
    int width = 1;
    bool scans = false;
  };
  // What stays in registers from pass to pass over one shape.
  struct Holding {
    int vectors = 0;  // a thread
    std::map<ValueId, std::string> raw;
    int width = 1;
  };
  void run(const std::vector<ValueId>& nodes);
  std::vector<Item> items_of(const std::vector<ValueId>& nodes);
  int level_of(ValueId id) const;
  void delay_stores(std::vector<Item>* items) const;
  std::vector<Strip> strips_of(const std::vector<Item>& items);
  void choose_width(Strip* strip);
  std::set<ValueId> loads_of(const Item& item) const;
  bool has_scan(ValueId id) const;
  void hold(const Strip& strip);
  bool fits_held(const Strip& strip);
  void load_held(const Strip& strip, const Holding& holding);
  void pin_held();
  void scalars(const std::vector<ValueId>& nodes, int level);
  void scalar_stores(const std::vector<Item>& items, int level);
  void pass(const Strip& strip, int level, std::vector<Reduction>* reductions);
  void iterate(const Strip& strip, const std::vector<Item>& items,
               std::vector<Reduction>* reductions);
  void elements(const Strip& strip, const std::vector<Item>& items, const lanes::Val& vector,
                Point base, std::vector<Reduction>* reductions);
  lanes::Val vector_count(const Strip& strip);
  std::vector<lanes::Val> coordinates(const Strip& strip, const lanes::Val& vector);
  void note_pass(const Strip& strip, const std::vector<Item>& items, int level);

  // ---- all threads together (strips_joins.cc)
  lanes::Val shuffled(lanes::Ins ins, const lanes::Val& value, const lanes::Val& arg);
  void accumulate(Reduction* r, const lanes::Val& value, const lanes::Val& position,
                  const lanes::Val& guard);
  void combine_into(Reduction* r, const lanes::Val& value, const lanes::Val& position);
  Reduction start(ValueId id);
  void join(std::vector<Reduction>* reductions);
  void join_warp(Reduction* r, int width);
  Vec scan(const ir::Node& n, const Point& at, const Vec& x);
  lanes::Val slot(int which, const lanes::Val& warp_index) const;
  void next_bank();
  void load_shared(const lanes::Val& target, const lanes::Val& address,
                   const lanes::Val& guard = {});
  void store_shared(const lanes::Val& value, const lanes::Val& address,
                    const lanes::Val& guard = {});

  // ---- tiles of bounded size (strips_tiles.cc, strips_products.cc, strips_mma.cc)
  struct Space {
    int rows = 1, columns = 1;  // upper bounds
    int high = 1, wide = 1;     // rows and columns of a thread
    lanes::Val row_extent, column_extent;
  };
  struct Fragment {
    std::string name;
    lanes::Ty type = lanes::Ty::kF32;
    bool row = false;  // [R, 1]: one register a row, alike in all threads of the row
    int count = 1;
  };
  struct Operand {
    int64_t offset = 0;     // bytes, in the arena
    int rows = 0;           // of the other axis, padded to what threads read
    int depth = 0;          // k, padded to a step; beyond the tile both operands hold zeros
    int pitch = 0;          // elements from row to row
    int element_bytes = 4;  // products by FMA read words
    bool k_fast = true;     // rows along k; else across it
    std::string fragment;   // a left operand that stays in registers: their name
    int64_t bytes() const { return int64_t{element_bytes} * (k_fast ? rows : depth) * pitch; }
  };
  void choose_grid_of_threads(const ir::Block& block);
  void tile_node(const ir::Node& n);
  void tile_value(const ir::Node& n);
  // Where the i-th row, the j-th column of a thread lie, and the register of the element.
  lanes::Val row_at(const lanes::Val& i) const;
  lanes::Val column_at(const lanes::Val& j) const;
  lanes::Val slot_of(const lanes::Val& i, const lanes::Val& j, const Space& space) const;
  bool space_of(const ir::Node& n, const std::vector<Expr>& shape, Space* out);
  using EachElement = std::function<void(const Point&)>;
  using EachRow = std::function<void(const lanes::Val& row_slot)>;
  void for_tile(const Space& space, const std::vector<Expr>& shape, const EachElement& each,
                const EachRow& before = {}, const EachRow& after = {});
  void prepare_tile(const std::vector<ValueId>& values, const std::vector<ValueId>& stores,
                    const std::string& mapping);
  Fragment make_fragment(const ir::Node& n, const Space& space);
  void fill_fragment(const Fragment& f, ValueId from, const Space& space);
  void row_reduce(const ir::Node& n);
  void tile_scalar_reduce(const ir::Node& n);
  void tile_store(const ir::Node& n);

  // Products on operands in shared memory, k contiguous, 4 bytes an element.
  struct Role {
    bool left = false, right = false;
  };
  void roles_of(ValueId id, bool flipped, std::map<int, Role>* by_k_axis) const;
  bool has_fragment(ValueId id) const;
  void stage(ValueId id);
  void stage_flat(const ir::Node& n, int k_axis, const Operand& to);
  void stage_tile(const ir::Node& n, int k_axis, const Operand& to, const Space& space);
  void zero_operand(const Operand& to, lanes::Ty type);
  int vector_for_staging(const ir::Node& n, int fast_axis, const Operand& to, bool fast_is_k);
  void product(const ir::Node& n);
  void multiply(const ir::Node& n, const Fragment& sum, const Space& space, const Operand& a,
                const Operand& b, const lanes::Val& depth);
  lanes::Val operand_address(const Operand& operand, const lanes::Val& outer,
                             const lanes::Val& k) const;

  // Products by tensor cores (strips_mma.cc).
  //
  // An operand on its way through registers to shared memory.
  struct Flight {
    ValueId id = -1;
    int k_axis = 0;
    Operand to;
    std::string raw;        // its registers, u32
    bool k_is_fast = true;  // in memory
    int width = 1;          // elements of a vector
    int words = 1;          // registers of a vector
    int fast = 1;           // vectors of a row
    int total = 1;          // vectors of the operand
    int items = 1;          // vectors of a thread
    bool lands = false;     // the step being written needs it
    bool ahead = false;     // starts a step ahead of where it is needed
  };
  bool wants_tensor_cores();
  void choose_grid_of_warps(const ir::Block& block);
  Operand mma_operand(const ir::Node& n, int k_axis, const Role& role, const Space& space) const;
  lanes::Val mma_address(const Operand& operand, const lanes::Val& outer,
                         const lanes::Val& k) const;
  lanes::Val operand_element(const ir::Node& n, const Point& at);
  Flight flight_of(const ir::Node& n, int k_axis, const Operand& to);
  lanes::Val place_of(const Flight& f, const lanes::Val& s, lanes::Val* outer, lanes::Val* k);
  void take_off(const Flight& f, const ir::Node& n, const lanes::Val& first, int count);
  void land(const Flight& f, const lanes::Val& first, int count);
  bool fits_in_air(const Flight& f) const;
  void stage_flight(const ir::Node& n, int k_axis, const Operand& to);
  void land_all();
  std::vector<ValueId> loads_ahead(const ir::Node& loop) const;
  ir::Node at_step(const ir::Node& n, const ir::Node& loop, const Expr& value) const;
  void start_ahead(const ir::Node& loop);
  void start_next_step();
  void fly_ahead(const Expr& step);
  bool keeps_fragment(const ir::Node& n, int k_axis, const Role& role, const Operand& to) const;
  void for_pairs(
      const Space& space,
      const std::function<void(const lanes::Val&, const lanes::Val&, Point, Point)>& each);
  void pack_fragment(const ir::Node& n, Operand& to, const Space& space);
  void spill_fragment(const ir::Node& n, int k_axis, const Operand& to, const Space& space);
  void stage_mma(const ir::Node& n, int k_axis, const Role& role, const Space& space);
  lanes::Val lane_address(const Operand& operand, const lanes::Val& first_outer, bool left,
                          int apart);
  void multiply_mma(const ir::Node& n, const Fragment& sum, const Space& space, const Operand& a,
                    const Operand& b);

  int64_t allocate(int64_t bytes);
  void touch_operand(const Operand& operand, bool write);
  void touch_shared(int64_t begin, int64_t end, bool write);
  ValueId strip_transpose(ValueId id, bool* flipped) const;

  const ir::Program& program_;
  const ir::Node& phase_;
  const gpu::Plan& plan_;
  const bool vectors_;
  const int threads_;
  const bool tiled_;  // a phase with products
  Uses uses_;
  IndexLowering index_;
  Multiples multiples_;
  GpuNeeds needs_;
  std::string listing_;
  int depth_ = 0;
  Status error_;

  lanes::Body body_;
  std::vector<std::map<std::string, Vec>> memo_;
  std::vector<std::map<std::string, lanes::Val>> numbers_;

  std::map<ValueId, int> levels_;                      // of the run being written
  std::map<std::string, Holding> holdings_;            // by shape, of the run being written
  std::set<std::pair<ValueId, int>> vector_accesses_;  // node, width
  bool joining_ = false;                               // a pass whose iterations all threads make
  std::map<ValueId, lanes::Val> scan_carry_;

  // Accesses since the last barrier that all threads passed.
  struct Touched {
    ValueId node;
    std::string mapping;
  };
  std::vector<Touched> reads_, writes_;
  std::vector<ValueId> stored_;  // in the order written
  struct SharedTouched {
    int64_t begin, end;
    bool write;
  };
  std::vector<SharedTouched> shared_touched_;

  bool mma_ = false;  // products by tensor cores: threads own places of their fragments
  std::vector<Flight> in_air_;
  const ir::Node* loop_ahead_ = nullptr;  // the loop being written whose loads start a step ahead
  // Threads that share a row, tx of tid = ty * columns + tx. By tensor cores, ty and tx are the
  // first row and column of the thread.
  int columns_of_threads_ = 16;
  std::map<ValueId, Fragment> fragments_;
  std::map<std::pair<ValueId, int>, Fragment> carried_;  // (loop, index)
  lanes::Val tx_, ty_;
  std::map<std::pair<ValueId, int>, Operand> operands_;  // value, axis of k
  int64_t arena_top_ = 0, arena_bytes_ = 0;
  std::map<ValueId, std::vector<lanes::Val>> loop_registers_;  // absent where a fragment is carried
  lanes::Val bank_;  // which half of the slots the next join uses
  bool uses_slots_ = false;
};

}  // namespace rooftile::codegen
