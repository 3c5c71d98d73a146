// SPDX-License-Identifier: Apache-2.0
// L1 to L2, the fragment way: a placed phase as the program of a thread.
//
// Warps 0..3 are the copying role: one elected thread of warp 0 drives the copy engine, and where
// the schedule copies by threads (fragment_gather.cc) all of them walk. The groups of 128 threads
// behind them compute. Every ring slot has two mbarriers:
//   full   one arrival, by the copying thread when it announces the slot's bytes, and the bytes;
//          one arrival of each thread that copies, when its pieces are there
//   empty  one arrival a computing group (of every CTA that shares the ring's copies), once the
//          products that read the slot are known to be over. It orders no data, so it is relaxed.
// Both roles walk the same tiles, loops and conditions, so fills and acquisitions pair up by
// construction; slots are taken in order, the phase flips when a ring starts over.
//
// A thread of a computing group holds, of each 64-row block, rows r and r + 8 (r = 16 * warp +
// lane / 4) and columns 8 j + 2 (lane % 4) + {0, 1}: the accumulator fragment of wgmma. Register
// (mb * N / 8 + j) * 4 + q is row half q / 2, column q % 2 of column group j of row block mb.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rooftile/base/diag.h"
#include "rooftile/codegen/gpu/index_lowering.h"
#include "rooftile/codegen/gpu/placed.h"

namespace rooftile::codegen {

class FragmentLowering {
 public:
  FragmentLowering(const ir::Program& program, const Placed& placed, std::string name);
  Result<lanes::Program> run();
  // Of a loop split over the grid: parts, or steps, of all tiles; else tiles.
  Expr work_count() const;

 private:
  using Val = lanes::Val;
  using Body = lanes::Body;

  // Which element of the thread's fragment. `j` and `q` are absent in row context, where `half` is
  // the row half.
  struct Pos {
    Val mb, j, q, half;
  };

  // ---- the frame (fragment_lowering.cc)
  void declare_interface();
  void declare_rings();
  void set_up_barriers(Body& out);
  void copying_role(Body& out);
  void computing_role(Body& out);
  void walk_tiles(Body& out, const std::vector<Event>& events);
  void bind_tile(const Val& tile, Body& out);
  Val number32(const std::string& hint, const Expr& expr, Body& out);
  Expr tile_count() const;
  int cluster_size() const;
  void drain(Body& out);
  void events(const std::vector<Event>& list, Body& out);
  void event(const Event& e, Body& out);
  void loop(const Event& e, Body& out);
  void when(const Event& e, Body& out);
  void fill(const Event& e, Body& out);
  void fill_copy(const PlacedRing& ring, const PlacedCopy& copy, Body& out);
  void scope(const std::vector<Event>& list, Body& out);
  void acquire(const Event& e, Body& out);
  void clear_rows(const PlacedRing& ring, const PlacedCopy& copy, Body& out);
  void release(const Event& e, Body& out);
  void advance(const std::string& slot, const std::string& phase, int depth, Body& out);
  std::string map_for(const std::string& tensor, std::vector<int> box);
  bool shared_by_cluster(const PlacedRing& ring) const;
  bool shares_rings() const;
  bool persistent() const;

  // ---- work shared out over a cluster or among groups (fragment_work.cc)
  void declare_split();
  void set_up_split(Body& out);
  int image_vectors() const;
  void take_part(const Val& step, Val& begin, Val& end, Body& out);
  void combine_parts(Body& out);
  void only_owner(Body body, Body& out);
  void send_images(ValueId result, Body& out);
  void add_images(ValueId result, Body& out);
  void finish_split(Body& out);

  // ---- a loop split over the grid (fragment_parts.cc)
  Expr split_steps() const;
  void declare_fix_up();
  Val owns_sums() const;
  void walk_parts(const std::string& tile, const std::vector<Event>& list, Body& out);
  void walk_equal_parts(const std::string& tile, const std::vector<Event>& list, Body& out);
  void walk_stream(const std::string& tile, const std::vector<Event>& list, Body& out);
  void take_steps(const Val& step, Val& begin, Val& end, Body& out);
  void fix_up(Body& out);
  void publish_sums(Body& out);
  void gather_sums(Body& out);
  Val sums_row(const Val& slot) const;
  lanes::Stmt move_sums(ValueId result, const Val& slot, bool load);
  bool in_turns() const;
  Val slots_of_tile(size_t ring, Body& out);
  void skip_tiles(const Val& tiles, const std::vector<Val>& slots, Body& out);
  void walk_turns(const Val& first, const Val& count, const Val& stride, const std::string& tile,
                  Body body, Body& out);
  void declare_turns();
  void set_up_turns(Body& out);
  void declare_turn_phase(Body& out);
  void take_turn(Body& out);
  void pass_turn(Body& out);

  // ---- rows that are looked up (fragment_gather.cc)
  static Val thread_row(const PlacedCopy& copy, const Val& n);
  Val thread_row_exists(const PlacedCopy& copy, const Val& row, Body& out);
  void look_up(ValueId id, const PlacedCopy& copy, Body& out);
  Val row_index(const ir::DimIndex& dim, const PlacedCopy& copy, const Val& n, Body& out);
  Val index_element(ValueId id, const PlacedCopy& copy, const Val& n, Body& out);
  Val index_scalar(const ir::Node& node, Body& out);
  void copy_rows(const PlacedRing& ring, const PlacedCopy& copy, Body& out);
  void copy_runs(const PlacedRing& ring, const PlacedCopy& copy, Body& out);

