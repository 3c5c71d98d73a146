// SPDX-License-Identifier: Apache-2.0
// Plan, second part: items, row groups, levels, and what grouping implies for buffers and
// loop-carried values.
#include <algorithm>

#include "rooftile/codegen/cpu/plan.h"

namespace rooftile::codegen {

using ir::Node;
using ir::Op;

namespace {

// From this cost on (elementwise.def) a value with several uses in different passes is stored, not
// recomputed.
constexpr int kKeepWeight = 8;

bool is_map(Op op) {
  return op == Op::kElementwise || op == Op::kSelect || op == Op::kCast || op == Op::kPhilox;
}

bool same_shape(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(),
                    [](const Expr& x, const Expr& y) { return x.same_as(y); });
}

const std::vector<Expr>& domain(const ir::Program& program, const Item& item) {
  const Node& node = program.node(item.id);
  const bool over_operand = item.kind == ItemKind::kReduce ||
                            item.kind == ItemKind::kColumnReduce || item.kind == ItemKind::kStore;
  return over_operand ? program.node(node.operands[0]).shape : node.shape;
}

bool is_vector_item(const Item& item) { return item.kind != ItemKind::kLocal; }

}  // namespace

std::vector<Item> Plan::items_of(ValueId id) const {
  const Node& node = program_->node(id);
  const int buffer = buffer_of(id);
  switch (node.op) {
    case Op::kReduce:
      return {{node.axis + 1 == program_->node(node.operands[0]).rank() ? ItemKind::kReduce
                                                                        : ItemKind::kColumnReduce,
               id, buffer}};
    case Op::kScan:
      return {{ItemKind::kScan, id, buffer}};
    case Op::kStore:
      return {{ItemKind::kStore, id, -1}};
    case Op::kLoad:
      if (keep_.count(id)) return {{ItemKind::kKeep, id, buffer}};
      if (is_scalar(id) && !operand_only(id)) return {{ItemKind::kLocal, id, -1}};
      return {};
    case Op::kElementwise:
    case Op::kSelect:
    case Op::kCast:
    case Op::kPhilox:
      if (keep_.count(id)) return {{ItemKind::kKeep, id, buffer}};
      if (is_scalar(id)) return {{ItemKind::kLocal, id, -1}};
      if (is_row_scalar(id)) {
        Item item{ItemKind::kLocal, id, buffer};
        if (auto commit = commits_.find(id); commit != commits_.end()) item.commit = commit->second;
        return {item};
      }
      return {};
    default:
      return {};
  }
}

// The item values that `id` reads through values computed in place; `inside` limits which ones
// count.
void Plan::reach(ValueId id, const std::set<ValueId>& inside, std::set<ValueId>* out,
                 bool* transposed) const {
  std::vector<ValueId> inputs;
  inputs_of(id, &inputs);
  for (ValueId input : inputs) {
    const Node& node = program_->node(input);
    if (inside.count(input)) {
      out->insert(input);
      continue;
    }
    if (node.op == Op::kTranspose && transposed) *transposed = true;
    const bool stops = buffer_of(input) >= 0 || node.op == Op::kMma || node.op == Op::kCarried ||
                       node.op == Op::kResult || (is_map(node.op) && is_scalar(input));
    if (!stops) reach(input, inside, out, transposed);
  }
}

bool Plan::reads(ValueId id, ValueId what) const {
  std::vector<ValueId> inputs;
  inputs_of(id, &inputs);
  for (ValueId input : inputs) {
    if (input == what) return true;
    if (buffer_of(input) < 0 && reads(input, what)) return true;
  }
  return false;
}

int Plan::weight(ValueId id) const {
  const Node& node = program_->node(id);
  int total = node.op == Op::kElementwise ? ir::ew_info(node.ew).weight : 1;
  if (node.op == Op::kPhilox) total = 40;
  if (!is_map(node.op)) return 1;
  for (ValueId input : node.operands)
    if (is_map(program_->node(input).op) && buffer_of(input) < 0 && !is_scalar(input) &&
        !is_row_scalar(input))
      total += weight(input);
  return total;
}

