// SPDX-License-Identifier: Apache-2.0
// Runs: nodes between two pieces of control flow, as passes over tiles of any length.
//
// The level of an item is the number of reductions that must be finished before it. Items of one
// shape form a strip; those of one level share a pass over it. Stores wait for the last pass that
// reads what they overwrite, and within a pass come after everything that is read at the same
// elements; since all passes of a strip give an element to the same thread, that is enough for
// arguments that are updated in place.
//
// Where the plan holds vectors, loads of the strip are made once, before the first pass, and stay
// in registers as they came from memory.
#include <algorithm>

#include "rooftile/codegen/gpu/size_limits.h"
#include "rooftile/codegen/gpu/strips.h"

namespace rooftile::codegen {

using ir::Node;
using ir::Op;
using lanes::Ty;
using lanes::Val;

namespace {

constexpr int kRegisterFile = 65536;  // of a multiprocessor
constexpr int kOtherRegisters = 24;   // what a pass needs beside what is held
constexpr int kFewVectors = 4;  // up to here, what only a late pass reads is fetched early too

Expr elements_in(const std::vector<Expr>& extents) {
  Expr out = 1;
  for (const Expr& e : extents) out = out * e;
  return out;
}

}  // namespace

// ---- levels ------------------------------------------------------------------------------------

int Strips::level_of(ValueId id) const {
  const auto found = levels_.find(id);
  return found == levels_.end() ? 0 : found->second;
}

std::vector<Strips::Item> Strips::items_of(const std::vector<ValueId>& nodes) {
  std::vector<Item> items;
  for (ValueId id : nodes) {
    const Node& n = node(id);
    int level = 0;
    for (ValueId input : inputs_of(n)) level = std::max(level, level_of(input));
    if (n.op == Op::kStore) {
      items.push_back({id, level, node(n.operands[0]).shape});
    } else if (n.op == Op::kReduce && is_scalar(n) && !is_scalar(node(n.operands[0]))) {
      items.push_back({id, level, node(n.operands[0]).shape});
      ++level;
    }
    levels_[id] = level;
  }
  return items;
}

std::set<ValueId> Strips::loads_of(const Item& item) const {
  std::set<ValueId> loads;
  for (ValueId input : inputs_of(node(item.id)))
    if (!is_scalar(node(input))) reach_loads(input, &loads);
  return loads;
}

void Strips::delay_stores(std::vector<Item>* items) const {
  for (bool changed = true; changed;) {
    changed = false;
    for (Item& store : *items) {
      if (node(store.id).op != Op::kStore) continue;
      for (const Item& other : *items)
        for (ValueId load : loads_of(other))
          if (other.level > store.level &&
              may_alias(program_, node(load).name, node(store.id).name) &&
              meeting(node(load), node(store.id)) != Meeting::kApart) {
            store.level = other.level;
            changed = true;
          }
    }
  }
}

bool Strips::has_scan(ValueId id) const {
  const Node& n = node(id);
  if (is_scalar(n) && n.has_value()) return false;
  if (n.op == Op::kScan) return true;
  if (n.op == Op::kCarried || n.op == Op::kResult) return false;
  const std::vector<ValueId> inputs = inputs_of(n);
  return std::any_of(inputs.begin(), inputs.end(), [&](ValueId input) { return has_scan(input); });
}

// ---- strips ------------------------------------------------------------------------------------

std::vector<Strips::Strip> Strips::strips_of(const std::vector<Item>& items) {
  std::vector<Strip> strips;
  for (const Item& item : items) {
    const std::vector<Expr> extents = walked(item.shape);
    if (extents.empty()) continue;
    auto at = std::find_if(strips.begin(), strips.end(), [&](const Strip& s) {
      return shape_key(s.extents) == shape_key(extents);
    });
    if (at == strips.end()) at = strips.insert(strips.end(), Strip{extents, {}, 1, false});
    at->items.push_back(item);
    for (ValueId input : inputs_of(node(item.id))) at->scans = at->scans || has_scan(input);
  }
  for (Strip& strip : strips) choose_width(&strip);
  return strips;
}

// Elements a vector, and the accesses that move whole ones.
void Strips::choose_width(Strip* strip) {
  if (!vectors_) return;
  std::set<ValueId> accesses;
  for (const Item& item : strip->items) {
    if (item.shape.back().is_const(1)) return;
    const std::set<ValueId> loads = loads_of(item);
    accesses.insert(loads.begin(), loads.end());
    if (node(item.id).op == Op::kStore) accesses.insert(item.id);
  }
  const auto last_walked = [&](ValueId id) {
    const Node& n = node(id);
    const auto& shape = n.op == Op::kStore ? node(n.operands[0]).shape : n.shape;
    return !shape.empty() && shape.back().same_as(strip->extents.back());
  };
  int narrowest = 0;
  for (ValueId id : accesses) {
    std::vector<Expr> ignored;
    const int bytes = size_bytes(program_.tensor(node(id).name)->dtype);
    if (last_walked(id) && vector_access(node(id), plan_.strips.vector_bytes / bytes, &ignored))
      narrowest = narrowest == 0 ? bytes : std::min(narrowest, bytes);
  }
  if (narrowest == 0) return;
  const int width = plan_.strips.vector_bytes / narrowest;
  if (width == 1 || !multiples_.holds(strip->extents.back(), width, &needs_.conditions)) return;
  strip->width = width;
  for (ValueId id : accesses) {
    const std::string& tensor = node(id).name;
    if (!last_walked(id) || !vector_access(node(id), width, &needs_.conditions)) continue;
    vector_accesses_.insert({id, width});
    if (std::find(needs_.aligned.begin(), needs_.aligned.end(), tensor) == needs_.aligned.end())
      needs_.aligned.push_back(tensor);
  }
}

// ---- held vectors ------------------------------------------------------------------------------

bool Strips::fits_held(const Strip& strip) {
  const int64_t capacity = int64_t{threads_} * plan_.strips.held_vectors * strip.width;
  const Expr elements = elements_in(strip.extents);
  if (const auto bound = most(elements)) return *bound <= capacity;
  if (!multiples_.is_closed(elements)) return false;
  needs_.conditions.push_back(elements <= Expr(capacity));
  return true;
}

void Strips::hold(const Strip& strip) {
  if (plan_.strips.held_vectors == 0 || strip.width == 1 || strip.scans || !fits_held(strip))
    return;
  std::map<ValueId, std::set<int>> levels;
  for (const Item& item : strip.items)
    for (ValueId load : loads_of(item))
      if (vector_accesses_.count({load, strip.width}) != 0 && inputs_of(node(load)).empty() &&
          shape_key(walked(node(load).shape)) == shape_key(strip.extents))
        levels[load].insert(item.level);
  Holding holding;
  holding.width = strip.width;
  const int64_t capacity = int64_t{threads_} * strip.width;
  holding.vectors = plan_.strips.held_vectors;
  if (const auto bound = most(elements_in(strip.extents)))
    holding.vectors = static_cast<int>(std::max<int64_t>(1, (*bound + capacity - 1) / capacity));
  const int registers =
      std::min(kRegisterFile / (threads_ * std::max(plan_.ctas_per_sm, 1)) / 8 * 8, 255);
  int words = 0;
  for (const bool several : {true, false})
    for (const auto& [load, at] : levels) {
      const bool early = at.size() == 1 && (*at.begin() == 0 || holding.vectors <= kFewVectors);
      if (several ? at.size() < 2 : !early) continue;
      const DType dtype = program_.tensor(node(load).name)->dtype;
      const RawRegisters raw = raw_registers(dtype, strip.width);
      if (words + raw.count * holding.vectors > registers - kOtherRegisters) continue;
      words += raw.count * holding.vectors;
      holding.raw[load] =
          declare_array(raw.type, hint_of(node(load)) + "_held", raw.count * holding.vectors);
    }
  if (holding.raw.empty()) return;
  load_held(strip, holding);
  holdings_[shape_key(strip.extents)] = holding;
}

void Strips::load_held(const Strip& strip, const Holding& holding) {
  std::set<ValueId> loads;
  for (const auto& [id, raw] : holding.raw) loads.insert(id);
  order_memory(loads, {}, shape_key(strip.extents) + " by " + std::to_string(strip.width));
  for (ValueId id : loads) prepare(node(id));
  const Val count = vector_count(strip);
  const std::string j = index_.unique("j");
  lanes::Body body = scoped([&] {
    const Val vector = name_value("vector", tid() + lanes::var(Ty::kI32, j) * Val(threads_));
    const Val present = name_value("present", vector < count);
    const std::vector<Val> coords = coordinates(strip, vector);
    for (const auto& [id, raw] : holding.raw) {
      Point point = clipped(node(id), point_of(node(id).shape, coords));
      point.width = strip.width;
      point.guard = present;
      const int words = raw_registers(program_.tensor(node(id).name)->dtype, strip.width).count;
      load_run(node(id), point, 0, strip.width, raw, lanes::var(Ty::kI32, j) * Val(words));
    }
  });
  emit(lanes::for_(j, 0, holding.vectors, 1, std::move(body), lanes::Unroll::kYes));
  std::string names;
  for (const auto& [id, raw] : holding.raw) names += " " + raw;
  note("hold " + shape_key(strip.extents) + " in " + std::to_string(holding.vectors) +
       " vectors of " + std::to_string(strip.width) + " a thread:" + names);
}

// Unpacked forms must not stay alive across a reduction in place of the packed ones.
void Strips::pin_held() {
  lanes::Instr pin;
  pin.ins = lanes::Ins::kPin;
  for (const auto& [shape, holding] : holdings_)
    for (const auto& [id, raw] : holding.raw)
      pin.regs.push_back(
          {raw, Val(0),
           raw_registers(program_.tensor(node(id).name)->dtype, holding.width).count *
               holding.vectors});
  if (!pin.regs.empty()) emit(lanes::instr(std::move(pin)));
}

// ---- a run -------------------------------------------------------------------------------------

void Strips::run(const std::vector<ValueId>& nodes) {
  levels_.clear();
  std::vector<Item> items = items_of(nodes);
  delay_stores(&items);
  int last = 0;
  for (const auto& [id, level] : levels_) last = std::max(last, level);
  for (const Item& item : items) last = std::max(last, item.level);
  const std::vector<Strip> strips = strips_of(items);
  for (const Strip& strip : strips) hold(strip);
  for (int level = 0; level <= last && error_.ok(); ++level) {
    scalars(nodes, level);
    std::vector<Reduction> reductions;
    for (const Strip& strip : strips) pass(strip, level, &reductions);
    scalar_stores(items, level);
    if (reductions.empty()) continue;
    join(&reductions);
    for (const Reduction& r : reductions)
      remember(r.id, point_of(node(r.id).shape, {}), {r.position.present() ? r.position : r.value});
    pin_held();
  }
  holdings_.clear();
}

void Strips::scalars(const std::vector<ValueId>& nodes, int level) {
  for (ValueId id : nodes) {
    const Node& n = node(id);
    if (!n.has_value() || !is_scalar(n) || level_of(id) != level || uses_.count(id) == 0) continue;
    if (n.op == Op::kLoad) order_memory({id}, {}, "every thread");
    scalar(id);
  }
}

// One thread stores what every thread knows.
void Strips::scalar_stores(const std::vector<Item>& items, int level) {
  std::vector<ValueId> stores;
  for (const Item& item : items)
    if (item.level == level && node(item.id).op == Op::kStore && walked(item.shape).empty())
      stores.push_back(item.id);
  if (stores.empty()) return;
  order_memory({}, stores, "first thread");
  for (ValueId id : stores) scalar(node(id).operands[0]);
  lanes::Body body = scoped([&] {
    for (ValueId id : stores) {
      const ValueId value = node(id).operands[0];
      Point point = point_of(node(value).shape, {});
      store(node(id), point, {scalar(value)});
    }
  });
  emit(lanes::if_(lanes::equal(tid(), 0), std::move(body)));
  for (ValueId id : stores) {
    stored_.push_back(id);
    note("store " + node(id).name + " by the first thread");
  }
}

// ---- a pass ------------------------------------------------------------------------------------

Val Strips::vector_count(const Strip& strip) {
  const std::vector<Expr>& extents = strip.extents;
  const Expr elements = elements_in(extents);
  if (extents.size() > 1 && multiples_.is_closed(elements))
    add_condition(elements <= Expr(kLargestSize), &needs_);
  Val count = size(extents.back());
  if (strip.width > 1) count = lanes::floor_div(count, Val(strip.width));
  for (size_t axis = 0; axis + 1 < extents.size(); ++axis) count = count * size(extents[axis]);
  return name_value("count", count);
}

std::vector<Val> Strips::coordinates(const Strip& strip, const Val& vector) {
  std::vector<Val> coords(strip.extents.size());
  Val rest = vector;
  for (size_t axis = strip.extents.size(); axis-- > 1;) {
    Val extent = size(strip.extents[axis]);
    const bool inner = axis + 1 == strip.extents.size();
    if (inner && strip.width > 1) extent = lanes::floor_div(extent, Val(strip.width));
    coords[axis] = name_value("c" + std::to_string(axis), lanes::floor_mod(rest, extent));
    rest = name_value("rest", lanes::floor_div(rest, extent));
  }
  coords[0] = rest;
  if (strip.width > 1) coords.back() = name_value("column", coords.back() * Val(strip.width));
  return coords;
}

void Strips::note_pass(const Strip& strip, const std::vector<Item>& items, int level) {
  std::string text = "pass " + std::to_string(level) + " over " + shape_key(strip.extents) +
                     ", vectors of " + std::to_string(strip.width) + ":";
  for (const Item& item : items) {
    const Node& n = node(item.id);
    text += n.op == Op::kStore
                ? " store " + n.name
                : " " + std::string(ir::reduce_name(n.reduce)) + "%" + std::to_string(n.id);
  }
  note(text);
}

void Strips::pass(const Strip& strip, int level, std::vector<Reduction>* reductions) {
  std::vector<Item> items;
  std::set<ValueId> loads;
  std::vector<ValueId> stores;
  for (const Item& item : strip.items) {
    if (item.level != level) continue;
    items.push_back(item);
    const std::set<ValueId> reached = loads_of(item);
    loads.insert(reached.begin(), reached.end());
    if (node(item.id).op == Op::kStore) stores.push_back(item.id);
  }
  if (items.empty()) return;
  for (ValueId load : loads)
    for (ValueId store : stores)
      if (may_alias(program_, node(load).name, node(store).name) &&
          meeting(node(load), node(store)) == Meeting::kUnknown)
        fail(node(store), "a store overwrites elements that other threads still read",
             node(store).name, "the region that is read, or one apart from it");
  note_pass(strip, items, level);
  const std::string mapping = shape_key(strip.extents) + " by " + std::to_string(strip.width);
  order_memory(loads, stores, mapping);
  for (ValueId id : loads) prepare(node(id));
  for (ValueId id : stores) prepare(node(id));
  const size_t first = reductions->size();
  for (const Item& item : items)
    if (node(item.id).op == Op::kReduce) reductions->push_back(start(item.id));
  std::vector<Reduction> mine(reductions->begin() + static_cast<std::ptrdiff_t>(first),
                              reductions->end());
  iterate(strip, items, &mine);
  note_accesses(loads, stores, mapping);
  stored_.insert(stored_.end(), stores.begin(), stores.end());
}

void Strips::iterate(const Strip& strip, const std::vector<Item>& items,
                     std::vector<Reduction>* reductions) {
  const Val count = vector_count(strip);
  if (const auto held = holdings_.find(shape_key(strip.extents)); held != holdings_.end()) {
    const std::string j = index_.unique("j");
    lanes::Body body = scoped([&] {
      Point base;
      base.held = lanes::var(Ty::kI32, j);
      const Val vector = name_value("vector", tid() + base.held * Val(threads_));
      lanes::Body present = scoped([&] { elements(strip, items, vector, base, reductions); });
      emit(lanes::if_(vector < count, std::move(present)));
    });
    emit(lanes::for_(j, 0, held->second.vectors, 1, std::move(body), lanes::Unroll::kYes));
    return;
  }
  const std::string name = index_.unique("vector");
  if (!strip.scans) {
    lanes::Body body =
        scoped([&] { elements(strip, items, lanes::var(Ty::kI32, name), Point(), reductions); });
    emit(
        lanes::for_(name, tid(), count, Val(threads_), std::move(body), lanes::Unroll::kNo, false));
    return;
  }
  // Prefixes join all threads in every iteration: everybody makes all of them.
  for (size_t id = 0; id < program_.nodes.size(); ++id)
    if (const Node& n = program_.nodes[id]; n.op == Op::kScan && !is_scalar(n))
      if (std::any_of(items.begin(), items.end(), [&](const Item& item) {
            return shape_key(walked(n.shape)) == shape_key(walked(item.shape));
          }))
        scan_carry_[n.id] = declare(register_type(n.dtype), "carry", neutral(n.reduce, n.dtype));
  const std::string first = index_.unique("first");
  lanes::Body body = scoped([&] {
    const Val vector = declare(Ty::kI32, name, lanes::var(Ty::kI32, first) + tid());
    Point base;
    base.guard = name_value("present", vector < count);
    joining_ = true;
    elements(strip, items, vector, base, reductions);
    joining_ = false;
  });
  emit(lanes::for_(first, 0, count, Val(threads_), std::move(body)));
  scan_carry_.clear();
}

// Everything that the items do at one vector: first all that is read, then all stores.
void Strips::elements(const Strip& strip, const std::vector<Item>& items, const Val& vector,
                      Point base, std::vector<Reduction>* reductions) {
  const std::vector<Val> coords = coordinates(strip, vector);
  const auto at = [&](const Item& item) {
    Point point = point_of(item.shape, coords);
    point.width = strip.width;
    point.guard = base.guard;
    point.held = base.held;
    return point;
  };
  std::vector<Vec> stored(items.size());
  size_t next_reduction = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    const Node& n = node(items[i].id);
    const Point point = at(items[i]);
    const Vec values = eval(n.operands[0], point);
    if (n.op == Op::kStore) {
      stored[i] = values;
      continue;
    }
    Reduction* r = &(*reductions)[next_reduction++];
    const auto axis = static_cast<size_t>(n.axis);
    const bool along = axis + 1 == point.at.size();
    for (int e = 0; e < point.width; ++e)
      accumulate(r, values.size() == 1 ? values[0] : values[static_cast<size_t>(e)],
                 along ? point.at[axis] + Val(e) : point.at[axis], point.guard);
  }
  // Index tiles of scatters are read before any store, too.
  for (const Item& item : items)
    for (const ir::DimIndex& dim : node(item.id).region)
      if (dim.kind == ir::DimIndex::kIndirect && strip.width == 1) {
        Point point;
        point.at = {at(item).at[static_cast<size_t>(dim.tile_axis)]};
        point.guard = base.guard;
        eval(dim.indirect, point);
      }
  for (size_t i = 0; i < items.size(); ++i)
    if (const Node& n = node(items[i].id); n.op == Op::kStore) store(n, at(items[i]), stored[i]);
}

}  // namespace rooftile::codegen
