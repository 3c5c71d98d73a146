// SPDX-License-Identifier: Apache-2.0
// What a warp can still use from an operation on: registers, and allocations of shared memory. What
// nobody can use any more is no part of a state.
#include "rooftile/verify/protocol/liveness.h"

#include <algorithm>
#include <functional>

namespace rooftile::verify::protocol {
namespace {

bool reaches_peers(lanes::Ins ins) {
  using lanes::Ins;
  return ins == Ins::kBarArriveRemote || ins == Ins::kBarArriveRemoteRelease ||
         ins == Ins::kTmaLoadMulticast || ins == Ins::kStAsync;
}

class Analysis {
 public:
  explicit Analysis(const Flat& flat) : flat_(flat) {
    find_allocations();
    out_.slots.assign(flat.ops.size(), Bits(flat.slot_names.size() / 64 + 1));
    out_.reaches.assign(flat.ops.size(), Bits(flat.ops.size() / 64 + 1));
    out_.products.assign(flat.ops.size(), false);
    out_.own.assign(flat.ops.size(), 0);
    out_.peers.assign(flat.ops.size(), 0);
  }

  Liveness run() {
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t pc = flat_.ops.size(); pc-- > 0;) changed = visit(pc) || changed;
    }
    return std::move(out_);
  }

 private:
  template <class Each>
  void each_node(const Op& op, Each each) const {
    for (const NodeId n : {op.node, op.begin, op.end, op.step, op.guard})
      if (n != kNoNode) each(n);
    for (const NodeId n : op.args) each(n);
  }
  template <class Each>
  void each_slot(NodeId id, const Each& each) const {
    const Node& n = flat_.nodes[static_cast<size_t>(id)];
    if (n.kind == Node::kSlot) each(n.slot);
    for (const NodeId arg : n.args) each_slot(arg, each);
  }

  // Which allocations a register may point into, whatever the order of assignments.
  void find_allocations() {
    points_.assign(flat_.slot_names.size(), 0);
    for (bool changed = true; changed;) {
      changed = false;
      for (const Op& op : flat_.ops) {
        if (op.kind != OpKind::kAssign && op.kind != OpKind::kLoad) continue;
        uint64_t points = 0;
        each_node(op, [&](NodeId n) { points |= allocations_of(n); });
        uint64_t& to = points_[static_cast<size_t>(op.slot)];
        changed = changed || (points & ~to) != 0;
        to |= points;
      }
    }
  }
  uint64_t allocations_of(NodeId id) const {
    const Node& n = flat_.nodes[static_cast<size_t>(id)];
    uint64_t out = 0;
    if (n.kind == Node::kSlot) out = points_[static_cast<size_t>(n.slot)];
    if (n.allocation >= 0) out |= uint64_t{1} << n.allocation;
    for (const NodeId arg : n.args) out |= allocations_of(arg);
    return out;
  }

  bool visit(size_t pc) {
    const Op& op = flat_.ops[pc];
    Bits live(out_.slots[pc].size()), reaches(out_.reaches[pc].size());
    uint64_t own = 0, peers = 0;
    bool products = op.kind == OpKind::kInstr && op.stmt->instr.ins == lanes::Ins::kWgmma;
    reaches[pc / 64] |= uint64_t{1} << (pc % 64);
    const auto from = [&](size_t next) {
      if (next >= flat_.ops.size()) return;
      own |= out_.own[next];
      peers |= out_.peers[next];
      products = products || out_.products[next];
      for (size_t i = 0; i < live.size(); ++i) live[i] |= out_.slots[next][i];
      for (size_t i = 0; i < reaches.size(); ++i) reaches[i] |= out_.reaches[next][i];
    };
    const auto mark = [&](int slot) {
      live[static_cast<size_t>(slot) / 64] |= uint64_t{1} << (slot % 64);
    };
    // Who has taken one side of a uniform branch does not take the other.
    const bool over = op.kind == OpKind::kElse && op.uniform && !op.local;
    if (op.kind != OpKind::kExit && op.kind != OpKind::kLoopNext && !over) from(pc + 1);
    if (op.kind == OpKind::kIf || op.kind == OpKind::kElse || op.kind == OpKind::kLoop ||
        op.kind == OpKind::kLoopTest || op.kind == OpKind::kLoopNext)
      from(static_cast<size_t>(op.target));
    if (op.kind == OpKind::kIf) from(static_cast<size_t>(op.loop));
    if (op.kind == OpKind::kUndeclare)
      for (const int s : op.slots) live[static_cast<size_t>(s) / 64] &= ~(uint64_t{1} << (s % 64));
    const auto use = [&](const Op& user) {
      each_node(user, [&](NodeId n) { each_slot(n, mark); });
    };
    use(op);
    if (op.kind == OpKind::kInstr)
      each_node(op, [&](NodeId n) {
        own |= allocations_of(n);
        if (reaches_peers(op.stmt->instr.ins)) peers |= allocations_of(n);
      });
    if (op.kind == OpKind::kLoopTest || op.kind == OpKind::kLoopNext) {
      const Op& loop = flat_.ops[static_cast<size_t>(op.loop)];
      use(loop);
      mark(loop.slot);
    }
    if (live == out_.slots[pc] && reaches == out_.reaches[pc] && own == out_.own[pc] &&
        peers == out_.peers[pc] && products == out_.products[pc])
      return false;
    out_.reaches[pc] = std::move(reaches);
    out_.products[pc] = products;
    out_.slots[pc] = std::move(live);
    out_.own[pc] = own;
    out_.peers[pc] = peers;
    return true;
  }

  const Flat& flat_;
  Liveness out_;
  std::vector<uint64_t> points_;
};

}  // namespace

Liveness liveness(const Flat& flat) { return Analysis(flat).run(); }

}  // namespace rooftile::verify::protocol
