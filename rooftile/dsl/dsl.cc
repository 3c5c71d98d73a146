// SPDX-License-Identifier: Apache-2.0
// Kernel: arguments, movement and regions. What tiles compute, and the typing of it, is in
// tile_ops.cc.
//
// Building never stops at a mistake: the first one is kept, a placeholder of a plausible type
// stands in, and finish() reports it. What the builder does not check (scoping, symbols, phases)
// ir::verify does.
#include "rooftile/dsl/dsl.h"

#include <algorithm>

#include "rooftile/ir/types.h"

namespace rooftile::dsl {

using ir::Node;
using ir::Op;

Kernel::Kernel(ir::Program interface) : program_(std::move(interface)), block_stack_(1) {}

void Kernel::fail(ErrorCode code, std::string message, Where where, std::string found,
                  std::string expected, std::string fix) {
  if (!first_error_.ok()) return;
  Diag diag;
  diag.code = code;
  diag.subject = program_.name;
  diag.message = std::move(message);
  diag.found = std::move(found);
  diag.expected = std::move(expected);
  diag.fix = std::move(fix);
  if (where.line() != 0) diag.at = SourceLoc::from(where);
  first_error_ = std::move(diag);
}

ir::ValueId Kernel::append(Node node, Where where) {
  node.id = static_cast<ir::ValueId>(program_.nodes.size());
  if (where.line() != 0) node.loc = SourceLoc::from(where);
  if (!node.label.empty() && !labels_.insert(node.label).second)
    fail(ErrorCode::kIrStructure, "two nodes are labelled `" + node.label + "`", where, "",
         "labels are unique, a schedule refers to nodes by them", "give one of them another label");
  block_stack_.back().nodes.push_back(node.id);
  program_.nodes.push_back(std::move(node));
  return program_.nodes.back().id;
}

Tile Kernel::add_node(Node node, Where where) { return {this, append(std::move(node), where)}; }

Tile Kernel::placeholder(std::vector<Expr> shape, DType dtype, Where where) {
  Node node;
  node.op = Op::kFill;
  node.dtype = dtype;
  node.shape = std::move(shape);
  return add_node(std::move(node), where);
}

void Kernel::set_label(const Tile& tile, std::string label, Where where) {
  if (program_.node(tile.id()).label == label) return;
  if (!labels_.insert(label).second)
    fail(ErrorCode::kIrStructure, "two nodes are labelled `" + label + "`", where, "",
         "labels are unique, a schedule refers to nodes by them", "give one of them another label");
  Node& node = program_.node(tile.id());
  labels_.erase(node.label);
  node.label = std::move(label);
}

// ---- arguments
// ---------------------------------------------------------------------------------------------

Tensor Kernel::operator[](TensorName tensor) {
  if (const ir::TensorParam* param = program_.tensor(tensor.name))
    return {param->name, param->dtype, param->shape};
  std::string known;
  for (const ir::TensorParam& t : program_.tensors) known += (known.empty() ? "" : ", ") + t.name;
  fail(ErrorCode::kIrStructure, "no tensor is called `" + tensor.name + "`", tensor.at, tensor.name,
       "one of " + known, "declare it in the OpDef, or ask has() first if it is optional");
  return {tensor.name, DType::kF32, std::vector<Expr>(8, Expr(1))};
}

bool Kernel::has(std::string_view tensor_name) const {
  return program_.tensor(tensor_name) != nullptr;
}

Index Kernel::tile_param(std::string_view name) {
  auto& params = program_.tile_params;
  if (std::find(params.begin(), params.end(), name) == params.end()) params.emplace_back(name);
  return Expr::sym(std::string(name));
}

Tensor Kernel::workspace(std::string name, DType dtype, std::vector<Expr> shape, Where where) {
  if (has(name))
    fail(ErrorCode::kIrStructure, "workspace `" + name + "` has the name of another tensor", where,
         name, "a name of its own", "rename the workspace");
  ir::TensorParam param;
  param.name = name;
  param.dtype = dtype;
  param.shape = shape;
  param.role = ir::Role::kWorkspace;
  param.align_bytes = 64;
  param.loc = SourceLoc::from(where);
  program_.tensors.push_back(std::move(param));
  return {std::move(name), dtype, std::move(shape)};
}

// ---- sources
// -----------------------------------------------------------------------------------------------

Tile Kernel::scalar(std::string_view attr, Where where) {
  const ir::ScalarParam* param = program_.scalar(attr);
  if (param == nullptr || !param->is_float)
    fail(ErrorCode::kIrStructure, "no float attribute is called `" + std::string(attr) + "`", where,
         param == nullptr ? "" : "an integer attribute", "a float attribute of the OpDef",
         param == nullptr ? "declare it with attr()" : "use index(int_attr(...))");
  Node node;
  node.op = Op::kScalar;
  node.name = attr;
  return add_node(std::move(node), where);
}

Tile Kernel::index(const Expr& value, Where where) {
  Node node;
  node.op = Op::kFromIndex;
  node.dtype = DType::kI64;
  node.expr = value;
  return add_node(std::move(node), where);
}

Tile Kernel::full(std::vector<Expr> shape, double value, DType dtype, Where where) {
  Node node;
  node.op = Op::kFill;
  node.dtype = dtype;
  node.shape = std::move(shape);
  node.number = value;
  return add_node(std::move(node), where);
}

Tile Kernel::iota(const Expr& extent, const Expr& begin, Where where) {
  return iota(std::vector<Expr>{extent}, 0, begin, where);
}

Tile Kernel::iota(std::vector<Expr> shape, int axis, const Expr& begin, Where where) {
  Node node;
  node.op = Op::kIota;
  node.dtype = DType::kI32;
  node.shape = std::move(shape);
  node.axis = axis;
  node.expr = begin;
  return add_node(std::move(node), where);
}

// ---- regions
// -----------------------------------------------------------------------------------------------

ir::Block Kernel::build_block(const std::function<void()>& body) {
  block_stack_.emplace_back();
  body();
  ir::Block block;
  block.nodes = std::move(block_stack_.back().nodes);
  block_stack_.pop_back();
  return block;
}

std::vector<Tile> Kernel::loop(std::string var, const Expr& begin, const Expr& end,
                               const Expr& step, std::vector<Tile> init, const LoopBody& body,
                               Where where) {
  Node node;
  node.op = Op::kLoop;
  node.name = var;
  node.begin = begin;
  node.end = end;
  node.step = step;
  for (Tile& tile : init) {
    if (!tile.valid()) {
      fail(ErrorCode::kIrStructure, "loop `" + var + "` carries an empty tile", where, "Tile()",
           "a tile that a kernel made", "start from zeros() or full()");
      tile = placeholder({}, DType::kF32, where);
    }
    node.operands.push_back(tile.id());
  }
  const ir::ValueId loop_id = append(std::move(node), where);
  auto stand_for = [&](Op op, size_t i) {
    Node value;
    value.op = op;
    value.axis = static_cast<int>(i);
    value.operands = {loop_id};
    value.dtype = init[i].dtype();
    value.shape = init[i].shape();
    return add_node(std::move(value), where);
  };

  std::vector<ir::ValueId> yields;
  ir::Block block = build_block([&] {
    std::vector<Tile> carried;
    for (size_t i = 0; i < init.size(); ++i) carried.push_back(stand_for(Op::kCarried, i));
    std::vector<Tile> next = body(Expr::sym(var), carried);
    if (next.size() != init.size()) {
      fail(ErrorCode::kIrStructure,
           "loop `" + var + "` returns another number of tiles than it carries", where,
           std::to_string(next.size()), std::to_string(init.size()),
           "return the next value of each carried tile, in order");
      next.resize(init.size());
    }
    for (size_t i = 0; i < next.size(); ++i) {
      const Tile& tile = next[i];
      if (!tile.valid() || tile.dtype() != init[i].dtype() ||
          !ir::same_shape(tile.shape(), init[i].shape()))
        fail(ErrorCode::kIrType,
             "loop `" + var + "` changes the type of carried value " + std::to_string(i), where,
             tile.valid() ? ir::type_str(tile.dtype(), tile.shape()) : "an empty tile",
             ir::type_str(init[i].dtype(), init[i].shape()),
             "carried tiles keep shape and dtype; arithmetic on narrow floats gives f32");
      yields.push_back(tile.valid() ? tile.id() : carried[i].id());
    }
  });
  block.yields = std::move(yields);
  program_.node(loop_id).block = std::move(block);

  std::vector<Tile> results;
  for (size_t i = 0; i < init.size(); ++i) results.push_back(stand_for(Op::kResult, i));
  return results;
}

void Kernel::loop(std::string var, const Expr& begin, const Expr& end, const Expr& step,
                  const std::function<void(Index)>& body, Where where) {
  loop(
      std::move(var), begin, end, step, std::vector<Tile>{},
      [&](Index i, std::vector<Tile>) {
        body(i);
        return std::vector<Tile>{};
      },
      where);
}

void Kernel::when(const Expr& condition, const std::function<void()>& body, Where where) {
  Node node;
  node.op = Op::kWhen;
  node.expr = condition;
  const ir::ValueId id = append(std::move(node), where);
  ir::Block block = build_block(body);
  program_.node(id).block = std::move(block);
}

void Kernel::tiles_node(std::vector<Axis> axes, const TilesBody& body, Where where) {
  if (block_stack_.size() > 1)
    fail(ErrorCode::kIrStructure, "tiles() inside another region", where,
         "nesting depth " + std::to_string(block_stack_.size() - 1),
         "tiles() at the top level only",
         "use loop() inside, or make the inner axis one more axis of the outer tiles()");
  if (axes.empty() || (body.num_indices != 0 && body.num_indices != axes.size()))
    return fail(ErrorCode::kIrStructure, "the body of tiles() takes another number of indices",
                where, std::to_string(body.num_indices) + " parameters",
                std::to_string(axes.size()) + " axes",
                "take one Index for each axis, or one std::vector<Index>");
  Node node;
  node.op = Op::kTiles;
  std::vector<Index> indices;
  for (Axis& axis : axes) {
    indices.push_back(Expr::sym(axis.var));
    node.vars.push_back(std::move(axis.var));
    node.extents.push_back(std::move(axis.extent));
  }
  const ir::ValueId id = append(std::move(node), where);
  ir::Block block = build_block([&] { body.run(indices); });
  program_.node(id).block = std::move(block);
}

Result<ir::Program> Kernel::finish() {
  program_.body.nodes = std::move(block_stack_.front().nodes);
  block_stack_.assign(1, {});
  if (!first_error_.ok()) return first_error_.diag();
  RT_RETURN_IF_ERROR(ir::verify(program_));
  return std::move(program_);
}

}  // namespace rooftile::dsl
