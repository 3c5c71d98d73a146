// SPDX-License-Identifier: Apache-2.0
// Control flow: blocks, serial loops and conditions. All of it is uniform over the CTA, so that
// barriers may stand anywhere.
#include <algorithm>

#include "rooftile/codegen/gpu/strips.h"

namespace rooftile::codegen {

using ir::Node;
using ir::Op;
using lanes::Ty;
using lanes::Val;

// A run ends where memory that it stores to is read, or written elsewhere.
bool Strips::breaks_run(const Node& n, const std::vector<ValueId>& run) const {
  if (n.op != Op::kLoad && n.op != Op::kStore) return false;
  return std::any_of(run.begin(), run.end(), [&](ValueId id) {
    const Node& before = node(id);
    if (before.op != Op::kStore || before.name != n.name) return false;
    const Meeting m = meeting(before, n);
    return m != Meeting::kApart && (n.op == Op::kLoad || m != Meeting::kSameElement);
  });
}

void Strips::block(const ir::Block& block) {
  std::vector<ValueId> nodes;
  const auto flush = [&] {
    if (!nodes.empty()) run(nodes);
    nodes.clear();
  };
  for (ValueId id : block.nodes) {
    if (!error_.ok()) return;
    const Node& n = node(id);
    if (n.op == Op::kLoop || n.op == Op::kWhen) {
      flush();
      n.op == Op::kLoop ? loop(n) : when(n);
    } else if (tiled_) {
      tile_node(n);
    } else {
      if (breaks_run(n, nodes)) flush();
      nodes.push_back(id);
    }
  }
  flush();
}

// Whether one iteration of a loop touches global memory that another one may write.
bool Strips::crosses_itself(const ir::Block& block) const {
  std::vector<ValueId> accesses;
  const auto collect = [&](auto&& self, const ir::Block& b) -> void {
    for (ValueId id : b.nodes) {
      if (node(id).op == Op::kLoad || node(id).op == Op::kStore) accesses.push_back(id);
      self(self, node(id).block);
    }
  };
  collect(collect, block);
  for (ValueId a : accesses)
    for (ValueId b : accesses)
      if (node(a).op == Op::kStore && may_alias(program_, node(a).name, node(b).name) &&
          !(node(a).mode == ir::StoreMode::kAdd && node(b).mode == ir::StoreMode::kAdd))
        return true;
  return false;
}

void Strips::open_loop(const Node& n) {
  std::vector<Val> registers;
  for (size_t k = 0; k < n.operands.size(); ++k) {
    const Node& initial = node(n.operands[k]);
    const std::string hint = n.name + "_state" + std::to_string(k);
    if (is_scalar(initial)) {
      registers.push_back(declare(register_type(initial.dtype), hint, scalar(n.operands[k])));
      continue;
    }
    registers.emplace_back();
    Space space;
    if (!tiled_) {
      fail(initial, "a loop carries a tile in a phase without products", shape_key(initial.shape),
           "carried values whose extents are all 1");
    } else if (space_of(initial, initial.shape, &space)) {
      Fragment f = make_fragment(initial, space);
      fill_fragment(f, n.operands[k], space);
      carried_[{n.id, static_cast<int>(k)}] = f;
    }
  }
  loop_registers_[n.id] = registers;
}

void Strips::next_iteration(const Node& n) {
  // All next values before any is taken over: one may be computed from another's old one.
  std::vector<Val> next(n.block.yields.size());
  std::vector<Fragment> next_tile(n.block.yields.size());
  std::vector<Space> spaces(n.block.yields.size());
  for (size_t k = 0; k < next.size(); ++k) {
    const ValueId yield = n.block.yields[k];
    const auto carried = carried_.find({n.id, static_cast<int>(k)});
    if (carried == carried_.end()) {
      const Val value = scalar(yield);
      next[k] = declare(value.type(), "next", value);
    } else if (space_of(node(yield), node(yield).shape, &spaces[k])) {
      const auto at_hand = fragments_.find(yield);
      const Op op = node(yield).op;
      if (at_hand != fragments_.end() && op != Op::kCarried) {
        next_tile[k] = at_hand->second;
      } else {
        next_tile[k] = make_fragment(node(yield), spaces[k]);
        fill_fragment(next_tile[k], yield, spaces[k]);
      }
    }
  }
  for (size_t k = 0; k < next.size(); ++k) {
    const auto carried = carried_.find({n.id, static_cast<int>(k)});
    if (next[k].present()) set(loop_registers_[n.id][k], next[k]);
    if (carried == carried_.end() || next_tile[k].name.empty()) continue;
    const Fragment &to = carried->second, &from = next_tile[k];
    const std::string slot = index_.unique("s");
    const Val at = lanes::var(Ty::kI32, slot);
    emit(lanes::for_(slot, 0, to.count, 1,
                     {lanes::assign(to.name, at, lanes::elem(from.type, from.name, at))},
                     lanes::Unroll::kYes));
  }
}

void Strips::loop(const Node& n) {
  land_all();  // not once a step
  open_loop(n);
  const Val begin = size(n.begin), end = size(n.end), step = size(n.step);
  const int64_t unit = std::min(multiples_.unit_of(n.begin, 16), multiples_.unit_of(n.step, 16));
  multiples_.bind(n.name, unit);
  const int64_t arena = arena_top_;
  if (mma_) start_ahead(n);
  const std::string variable = index_.unique(n.name);
  index_.bind(n.name, lanes::var(Ty::kI32, variable));
  note("loop " + n.name + ": " + n.begin.str() + " .. " + n.end.str() + " by " + n.step.str());
  const auto reads = reads_, writes = writes_;
  const auto shared_before = shared_touched_;
  ++depth_;
  lanes::Body body = scoped([&] {
    // What the last iteration left in shared memory is still being read.
    if (arena_bytes_ > 0 || tiled_) shared_touched_.push_back({0, INT64_MAX, true});
    if (crosses_itself(n.block)) sync();
    block(n.block);
    if (error_.ok()) next_iteration(n);
  });
  --depth_;
  arena_top_ = arena;
  std::erase_if(in_air_, [](const Flight& f) { return f.ahead; });
  emit(lanes::for_(variable, begin, end, step, std::move(body)));
  reads_.insert(reads_.end(), reads.begin(), reads.end());
  writes_.insert(writes_.end(), writes.begin(), writes.end());
  shared_touched_.insert(shared_touched_.end(), shared_before.begin(), shared_before.end());
}

void Strips::when(const Node& n) {
  land_all();
  const Val condition = index_.condition(n.expr, body_);
  note("when " + n.expr.str());
  const auto reads = reads_, writes = writes_;
  const auto shared_before = shared_touched_;
  const int64_t arena = arena_top_;
  ++depth_;
  lanes::Body body = scoped([&] { block(n.block); });
  --depth_;
  arena_top_ = arena;
  emit(lanes::if_(condition, std::move(body), {}, true));
  reads_.insert(reads_.end(), reads.begin(), reads.end());
  writes_.insert(writes_.end(), writes.begin(), writes.end());
  shared_touched_.insert(shared_touched_.end(), shared_before.begin(), shared_before.end());
}

}  // namespace rooftile::codegen
