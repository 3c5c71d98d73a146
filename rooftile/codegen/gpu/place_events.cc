// SPDX-License-Identifier: Apache-2.0
// The event trees: what the copying role fills, and what the computing groups acquire, start, wait
// for, compute and give back, in issue order.
#include <algorithm>
#include <set>

#include "rooftile/codegen/gpu/placer.h"

namespace rooftile::codegen {

using ir::Op;

Status Placer::copy_events(const ir::Block& block, std::vector<Event>& out) {
  std::set<int> filled;
  for (ValueId id : block.nodes) {
    const Node& node = program_.node(id);
    int ring = -1;
    if (node.op == Op::kLoad && ring_of(id, &ring) != nullptr && filled.insert(ring).second) {
      Event fill{.kind = Event::kFill, .ring = ring, .id = id};
      const auto& alternatives = placed_.rings[static_cast<size_t>(ring)].alternatives;
      for (size_t a = 0; a < alternatives.size(); ++a)
        for (const PlacedCopy& copy : alternatives[a])
          if (copy.load == id) fill.n = static_cast<int>(a);
      out.push_back(std::move(fill));
    }
    if (node.block.nodes.empty()) continue;
    Event region{.kind = node.op == Op::kLoop ? Event::kLoop : Event::kWhen, .id = id};
    RT_RETURN_IF_ERROR(copy_events(node.block, region.body));
    if (!region.body.empty()) out.push_back(std::move(region));
  }
  return {};
}

// ---- the computing role -------------------------------------------------------------------------

std::vector<int> Placer::rings_read(const Node& product) const {
  std::vector<int> rings;
  for (int side = 0; side < 2; ++side) {
    int ring = -1;
    if (ring_of(source(product.operands[static_cast<size_t>(side)]), &ring) != nullptr &&
        std::find(rings.begin(), rings.end(), ring) == rings.end())
      rings.push_back(ring);
  }
  return rings;
}

// The load that `product` reads from `ring`; -1: none.
ValueId Placer::load_in(const Node& product, int ring) const {
  for (int side = 0; side < 2; ++side) {
    const ValueId load = source(product.operands[static_cast<size_t>(side)]);
    int of = -1;
    if (ring_of(load, &of) != nullptr && of == ring) return load;
  }
  return -1;
}

// Slots of loads of this very block are acquired by the first product that reads them and given
// back behind the last; others belong to an outer block.
bool Placer::reads_in_block(const Node& product, int ring, const ir::Block& block) const {
  for (int side = 0; side < 2; ++side) {
    const ValueId load = source(product.operands[static_cast<size_t>(side)]);
    int of = -1;
    if (ring_of(load, &of) != nullptr && of == ring)
      return std::find(block.nodes.begin(), block.nodes.end(), load) != block.nodes.end();
  }
  return false;
}

// Events of one block, in program order: products start where they stand, and are waited for
// where something first reads them; slots go back as soon as their last product is known to be
// over.
class Placer::Sequence {
 public:
  Sequence(Placer& placer, const ir::Block& block, std::vector<Event>& out)
      : placer_(placer), block_(block), out_(out) {}

  void issue(const Node& product) {
    Running running{product.id, {}};
    for (int ring : placer_.rings_read(product)) {
      if (!placer_.reads_in_block(product, ring, block_)) continue;
      if (acquired_.insert(ring).second) acquire(ring, placer_.load_in(product, ring));
      if (is_last_reader(product, ring)) running.rings.push_back(ring);
    }
    if (product.operands.size() == 3 &&
        placer_.program_.node(product.operands[2]).op != Op::kCarried)
      out_.push_back({.kind = Event::kRescale, .id = product.id});
    out_.push_back({.kind = Event::kIssue, .id = product.id});
    running_.push_back(std::move(running));
  }

  void acquire(int ring, ValueId load) {
    out_.push_back({.kind = Event::kAcquire, .ring = ring, .id = load});
  }

  // Waits until `product` is over (no-op if it is known to be).
  void finish(ValueId product) {
    auto it = std::find_if(running_.begin(), running_.end(),
                           [&](const Running& r) { return r.product == product; });
    if (it == running_.end()) return;
    out_.push_back({.kind = Event::kWait, .n = static_cast<int>(running_.end() - it) - 1});
    for (auto done = running_.begin(); done <= it; ++done)
      for (int ring : done->rings) out_.push_back({.kind = Event::kRelease, .ring = ring});
    running_.erase(running_.begin(), it + 1);
  }
  void finish_all() {
    if (!running_.empty()) finish(running_.back().product);
  }

  // Products whose results the registers of `id` come from must be over before it is computed.
  void needs(ValueId id) {
    const Node& node = placer_.program_.node(id);
    if (node.op == Op::kMma) return finish(id);
    const PlacedValue& value = placer_.placed_.values[id];
    if (value.home != Home::kInline && !computing_.count(id)) return;
    for (ValueId operand : node.operands)
      if (placer_.program_.node(operand).has_value()) needs(operand);
  }
  void compute(ValueId id) {
    computing_.insert(id);
    needs(id);
    computing_.erase(id);
    out_.push_back({.kind = Event::kCompute, .id = id});
  }

