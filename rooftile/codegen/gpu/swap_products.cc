// SPDX-License-Identifier: Apache-2.0
#include "rooftile/codegen/gpu/swap_products.h"

#include <set>
#include <utility>

#include "rooftile/codegen/gpu/place.h"

namespace rooftile::codegen {

using ir::Node;
using ir::Op;
using ir::ValueId;

namespace {

bool is_swapped(const gpu::Plan& plan, const Node& product) {
  const auto it = plan.product.find(product.label);
  return it != plan.product.end() && it->second.swap;
}

class Swapper {
 public:
  Swapper(ir::Program program, const gpu::Plan& plan) : program_(std::move(program)), plan_(plan) {}

  Result<ir::Program> run(ValueId phase) {
    RT_RETURN_IF_ERROR(find_operands(program_.node(phase).block));
    RT_RETURN_IF_ERROR(find_users(program_.node(phase).block));
    swap(phase);
    RT_RETURN_IF_ERROR(ir::verify(program_));
    return std::move(program_);
  }

 private:
  Diag refuse(const Node& node, std::string message, std::string expected) const {
    Diag diag;
    diag.code = ErrorCode::kPlacement;
    diag.subject = program_.name;
    diag.argument = node.label;
    diag.message = std::move(message);
    diag.expected = std::move(expected);
    diag.at = node.loc;
    return diag;
  }

  // Loads behind products, and the transposes and widenings on the way, keep their axes.
  Status find_operands(const ir::Block& block) {
    for (ValueId id : block.nodes) {
      const Node& node = program_.node(id);
      RT_RETURN_IF_ERROR(find_operands(node.block));
      if (node.op != Op::kMma) continue;
      if (!is_swapped(plan_, node))
        return refuse(node, "products of a phase are swapped together",
                      "`swap` for each of them, or for none");
      for (size_t side = 0; side < 2; ++side) {
        const ValueId source = operand_source(program_, node.operands[side]);
        if (program_.node(source).op != Op::kLoad)
          return refuse(node, "a swapped product takes both operands from memory",
                        "operands that are loaded, not computed");
        for (ValueId at = node.operands[side]; at != source; at = program_.node(at).operands[0])
          kept_.insert(at);
        kept_.insert(source);
      }
    }
    return {};
  }

  Status find_users(const ir::Block& block) const {
    for (ValueId id : block.nodes) {
      const Node& node = program_.node(id);
      RT_RETURN_IF_ERROR(find_users(node.block));
      if (node.op == Op::kMma || kept_.count(id) != 0) continue;
      for (ValueId operand : node.operands)
        if (kept_.count(operand) != 0)
          return refuse(node, "an operand of a swapped product is read by the product alone",
                        "a load of its own");
    }
    return {};
  }

  static void turn(std::vector<ir::DimIndex>& region) {
    for (ir::DimIndex& dim : region)
      if (dim.tile_axis >= 0) dim.tile_axis = 1 - dim.tile_axis;
  }

  void swap(ValueId region) {
    std::vector<ValueId> nodes = program_.node(region).block.nodes, out;
    for (ValueId id : nodes) {
      if (program_.node(id).op == Op::kMma) swap_product(id, out);
      out.push_back(id);
      Node& node = program_.node(id);
      if (node.op == Op::kStore && program_.node(node.operands[0]).rank() == 2) turn(node.region);
      if (node.rank() == 2 && kept_.count(id) == 0) {
        std::swap(node.shape[0], node.shape[1]);
        if (node.op == Op::kLoad) turn(node.region);
        if (node.op == Op::kIota || node.op == Op::kReduce || node.op == Op::kScan)
          node.axis = 1 - node.axis;
      }
      if (!node.block.nodes.empty()) swap(id);
    }
    program_.node(region).block.nodes = std::move(out);
  }

  void swap_product(ValueId id, std::vector<ValueId>& out) {
    const ValueId left = transposed(program_.node(id).operands[1], out);
    const ValueId right = transposed(program_.node(id).operands[0], out);
    program_.node(id).operands[0] = left;
    program_.node(id).operands[1] = right;
  }

  ValueId transposed(ValueId operand, std::vector<ValueId>& out) {
    const Node& from = program_.node(operand);
    if (from.op == Op::kTranspose) return from.operands[0];
    Node node;
    node.id = static_cast<ValueId>(program_.nodes.size());
    node.op = Op::kTranspose;
    node.dtype = from.dtype;
    node.shape = {from.shape[1], from.shape[0]};
    node.operands = {operand};
    node.loc = from.loc;
    kept_.insert(node.id);
    out.push_back(node.id);
    program_.nodes.push_back(node);
    return node.id;
  }

  ir::Program program_;
  const gpu::Plan& plan_;
  std::set<ValueId> kept_;
};

bool any_swapped(const ir::Program& program, const gpu::Plan& plan, const ir::Block& block) {
  for (ValueId id : block.nodes) {
    const Node& node = program.node(id);
    if (node.op == Op::kMma && is_swapped(plan, node)) return true;
    if (any_swapped(program, plan, node.block)) return true;
  }
  return false;
}

}  // namespace

bool swaps_products(const ir::Program& program, const gpu::Plan& plan, ValueId phase) {
  return any_swapped(program, plan, program.node(phase).block);
}

Result<ir::Program> swap_products(const ir::Program& program, const gpu::Plan& plan,
                                  ValueId phase) {
  return Swapper(program, plan).run(phase);
}

}  // namespace rooftile::codegen