bool Plan::joins(const Group& group, const Item& item) const {
  if (!same_shape(group.outer, outer_of(domain(*program_, item)))) return false;
  if (!schedule_.fuse && !(group.outer.empty() && item.kind == ItemKind::kLocal)) return false;
  std::set<ValueId> ids, deps;
  for (const Item& other : group.items) ids.insert(other.id);
  bool transposed = false;
  reach(item.id, ids, &deps, &transposed);
  if (item.kind == ItemKind::kKeep && ids.count(item.id)) deps.insert(item.id);
  if (transposed && !deps.empty()) return false;
  for (const Item& other : group.items)
    if (deps.count(other.id) && other.kind == ItemKind::kColumnReduce) return false;
  return true;
}

void Plan::finish_group(Group* group) const {
  std::set<ValueId> ids;
  for (const Item& item : group->items) ids.insert(item.id);
  for (size_t i = 0; i < group->items.size(); ++i) {
    Item& item = group->items[i];
    std::set<ValueId> deps;
    reach(item.id, ids, &deps, nullptr);
    // A value kept under its own id may also be an accumulator's start: it reads what it is.
    for (size_t j = 0; j < i; ++j) {
      const Item& other = group->items[j];
      if (!deps.count(other.id) || other.id == item.id) continue;
      int level = other.level;
      if (other.kind == ItemKind::kReduce || other.kind == ItemKind::kScan ||
          other.kind == ItemKind::kColumnReduce)
        ++level;
      if (other.kind == ItemKind::kKeep) {
        const auto& mine = domain(*program_, item);
        const auto& theirs = domain(*program_, other);
        if (!is_vector_item(item) || mine.empty() || theirs.empty() ||
            !mine.back().same_as(theirs.back()))
          ++level;
      }
      item.level = std::max(item.level, level);
    }
  }
}

// An item behind a product that needs nothing of it goes into the row group before the product: the
// sum of the probabilities belongs to the pass that computes them.
bool Plan::moves_before_product(std::vector<Step>* steps, const Item& item) const {
  if (steps->size() < 2 || steps->back().kind != Step::kMma || item.kind == ItemKind::kStore ||
      !schedule_.fuse)
    return false;
  Step& before = (*steps)[steps->size() - 2];
  if (before.kind != Step::kGroup || !joins(before.group, item)) return false;
  const int written = products_.at(steps->back().id).buffer;
  auto depends = [&](auto&& self, ValueId id) -> bool {
    std::vector<ValueId> inputs;
    inputs_of(id, &inputs);
    for (ValueId input : inputs) {
      const int buffer = buffer_of(input);
      if (input == steps->back().id || buffer == written) return true;
      if (buffer < 0 && self(self, input)) return true;
    }
    return false;
  };
  if (depends(depends, item.id)) return false;
  before.group.items.push_back(item);
  for (Item& other : before.group.items) other.level = 0;
  finish_group(&before.group);
  return true;
}

std::vector<Step> Plan::group_block(const ir::Block& block, ValueId region) const {
  std::vector<Step> steps;
  Group pending;
  auto flush = [&] {
    if (pending.items.empty()) return;
    finish_group(&pending);
    Step step;
    step.group = std::move(pending);
    steps.push_back(std::move(step));
    pending = {};
  };
  auto add = [&](const Item& item) {
    if (pending.items.empty() && moves_before_product(&steps, item)) return;
    if (!pending.items.empty() && !joins(pending, item)) flush();
    if (pending.items.empty()) pending.outer = outer_of(domain(*program_, item));
    pending.items.push_back(item);
  };
  auto push = [&](Step::Kind kind, ValueId id) {
    flush();
    Step step;
    step.kind = kind;
    step.id = id;
    steps.push_back(step);
  };
  for (ValueId id : block.nodes) {
    const Node& node = program_->node(id);
    if (node.op == Op::kLoad) {
      bool feeds_product = false;
      auto feeds = [&](auto&& self, ValueId v) -> void {
        for (const Use& use : users(v)) {
          const Node& user = program_->node(use.user);
          if (user.op == Op::kMma && use.operand < 2) feeds_product = true;
          if (user.op == Op::kTranspose) self(self, use.user);
        }
      };
      feeds(feeds, id);
      if (feeds_product) {
        // Packing need not wait for the rows before it, nor cut their group in two.
        std::set<ValueId> ids, deps;
        for (const Item& item : pending.items) ids.insert(item.id);
        reach(id, ids, &deps, nullptr);
        if (!deps.empty() || eager_tensors_.count(node.name)) flush();
        Step step;
        step.kind = Step::kPrepare;
        step.id = id;
        steps.push_back(step);
      }
    }
    if (node.op == Op::kMma) {
      const Product& product = products_.at(id);
      const ValueId acc = node.operands.size() > 2 ? node.operands[2] : -1;
      const bool in_place =
          acc >= 0 && buffer_of(acc) == product.buffer && !is_map(program_->node(acc).op);
      if (acc >= 0 && !product.zero_first && !in_place) add({ItemKind::kKeep, acc, product.buffer});
      push(Step::kMma, id);
      continue;
    }
    if (node.op == Op::kLoop) {
      const LoopPlan& loop = loops_.at(id);
      for (size_t k = 0; k < node.operands.size(); ++k)
        if (loop.buffers[k] >= 0 && !loop.skip_init[k])
          add({ItemKind::kKeep, node.operands[k], loop.buffers[k]});
      push(Step::kLoop, id);
      continue;
    }
    if (node.op == Op::kWhen || node.op == Op::kTiles) {
      push(node.op == Op::kWhen ? Step::kWhen : Step::kLoop, id);
      continue;
    }
    for (const Item& item : items_of(id)) add(item);
  }
  flush();
  if (auto list = copies_.find(region); list != copies_.end())
    for (auto [from, to] : list->second) {
      Step step;
      step.kind = Step::kCopy;
      step.from = from;
      step.to = to;
      steps.push_back(step);
    }
  return steps;
}