 private:
  struct Running {
    ValueId product;
    std::vector<int> rings;  // slots that this product is the last to read
  };

  bool is_last_reader(const Node& product, int ring) const {
    ValueId last = -1;
    for (ValueId id : block_.nodes) {
      const Node& node = placer_.program_.node(id);
      if (node.op != Op::kMma) continue;
      std::vector<int> rings = placer_.rings_read(node);
      if (std::find(rings.begin(), rings.end(), ring) != rings.end()) last = id;
    }
    return last == product.id;
  }

  Placer& placer_;
  const ir::Block& block_;
  std::vector<Event>& out_;
  std::set<int> acquired_;
  std::vector<Running> running_;
  std::set<ValueId> computing_;
};

Status Placer::compute_events(const ir::Block& block, std::vector<Event>& out) {
  Sequence sequence(*this, block, out);
  std::vector<int> held;  // slots of this block that deeper blocks read
  for (ValueId id : block.nodes) {
    const Node& node = program_.node(id);
    const PlacedValue& value = placed_.values[id];
    int ring = -1;
    switch (node.op) {
      case Op::kLoad:
        if (ring_of(id, &ring) != nullptr) {
          const std::vector<ValueId>& users = users_[id];
          const bool deeper = std::any_of(users.begin(), users.end(), [&](ValueId user) {
            return block_of_.at(user) != block_of_.at(id);
          });
          if (deeper) {
            sequence.acquire(ring, id);
            held.push_back(ring);
            placed_.rings[static_cast<size_t>(ring)].by_warps = true;
          }
        } else if (value.home == Home::kScalar) {
          sequence.compute(id);
        }
        break;
      case Op::kMma:
        sequence.needs(node.operands[0]);
        sequence.issue(node);
        break;
      case Op::kLoop:
        sequence.finish_all();
        RT_RETURN_IF_ERROR(loop_events(node, out));
        if (id == placed_.split.loop) out.push_back({.kind = Event::kCombine, .id = id});
        break;
      case Op::kWhen: {
        sequence.finish_all();
        Event when{.kind = Event::kWhen, .id = id};
        RT_RETURN_IF_ERROR(compute_events(node.block, when.body));
        out.push_back(std::move(when));
        break;
      }
      case Op::kStore:
        sequence.needs(node.operands[0]);
        out.push_back({.kind = Event::kStore, .id = id});
        break;
      case Op::kCarried:
        break;
      case Op::kResult:
        // Partial sums that someone outside reads whole are added up where the loop ends.
        if (value.home == Home::kRow && !value.partial &&
            is_partial(carried(program_.node(node.operands[0]), static_cast<size_t>(node.axis))))
          out.push_back({.kind = Event::kJoin, .id = id});
        break;
      default:
        if (value.home == Home::kFragment || value.home == Home::kOperand ||
            value.home == Home::kRow || value.home == Home::kScalar)
          sequence.compute(id);
    }
  }
  sequence.finish_all();
  for (int ring : held) out.push_back({.kind = Event::kRelease, .ring = ring});
  return {};
}

Status Placer::loop_events(const Node& loop, std::vector<Event>& out) {
  Event event{.kind = Event::kLoop, .id = loop.id};
  auto plan = plan_.loop.find(loop.name);
  std::vector<const Node*> products;
  bool only_sums = true;
  for (ValueId id : loop.block.nodes) {
    const Node& node = program_.node(id);
    if (node.op == Op::kMma)
      products.push_back(&node);
    else if (node.op != Op::kLoad && node.op != Op::kCarried &&
             placed_.values[id].home != Home::kRing)
      only_sums = false;
  }
  if (plan != plan_.loop.end() && !plan->second.late.empty()) {
    auto late = labels_.find(plan->second.late);
    if (late == labels_.end()) return unknown("product", plan->second.late);
    RT_RETURN_IF_ERROR(late_loop(loop, program_.node(late->second), event));
  } else if (only_sums && !products.empty()) {
    RT_RETURN_IF_ERROR(sum_loop(loop, event));
  } else {
    RT_RETURN_IF_ERROR(plain_loop(loop, event));
  }
  const gpu::Turns* turns = turns_of(loop);
  if (turns == nullptr) {
    out.push_back(std::move(event));
    return {};
  }
  const Event take{.kind = Event::kTakeTurn}, pass{.kind = Event::kPassTurn};
  if (turns->each_step) {
    for (std::vector<Event>* step : {&event.first, &event.body, &event.last}) {
      const auto issues = [](const Event& e) { return e.kind == Event::kIssue; };
      const auto last = std::find_if(step->rbegin(), step->rend(), issues);
      if (last == step->rend()) continue;
      step->insert(last.base(), pass);
      step->insert(std::find_if(step->begin(), step->end(), issues), take);
    }
    out.push_back(std::move(event));
    return {};
  }
  // The products of the last steps may still run when the next group starts its own.
  out.push_back(take);
  const bool waits_behind = only_sums && !products.empty() && event.first.empty();
  if (waits_behind) event.last.insert(event.last.begin(), pass);
  out.push_back(std::move(event));
  if (!waits_behind) out.push_back(pass);
  return {};
}

// Nothing reads a result before the loop has ended: products of several steps stay in flight, and
// a slot goes back that many steps late.
Status Placer::sum_loop(const Node& loop, Event& event) {
  int in_flight = 0;
  std::vector<int> rings;
  std::vector<const Node*> products;
  for (ValueId id : loop.block.nodes) {
    const Node& node = program_.node(id);
    if (node.op != Op::kMma) continue;
    products.push_back(&node);
    in_flight = plan_.product.at(node.label).in_flight;
    for (int ring : rings_read(node))
      if (std::find(rings.begin(), rings.end(), ring) == rings.end()) rings.push_back(ring);
  }
  for (int ring : rings)
    event.body.push_back(
        {.kind = Event::kAcquire, .ring = ring, .id = load_in(*products[0], ring)});
  for (const Node* product : products)
    event.body.push_back({.kind = Event::kIssue, .id = product->id});
  // `in_flight` counts steps; a step starts as many groups as it has products.
  const int groups = in_flight * static_cast<int>(products.size());
  event.body.push_back({.kind = Event::kWait, .n = groups});
  for (int ring : rings)
    event.body.push_back({.kind = Event::kRelease, .ring = ring, .n = in_flight});
  event.last.push_back({.kind = Event::kWait, .n = 0});
  for (int ring : rings)
    for (int i = 0; i < in_flight; ++i)
      event.last.push_back({.kind = Event::kRelease, .ring = ring, .n = -(i + 1)});
  return {};
}

Status Placer::plain_loop(const Node& loop, Event& event) {
  RT_RETURN_IF_ERROR(compute_events(loop.block, event.body));
  event.body.push_back({.kind = Event::kYield, .id = loop.id});
  return {};
}

// Step t: [first product of t, late product of t - 1] start together; the rest of t runs while
// the late one does. The slot of the late product's operand is awaited before the late product of
// the step before is: that wait is a branch, which keeps ptxas from moving the other wait up.
Status Placer::late_loop(const Node& loop, const Node& late, Event& event) {
  const std::vector<int> late_rings = rings_read(late);
  const ValueId operand = late.operands[0];
  if (placed_.values[operand].home != Home::kOperand || late.operands.size() != 3)
    return refuse(late, "a late product sums and takes its left operand from registers");
  for (int ring : late_rings)
    if (placed_.rings[static_cast<size_t>(ring)].depth < 2)
      return refuse(late, "a late product holds two slots of its ring", "1 slot", "2 or more");
  if (users_[late.id].size() != 1 || users_[late.id][0] != loop.id)
    return refuse(late, "the result of a late product is only carried");

  auto step = [&](bool with_late, std::vector<Event>& out) -> Status {
    bool started = false;
    for (ValueId id : loop.block.nodes) {
      const Node& node = program_.node(id);
      const Home home = placed_.values[id].home;
      if (id == late.id || id == operand || accumulator_path(late, id)) continue;
      if (node.op == Op::kMma) {
        if (started) return refuse(late, "a loop with a late product has one other product");
        started = true;
        for (int ring : rings_read(node))
          if (reads_in_block(node, ring, loop.block))
            out.push_back({.kind = Event::kAcquire, .ring = ring, .id = load_in(node, ring)});
        out.push_back({.kind = Event::kIssue, .id = id});
        if (with_late) out.push_back({.kind = Event::kIssue, .id = late.id});
        // The late product is behind it: its wait leaves that one running.
        out.push_back({.kind = Event::kWait, .n = with_late ? 1 : 0});
        for (int ring : rings_read(node))
          if (reads_in_block(node, ring, loop.block))
            out.push_back({.kind = Event::kRelease, .ring = ring});
      } else if (home == Home::kFragment || home == Home::kRow || home == Home::kScalar) {
        if (node.op != Op::kCarried && node.op != Op::kResult)
          out.push_back({.kind = Event::kCompute, .id = id});
      } else if (node.op == Op::kStore || !node.block.nodes.empty()) {
        return refuse(node, "a loop with a late product has no stores and no inner loops");
      }
    }
    for (int ring : late_rings)
      out.push_back({.kind = Event::kAcquire, .ring = ring, .id = load_in(late, ring)});
    if (with_late) {
      out.push_back({.kind = Event::kWait, .n = 0});
      for (int ring : late_rings) out.push_back({.kind = Event::kRelease, .ring = ring});
    }
    out.push_back({.kind = Event::kRescale, .id = late.id});
    out.push_back({.kind = Event::kCompute, .id = operand});
    out.push_back({.kind = Event::kYield, .id = loop.id});
    return {};
  };
  RT_RETURN_IF_ERROR(step(false, event.first));
  RT_RETURN_IF_ERROR(step(true, event.body));
  event.last.push_back({.kind = Event::kIssue, .id = late.id});
  event.last.push_back({.kind = Event::kWait, .n = 0});
  for (int ring : late_rings) event.last.push_back({.kind = Event::kRelease, .ring = ring});
  return {};
}

}  // namespace rooftile::codegen
