// SPDX-License-Identifier: Apache-2.0
// Plan, first half: who uses what, and which values get a buffer. Grouping into row loops is in
// plan_groups.cc.
#include "rooftile/codegen/cpu/plan.h"

#include <algorithm>

namespace rooftile::codegen {

using ir::Node;
using ir::Op;

namespace {

// Neither a loop variable nor an element of an index tensor in it: its value is known when the
// kernel starts.
bool is_closed(const Expr& e, const std::set<std::string>& free) {
  if (e.kind() == ExprKind::kIndexLoad || (e.kind() == ExprKind::kSym && free.count(e.name())))
    return false;
  for (const Expr& sub : e.args())
    if (!is_closed(sub, free)) return false;
  return true;
}

}  // namespace

std::optional<Expr> upper_bound(const Expr& e, const std::set<std::string>& free) {
  if (is_closed(e, free)) return e;
  const std::vector<Expr>& a = e.args();
  auto both = [&](size_t i, size_t j, auto combine) -> std::optional<Expr> {
    auto x = upper_bound(a[i], free), y = upper_bound(a[j], free);
    return x && y ? std::optional<Expr>(combine(*x, *y)) : std::nullopt;
  };
  auto larger = [](const Expr& x, const Expr& y) { return max(x, y); };
  switch (e.kind()) {
    case ExprKind::kMin: {  // either side will do
      auto x = upper_bound(a[0], free), y = upper_bound(a[1], free);
      if (x && y) return min(*x, *y);
      return x ? x : y;
    }
    case ExprKind::kMax:
      return both(0, 1, larger);
    case ExprKind::kSelect:
      return both(1, 2, larger);
    case ExprKind::kAdd:
      return both(0, 1, [](const Expr& x, const Expr& y) { return x + y; });
    case ExprKind::kMul:
      return both(0, 1, [](const Expr& x, const Expr& y) { return x * y; });
    case ExprKind::kFloorDiv: {
      auto x = upper_bound(a[0], free);
      return x && is_closed(a[1], free) ? std::optional<Expr>(*x / a[1]) : std::nullopt;
    }
    default:
      return std::nullopt;
  }
}

namespace {

bool is_map(Op op) {
  return op == Op::kElementwise || op == Op::kSelect || op == Op::kCast || op == Op::kPhilox;
}

Diag placement_error(const ir::Program& program, const Node& node, std::string message,
                     std::string found, std::string expected, std::string fix) {
  Diag diag;
  diag.code = ErrorCode::kPlacement;
  diag.subject = program.name;
  diag.message = std::move(message);
  diag.found = std::move(found);
  diag.expected = std::move(expected);
  diag.fix = std::move(fix);
  diag.at = node.loc;
  return diag;
}

std::string value_name(const Node& node) {
  return node.label.empty() ? "v" + std::to_string(node.id) : node.label;
}

}  // namespace

bool Plan::is_scalar(ValueId id) const {
  for (const Expr& e : program_->node(id).shape)
    if (!e.is_const(1)) return false;
  return true;
}

bool Plan::is_row_scalar(ValueId id) const {
  const Node& node = program_->node(id);
  return !is_scalar(id) && node.shape.back().is_const(1);
}

int Plan::buffer_of(ValueId id) const {
  const Node& node = program_->node(id);
  if (node.op == Op::kCarried || node.op == Op::kResult)
    return loops_.at(node.operands[0]).buffers[static_cast<size_t>(node.axis)];
  auto it = buffer_.find(id);
  return it == buffer_.end() ? -1 : it->second;
}

ValueId Plan::strip_transpose(ValueId id, bool* transposed) const {
  bool flip = false;
  while (program_->node(id).op == Op::kTranspose) {
    flip = !flip;
    id = program_->node(id).operands[0];
  }
  if (transposed) *transposed = flip;
  return id;
}

std::vector<Expr> Plan::outer_of(const std::vector<Expr>& shape) const {
  std::vector<Expr> outer;
  for (size_t d = 0; d + 1 < shape.size(); ++d) outer.push_back(shape[d]);
  if (std::all_of(outer.begin(), outer.end(), [](const Expr& e) { return e.is_const(1); }))
    outer.clear();
  return outer;
}

void Plan::inputs_of(ValueId id, std::vector<ValueId>* out) const {
  const Node& node = program_->node(id);
  if (node.op == Op::kCarried || node.op == Op::kResult) return;
  out->insert(out->end(), node.operands.begin(), node.operands.end());
  for (const ir::DimIndex& dim : node.region)
    if (dim.kind == ir::DimIndex::kIndirect) out->push_back(dim.indirect);
}

bool Plan::operand_only(ValueId id) const {
  if (users(id).empty()) return false;
  for (const Use& use : users(id)) {
    const Node& user = program_->node(use.user);
    if (user.op == Op::kTranspose ? operand_only(use.user) : user.op == Op::kMma && use.operand < 2)
      continue;
    return false;
  }
  return true;
}

bool Plan::is_bounded(const std::vector<Expr>& shape) const {
  return std::all_of(shape.begin(), shape.end(),
                     [&](const Expr& e) { return upper_bound(e, free_).has_value(); });
}

int Plan::new_buffer(const std::string& name, DType dtype, const std::vector<Expr>& shape) {
  Buffer buffer;
  buffer.name = "b" + std::to_string(buffers_.size()) + "_" + name;
  for (char& c : buffer.name)
    if (!isalnum(static_cast<unsigned char>(c))) c = '_';
  buffer.dtype = dtype;
  buffer.extents = shape;  // bounded in make()
  buffers_.push_back(buffer);
  return static_cast<int>(buffers_.size()) - 1;
}

Status Plan::analyse() {
  const size_t n = program_->nodes.size();
  users_.resize(n);
  region_.assign(n, -1);
  auto walk = [&](auto&& self, const ir::Block& block, ValueId region) -> void {
    for (ValueId id : block.nodes) {
      const Node& node = program_->node(id);
      region_[static_cast<size_t>(id)] = region;
      if (node.op != Op::kCarried && node.op != Op::kResult)
        for (size_t i = 0; i < node.operands.size(); ++i)
          users_[static_cast<size_t>(node.operands[i])].push_back({id, static_cast<int>(i)});
      for (size_t d = 0; d < node.region.size(); ++d)
        if (node.region[d].kind == ir::DimIndex::kIndirect)
          users_[static_cast<size_t>(node.region[d].indirect)].push_back(
              {id, 100 + static_cast<int>(d)});
      for (size_t k = 0; k < node.block.yields.size(); ++k)
        users_[static_cast<size_t>(node.block.yields[k])].push_back({id, -1 - static_cast<int>(k)});
      self(self, node.block, id);
    }
  };
  walk(walk, program_->body, -1);

  // Tensors that one phase both reads and writes: what is read must be taken before it is
  // overwritten.
  for (ValueId phase : program_->body.nodes) {
    std::set<std::string> loaded, stored;
    auto scan = [&](auto&& self, const ir::Block& block) -> void {
      for (ValueId id : block.nodes) {
        const Node& node = program_->node(id);
        if (node.op == Op::kLoad) loaded.insert(node.name);
        if (node.op == Op::kStore) stored.insert(node.name);
        self(self, node.block);
      }
    };
    scan(scan, program_->node(phase).block);
    for (const std::string& name : stored) {
      const ir::TensorParam* tensor = program_->tensor(name);
      if (loaded.count(name)) eager_tensors_.insert(name);
      for (const std::string& other : tensor->may_alias)
        if (loaded.count(other)) eager_tensors_.insert(other);
      for (const std::string& other : loaded)
        for (const std::string& alias : program_->tensor(other)->may_alias)
          if (alias == name) eager_tensors_.insert(other);
    }
  }
  return {};
}

Status Plan::plan_loop(const Node& loop) {
  LoopPlan plan;
  for (size_t k = 0; k < loop.operands.size(); ++k) {
    const ValueId init = loop.operands[k];
    const Node& value = program_->node(init);
    plan.skip_init.push_back(false);
    if (is_scalar(init)) {
      plan.buffers.push_back(-1);
      continue;
    }
    // The result of an earlier loop that nothing else needs goes on in the same place.
    if (value.op == Op::kResult && users(init).size() == 1 && buffer_of(init) >= 0) {
      plan.buffers.push_back(buffer_of(init));
      plan.skip_init.back() = true;
      continue;
    }
    plan.buffers.push_back(new_buffer(loop.name + std::to_string(k), value.dtype, value.shape));
  }
  loops_[loop.id] = plan;
  return {};
}

Status Plan::plan_product(const Node& mma, ValueId region) {
  Product product;
  product.a = strip_transpose(mma.operands[0], &product.a_transposed);
  product.b = strip_transpose(mma.operands[1], &product.b_transposed);
  for (ValueId operand : {product.a, product.b}) {
    const Node& node = program_->node(operand);
    if (node.op == Op::kLoad) continue;
    if (!is_map(node.op))
      return placement_error(*program_, mma, "an operand of a product cannot be provided",
                             "`" + value_name(node) + "`",
                             "a loaded tile, or the result of an element-wise operation",
                             "cast or scale it before the product");
    // f16 operands are multiplied as f32 words; the value is rounded to f16 all the same.
    const DType stored = node.dtype == DType::kF16 ? DType::kF32 : node.dtype;
    if (!buffer_.count(operand))
      buffer_[operand] = new_buffer(value_name(node), stored, node.shape);
    buffers_[static_cast<size_t>(buffer_[operand])].dtype = stored;
    if (operand == product.a && !product.a_transposed)
      buffers_[static_cast<size_t>(buffer_[operand])].a_operand = true;
    keep_.insert(operand);
  }
  // Does the sum live in the carried value it replaces? Only if nothing else reads the old one.
  int carried_buffer = -1;
  ValueId carried = -1;
  for (const Use& use : users(mma.id))
    if (use.operand < 0 && use.user == region && region >= 0) {
      const size_t k = static_cast<size_t>(-1 - use.operand);
      for (ValueId id : program_->node(region).block.nodes)
        if (program_->node(id).op == Op::kCarried && program_->node(id).axis == static_cast<int>(k))
          carried = id;
      carried_buffer = loops_.at(region).buffers[k];
    }
  if (carried >= 0) {
    auto only_feeds = [&](auto&& self, ValueId id) -> bool {
      for (const Use& use : users(id)) {
        const Node& user = program_->node(use.user);
        if (use.user == mma.id && use.operand == 2) continue;
        if (use.operand < 0 || !is_map(user.op) ||
            region_[static_cast<size_t>(use.user)] != region || !self(self, use.user))
          return false;
      }
      return true;
    };
    if (!only_feeds(only_feeds, carried)) carried_buffer = -1;
  }
  product.buffer =
      carried_buffer >= 0 ? carried_buffer : new_buffer(value_name(mma), mma.dtype, mma.shape);
  buffers_[static_cast<size_t>(product.buffer)].product = true;
  buffer_[mma.id] = product.buffer;

  const ValueId acc = mma.operands.size() > 2 ? mma.operands[2] : -1;
  if (acc < 0 || (program_->node(acc).op == Op::kFill && program_->node(acc).number == 0)) {
    product.zero_first = true;
  } else if (acc == carried && carried_buffer >= 0) {
    const Node& loop = program_->node(region);
    const Node& init =
        program_->node(loop.operands[static_cast<size_t>(program_->node(carried).axis)]);
    if (init.op == Op::kFill && init.number == 0) {
      product.zero_first = true;
      product.loop = region;
      loops_[region].skip_init[static_cast<size_t>(program_->node(carried).axis)] = true;
    }
  }
  products_[mma.id] = product;
  return {};
}

Status Plan::plan_region(const ir::Block& block, ValueId region) {
  for (ValueId id : block.nodes) {
    const Node& node = program_->node(id);
    if (node.op == Op::kLoop) RT_RETURN_IF_ERROR(plan_loop(node));
    if (node.op == Op::kMma) RT_RETURN_IF_ERROR(plan_product(node, region));
    if (node.op == Op::kScan ||
        (node.op == Op::kReduce && node.axis + 1 != program_->node(node.operands[0]).rank()))
      buffer_[id] = new_buffer(value_name(node), node.dtype, node.shape);
    const bool listed =
        !node.label.empty() &&
        std::find(schedule_.keep.begin(), schedule_.keep.end(), node.label) != schedule_.keep.end();
    bool keep = listed;
    // Unfused: everything that can be stored is.
    if (!schedule_.fuse && (is_map(node.op) || (node.op == Op::kLoad && !operand_only(id))) &&
        is_bounded(node.shape))
      keep = true;
    if (is_map(node.op) || node.op == Op::kReduce)
      for (const Use& use : users(id)) {
        const bool yield = use.operand < 0;
        if ((yield ? use.user : region_[static_cast<size_t>(use.user)]) != region) keep = true;
      }
    if (keep && !is_scalar(id) &&
        (is_map(node.op) || node.op == Op::kLoad || node.op == Op::kReduce)) {
      if (!buffer_.count(id)) buffer_[id] = new_buffer(value_name(node), node.dtype, node.shape);
      if (node.op == Op::kLoad || (is_map(node.op) && !is_row_scalar(id))) keep_.insert(id);
    }
    if (!node.block.nodes.empty()) RT_RETURN_IF_ERROR(plan_region(node.block, id));
  }
  return keep_expensive(block, region);
}

Result<Plan> Plan::make(const ir::Program& program, const Schedule& schedule) {
  Plan plan;
  plan.program_ = &program;
  plan.schedule_ = schedule;
  RT_RETURN_IF_ERROR(plan.analyse());
  for (const std::string& label : schedule.keep) {
    bool found = false;
    for (const Node& node : program.nodes) found |= node.label == label;
    if (!found) {
      Diag diag;
      diag.code = ErrorCode::kSchedule;
      diag.subject = program.name;
      diag.message =
          "the schedule `" + schedule.name + "` keeps a value that the program does not have";
      diag.found = "`" + label + "`";
      diag.fix = "use the label of a node, or name it with .named(\"" + label + "\")";
      return diag;
    }
  }
  for (const Node& node : program.nodes) {
    if (node.op == Op::kLoop) plan.free_.insert(node.name);
    plan.free_.insert(node.vars.begin(), node.vars.end());
  }
  RT_RETURN_IF_ERROR(plan.plan_region(program.body, -1));
  for (const auto& [var, width] : schedule.gang) RT_RETURN_IF_ERROR(plan.plan_gang(var, width));
  for (Buffer& buffer : plan.buffers_)
    for (Expr& extent : buffer.extents) {
      auto bound = upper_bound(extent, plan.free_);
      if (!bound) {
        Diag diag;
        diag.code = ErrorCode::kPlacement;
        diag.subject = program.name;
        diag.message = "no bound is known for a tile that must be stored";
        diag.argument = buffer.name;
        diag.found = "extent " + extent.str();
        diag.expected = "an extent that is bounded by a tile parameter or a dimension";
        diag.fix =
            "take the tile with block(i, SIZE, TOTAL), or write its extent as min(SIZE, ...)";
        return diag;
      }
      extent = *bound;
    }
  return plan;
}

}  // namespace rooftile::codegen