std::vector<Step> Plan::steps(const ir::Block& block, ValueId region) const {
  return group_block(block, region);
}

std::vector<ValueId> Plan::inline_loads(ValueId id) const {
  std::vector<ValueId> loads, inputs;
  if (program_->node(id).op == Op::kLoad) loads.push_back(id);
  inputs_of(id, &inputs);
  for (ValueId input : inputs) {
    const Op op = program_->node(input).op;
    // Reductions and numbers of the row are items of their own: they have read what they need.
    const bool in_place = op == Op::kLoad || op == Op::kTranspose ||
                          (is_map(op) && !is_scalar(input) && !is_row_scalar(input));
    if (!in_place || buffer_of(input) >= 0) continue;
    for (ValueId load : inline_loads(input)) loads.push_back(load);
  }
  return loads;
}

// A load whose tensor is also written needs no copy when every read comes before the write of the
// same element: in an earlier step or pass, or in the same pass at the same place.
bool Plan::read_in_time(ValueId load, const std::vector<Step>& steps) const {
  const Node& node = program_->node(load);
  auto overlaps = [&](const std::string& stored) {
    if (stored == node.name) return true;
    const auto &a = program_->tensor(stored)->may_alias,
               &b = program_->tensor(node.name)->may_alias;
    return std::find(a.begin(), a.end(), node.name) != a.end() ||
           std::find(b.begin(), b.end(), stored) != b.end();
  };
  auto same_place = [&](const Node& store) {
    if (store.region.size() != node.region.size()) return false;
    for (size_t d = 0; d < node.region.size(); ++d) {
      const ir::DimIndex &x = node.region[d], &y = store.region[d];
      if (x.kind != y.kind || x.kind == ir::DimIndex::kIndirect || x.step != y.step ||
          x.tile_axis != y.tile_axis || !x.begin.same_as(y.begin) || !x.extent.same_as(y.extent))
        return false;
    }
    return true;
  };
  for (const Use& use : users(load))
    if (region_[static_cast<size_t>(use.user)] != region_[static_cast<size_t>(load)] ||
        use.operand < 0)
      return false;
  for (size_t s = 0; s < steps.size(); ++s) {
    if (steps[s].id >= 0) {  // a nested region may store anywhere
      bool stores = false;
      auto search = [&](auto&& self, const ir::Block& block) -> void {
        for (ValueId id : block.nodes) {
          const Node& inner = program_->node(id);
          stores |= inner.op == Op::kStore && overlaps(inner.name);
          self(self, inner.block);
        }
      };
      search(search, program_->node(steps[s].id).block);
      if (stores) return false;
    }
    for (const Item& store : steps[s].group.items) {
      const Node& target = program_->node(store.id);
      if (store.kind != ItemKind::kStore || !overlaps(target.name)) continue;
      for (size_t r = 0; r < steps.size(); ++r)
        for (const Item& reader : steps[r].group.items) {
          const std::vector<ValueId> loads = inline_loads(reader.id);
          if (std::find(loads.begin(), loads.end(), load) == loads.end() || r < s) continue;
          const bool same_pass = r == s && reader.level == store.level && same_place(target) &&
                                 same_shape(domain(*program_, reader), domain(*program_, store));
          const bool earlier_pass = r == s && reader.level < store.level && same_place(target);
          if (!same_pass && !earlier_pass) return false;
        }
    }
  }
  return true;
}