  // ---- values (fragment_values.cc)
  void declare_registers(Body& out);
  int columns(ValueId id) const;  // of a thread block's fragment: static bound of the second axis
  Val element(ValueId id, const Pos& at, Body& out);
  Val load_element(const ir::Node& node, const Pos& at, Body& out);
  Val coordinate(int axis, const Pos& at) const;  // row or column inside the tile
  void compute(ValueId id, Body& out);
  void compute_here(ValueId id, Body& out);
  void inline_masks(ValueId id, bool root, std::set<ValueId>& selects) const;
  ValueId behind_open_masks(ValueId id) const;
  std::optional<ValueId> product_behind(ValueId select) const;
  void mask_in_place(ValueId select, Body& out);
  void reduce(const ir::Node& node, Body& out);
  struct Scaled {
    ValueId tile, factor;
  };
  std::optional<Scaled> scaled_by_uniform(const ir::Node& node) const;
  void reduce_rows(const ir::Node& node, ir::ReduceKind kind, ValueId from, Body& out);
  void reduce_lane(ir::ReduceKind kind, const ir::Node& operand, const std::string& reg,
                   bool masked, Body& out);
  void join_lanes(ir::ReduceKind kind, DType dtype, const std::string& reg, const Val& index,
                  Body& out);
  void clear_short(ValueId id, Body& out);
  void init_carries(const ir::Node& loop, Body& out);
  void clear_unstarted(const ir::Node& loop, const Val& has_steps, Body& out);
  void assign_all(ValueId from, const PlacedValue& to, ValueId shape_of, Body& out);
  void yield(const ir::Node& loop, Body& out);
  bool is_fast(const ir::Node& node) const;
  Val inside(const ir::Node& node, const Pos& at, Body& out);  // absent: always

  // ---- products (fragment_products.cc)
  void issue(const std::vector<ValueId>& products, Body& out);
  void multiply(const ir::Node& product, Body& out);
  Val descriptor(const ir::Node& product, int side, const Val& step, const Val& mb);
  Val keep_sum(const ir::Node& product, const Val& step);
  void wait(int left, Body& out);
  void pin(const std::string& reg, int count, Body& out);
  void rescale(const ir::Node& product, Body& out);

  // ---- stores (fragment_stores.cc; through shared memory: fragment_staged.cc)
  void store(const ir::Node& node, Body& out);
  void store_matrix(const ir::Node& node, Body& out);
  void store_rows(const ir::Node& node, Body& out);
  void store_scalar(const ir::Node& node, Body& out);
  bool can_stage(const ir::Node& node);
  void store_staged(const ir::Node& node, Body& out);
  Body chunk_by_engine(const ir::Node& node, const Val& buffer);
  void chunk_by_warps(const ir::Node& node, const Val& buffer, Body& out);
  void stage_halves(const ir::Node& node, const Val& buffer, Body& out);
  void stage_words(const ir::Node& node, const Val& buffer, Body& out);
  Val packed_pair(ValueId id, DType dtype, const Pos& at, Body& out);
  void finish_stores(Body& out);
  lanes::GlobalRef region(const ir::Node& node, const Val& row, const Val& column, Body& out);

  void refuse(const ir::Node& node, std::string message, std::string found = "",
              std::string expected = "");

  const ir::Program& program_;
  const Placed& placed_;
  IndexLowering index_;
  lanes::Program out_;
  Status error_;
  ValueId computing_ = -1;  // value whose registers are being assigned
  std::set<ValueId> open_;  // selects whose mask hides nothing where this is being written
  // Selects whose elements lie, where their mask hides something, in the registers of the product
  // that they hide, until it runs again.
  std::map<ValueId, std::string> in_place_;
  enum class Columns : uint8_t { kAsk, kWhole, kShort };
  Columns columns_here_ = Columns::kAsk;  // of a tile that may be short: what is known of it here
  bool copying_ = false;                  // which role is being written
  bool behind_split_ = false;             // columns are those of this CTA's part
  std::vector<ValueId> running_;          // products started and not known to be over, oldest first
  struct LoopFrame {
    const ir::Node* node;
    Val var, begin, end, step;
  };
  std::vector<LoopFrame> loops_;  // those around what is being written
  // Registers with the elements of index tiles for the rows of a thread: by load and way of asking.
  // Those of the scope being written.
  std::map<std::pair<ValueId, int>, std::string> looked_up_;
  std::map<std::string, bool> staged_;       // tensors stored through shared memory: by the engine?
  std::map<std::string, std::string> maps_;  // tensor and box -> map
};

// Small builders for instructions, shared by the parts.
lanes::Stmt op(lanes::Ins ins, std::vector<lanes::Val> args = {}, int n = 0, int bytes = 0);
// for (name in 0..count), unrolled.
lanes::Stmt loop_over(const std::string& name, int count, lanes::Body body);
lanes::Val reg_i32(const std::string& name);
lanes::Val u32(const lanes::Val& value);
lanes::Cache cache_of(gpu::L2 l2);

}  // namespace rooftile::codegen
