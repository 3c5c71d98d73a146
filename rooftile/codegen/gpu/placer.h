// SPDX-License-Identifier: Apache-2.0
// The pass behind place(): one object that walks a phase. Its parts, by the file that holds them:
//   place.cc           queries, roles, rows of a tile, who uses what
//   place_copies.cc    copies and rings, each checked against what the copy engine can do
//   place_lookups.cc   rows that are looked up: what can be evaluated, which runs are boxes
//   place_work.cc      loops split over a cluster or the grid, groups that take turns
//   place_values.cc    homes of values, products
//   place_partials.cc  sums that stay one a lane
//   place_events.cc    the event trees of the two roles
// Private to those files.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "rooftile/codegen/gpu/place.h"
#include "rooftile/codegen/gpu/strips_facts.h"

namespace rooftile::codegen {

class Placer {
 public:
  Placer(const ir::Program& program, const gpu::Plan& plan, ValueId phase)
      : program_(program), plan_(plan), multiples_(program) {
    placed_.phase = phase;
    placed_.plan = plan;
  }
  Result<Placed> run();

 private:
  using Node = ir::Node;

  Diag refuse(const Node& node, std::string message, std::string found = "",
              std::string expected = "") const;
  Diag unknown(const std::string& kind, const std::string& name) const;

  // ---- roles and rows (place.cc)
  void find_users(const ir::Block& block, ValueId owner);
  void bind_steps(const Node& loop);
  Status place_roles();
  Status place_rows();

  // ---- copies and rings (place_copies.cc)
  Status place_ring(const gpu::Ring& ring);
  Result<PlacedCopy> place_copy(const Node& load);
  Status place_extents(const Node& load, PlacedCopy& copy);
  Status check_engine_copy(const Node& load, PlacedCopy& copy) const;
  Status check_thread_copy(const Node& load, const PlacedCopy& copy) const;
  Status find_sharing(const Node& load, PlacedCopy& copy);
  const PlacedRing* ring_of(ValueId load, int* index = nullptr) const;
  // The load behind a product's operand, transposes and widenings of 8-bit floats removed.
  ValueId source(ValueId id) const { return operand_source(program_, id); }

  // ---- rows that are looked up (place_lookups.cc)
  Status check_index(ValueId id) const;
  Status find_runs(const Node& load, PlacedCopy& copy) const;

  // ---- how a tile's work is divided (place_work.cc)
  Status place_split(const gpu::LoopSplit& split);
  Status check_split_ways(const Node& loop, const gpu::LoopSplit& split) const;
  Status check_split_loop(const Node& loop) const;
  Status check_grid_split(const Node& loop) const;
  bool varies_with_tile(const Node& loop) const;
  int owners(const Node& loop, const gpu::LoopSplit& split, int columns) const;
  void keep_to_owner(std::vector<Event>& events) const;
  Status check_turns() const;
  const gpu::Turns* turns_of(const Node& loop) const;

  // ---- homes (place_values.cc)
  bool only_indexes(ValueId id) const;
  int total_weight(ValueId id);
  bool is_left_operand(ValueId id) const;
  bool accumulator_path(const Node& product, ValueId id) const;
  std::string fresh(const std::string& stem);
  ValueId accumulator_root(ValueId id) const;
  Status place_values(const ir::Block& block);
  Status place_carries(const Node& loop);
  Status place_value(const Node& node);
  bool is_widened_operand(const Node& node) const;
  bool is_widened_operand_of(ValueId transpose) const;
  bool takes_bytes(const Node& node) const;
  Status place_map(const Node& node, TileClass shape, PlacedValue& value);
  Status place_product(const Node& node, PlacedValue& value);
  Status check_major(const Node& node, ValueId b);
  Status check_contraction(const Node& node, ValueId b);
  void clear_rows(ValueId load);

  // ---- sums that stay in the lanes (place_partials.cc)
  bool is_partial(ValueId id) const;
  Status check_partials();
  bool is_zero(ValueId id) const;
  bool carried_from_zero(ValueId id) const;
  ValueId carried(const Node& loop, size_t position) const;
  bool accepts(ValueId user, ValueId id) const;
  bool derive_partial(ValueId id, bool now) const;

  // ---- events (place_events.cc)
  Status copy_events(const ir::Block& block, std::vector<Event>& out);
  std::vector<int> rings_read(const Node& product) const;
  ValueId load_in(const Node& product, int ring) const;
  bool reads_in_block(const Node& product, int ring, const ir::Block& block) const;
  class Sequence;
  Status compute_events(const ir::Block& block, std::vector<Event>& out);
  Status loop_events(const Node& loop, std::vector<Event>& out);
  Status sum_loop(const Node& loop, Event& event);
  Status late_loop(const Node& loop, const Node& late, Event& event);
  Status plain_loop(const Node& loop, Event& event);

  const ir::Program& program_;
  const gpu::Plan& plan_;
  Placed placed_;
  Multiples multiples_;
  std::map<ValueId, std::vector<ValueId>> users_;
  std::map<ValueId, ValueId> block_of_;
  std::map<std::string, ValueId> labels_;
  std::map<std::pair<ValueId, int>, std::string> carries_;
  std::map<std::string, int> names_;
  bool behind_split_ = false;  // values being placed come after the split loop
};

}  // namespace rooftile::codegen