void Plan::keep_overwritten(const ir::Block& block, ValueId region) {
  const std::vector<Step> steps = group_block(block, region);
  for (ValueId id : block.nodes) {
    const Node& node = program_->node(id);
    if (node.op != Op::kLoad || !eager_tensors_.count(node.name) || operand_only(id) ||
        is_scalar(id) || buffer_of(id) >= 0 || read_in_time(id, steps))
      continue;
    buffer_[id] = new_buffer("read", node.dtype, node.shape);
    keep_.insert(id);
  }
}

// What can only be decided once groups are known: expensive values read by several passes, numbers
// of a row that later groups need, and where the next values of carried tiles are written.
Status Plan::keep_expensive(const ir::Block& block, ValueId region) {
  keep_overwritten(block, region);
  for (int round = 0; round < 3; ++round) {
    bool changed = false;
    const std::vector<Step> steps = group_block(block, region);
    std::map<ValueId, std::set<std::pair<size_t, int>>> readers;  // value -> (step, level)
    for (size_t s = 0; s < steps.size(); ++s)
      for (const Item& item : steps[s].group.items) {
        auto visit = [&](auto&& self, ValueId id) -> void {
          std::vector<ValueId> inputs;
          inputs_of(id, &inputs);
          for (ValueId input : inputs) {
            readers[input].insert({s, item.level});
            const Node& node = program_->node(input);
            const bool inline_value =
                buffer_of(input) < 0 &&
                (is_map(node.op) || node.op == Op::kTranspose || node.op == Op::kLoad) &&
                !is_scalar(input) && !is_row_scalar(input);
            if (inline_value) self(self, input);
          }
        };
        if (item.kind == ItemKind::kKeep && !keep_.count(item.id))
          readers[item.id].insert({s, item.level});
        visit(visit, item.id);
      }
    for (ValueId id : block.nodes) {
      const Node& node = program_->node(id);
      const bool recompute =
          !node.label.empty() && std::find(schedule_.recompute.begin(), schedule_.recompute.end(),
                                           node.label) != schedule_.recompute.end();
      if (!is_map(node.op) || buffer_of(id) >= 0 || is_scalar(id) || is_row_scalar(id) || recompute)
        continue;
      if (users(id).size() < 2 || readers[id].size() < 2 || weight(id) < kKeepWeight) continue;
      buffer_[id] = new_buffer("keep", node.dtype, node.shape);
      keep_.insert(id);
      changed = true;
    }
    // One number a row, needed outside the loop that computes it.
    for (size_t s = 0; s < steps.size(); ++s) {
      if (steps[s].group.outer.empty()) continue;
      for (const Item& item : steps[s].group.items) {
        if ((item.kind != ItemKind::kLocal && item.kind != ItemKind::kReduce) || item.buffer >= 0)
          continue;
        bool outside = false;
        for (auto [step, level] : readers[item.id]) outside |= step != s;
        if (!outside) continue;
        const Node& node = program_->node(item.id);
        buffer_[item.id] = new_buffer("row", node.dtype, node.shape);
        changed = true;
      }
    }
    if (!changed) break;
  }
  if (region < 0 || program_->node(region).op != Op::kLoop) return {};

  // The next values of carried tiles.
  const Node& loop = program_->node(region);
  for (size_t k = 0; k < loop.block.yields.size(); ++k) {
    const ValueId next = loop.block.yields[k];
    const int target = loops_.at(region).buffers[k];
    if (target < 0 || buffer_of(next) == target) continue;
    const Node& node = program_->node(next);
    ValueId carried = -1;
    for (ValueId id : loop.block.nodes)
      if (program_->node(id).op == Op::kCarried && program_->node(id).axis == static_cast<int>(k))
        carried = id;
    const bool map = is_map(node.op) && !buffer_.count(next);
    const bool reduce = node.op == Op::kReduce && !buffer_.count(next);
    if (map && !is_row_scalar(next)) keep_.insert(next);
    if (map || reduce) buffer_[next] = target;  // provisional: in place
    if (map || reduce) {
      const std::vector<Step> steps = group_block(loop.block, region);
      size_t home = 0;
      int home_level = 0;
      for (size_t s = 0; s < steps.size(); ++s)
        for (const Item& item : steps[s].group.items)
          if (item.id == next && item.buffer == target) home = s, home_level = item.level;
      bool safe = true;
      for (size_t s = 0; s < steps.size() && carried >= 0; ++s) {
        for (const Item& item : steps[s].group.items) {
          if (!reads(item.id, carried) || (item.id == next && s == home)) continue;
          if (s > home) safe = false;
          // A number of the row is written when the row is done; a tile as its pass goes.
          if (s == home && !is_row_scalar(next) && item.level > home_level) safe = false;
        }
        if (s >= home && steps[s].id >= 0)
          for (const Use& use : users(carried))
            if (use.user == steps[s].id || region_[static_cast<size_t>(use.user)] == steps[s].id)
              safe = false;
      }
      if (safe) {
        if (is_row_scalar(next)) {
          buffer_.erase(next);
          commits_[next] = target;
        }
        continue;
      }
      buffer_[next] = new_buffer("next", node.dtype, node.shape);
    }
    const int from = buffer_of(next);
    if (from < 0) {
      // A source or a load: give it a buffer of its own.
      buffer_[next] = new_buffer("next", node.dtype, node.shape);
      keep_.insert(next);
      copies_[region].push_back({buffer_[next], target});
    } else {
      copies_[region].push_back({from, target});
    }
  }
  return {};
}

std::string Plan::str() const {
  std::string out;
  for (const Buffer& buffer : buffers_) {
    out += "buffer " + buffer.name + " " + std::string(name(buffer.dtype)) + " [";
    for (size_t i = 0; i < buffer.extents.size(); ++i)
      out += (i ? ", " : "") + buffer.extents[i].str();
    out += buffer.product ? "] product\n" : "]\n";
  }
  const char* kinds[] = {"local", "reduce", "column_reduce", "scan", "keep", "store"};
  auto value = [&](ValueId id) {
    const Node& node = program_->node(id);
    return "%" + std::to_string(id) + (node.label.empty() ? "" : " \"" + node.label + "\"");
  };
  auto walk = [&](auto&& self, const ir::Block& block, ValueId region, int indent) -> void {
    const std::string pad(static_cast<size_t>(indent), ' ');
    for (const Step& step : group_block(block, region)) {
      if (step.kind == Step::kGroup) {
        out += pad + "rows [";
        for (size_t i = 0; i < step.group.outer.size(); ++i)
          out += (i ? ", " : "") + step.group.outer[i].str();
        out += "]\n";
        for (const Item& item : step.group.items) {
          out += pad + "  pass " + std::to_string(item.level) + ": " +
                 kinds[static_cast<size_t>(item.kind)] + " " + value(item.id);
          if (item.buffer >= 0) out += " -> " + buffers_[static_cast<size_t>(item.buffer)].name;
          if (item.commit >= 0) out += " => " + buffers_[static_cast<size_t>(item.commit)].name;
          out += "\n";
        }
        continue;
      }
      if (step.kind == Step::kCopy) {
        out += pad + "copy " + buffers_[static_cast<size_t>(step.from)].name + " -> " +
               buffers_[static_cast<size_t>(step.to)].name + "\n";
        continue;
      }
      const Node& node = program_->node(step.id);
      if (step.kind == Step::kPrepare)
        out += pad + "pack " + value(step.id) + " from " + node.name + "\n";
      if (step.kind == Step::kMma)
        out += pad + "product " + value(step.id) + " -> " +
               buffers_[static_cast<size_t>(products_.at(step.id).buffer)].name +
               (products_.at(step.id).zero_first ? " (from zero)\n" : "\n");
      if (step.kind == Step::kWhen) out += pad + "when " + node.expr.str() + "\n";
      if (step.kind == Step::kLoop && node.op == Op::kLoop)
        out += pad + "loop " + node.name + " = " + node.begin.str() + " .. " + node.end.str() +
               " step " + node.step.str() + "\n";
      if (step.kind == Step::kLoop && node.op == Op::kTiles) {
        out += pad + "parallel tiles";
        for (size_t i = 0; i < node.vars.size(); ++i)
          out += " " + node.vars[i] + " < " + node.extents[i].str();
        if (const Gang* together = gang(node.id))
          out += ", " + std::to_string(together->width) + " of " + together->var + " in step";
        out += "\n";
      }
      self(self, node.block, step.id, indent + 2);
    }
  };
  walk(walk, program_->body, -1, 0);
  return out;
}

}  // namespace rooftile::codegen
