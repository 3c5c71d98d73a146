// SPDX-License-Identifier: Apache-2.0
#include "rooftile/ir/node_rules.h"

#include <algorithm>
#include <array>

namespace rooftile::ir {
namespace {

using Rule = Verdict (*)(const Program&, const Node&);

const Node& operand(const Program& p, const Node& n, size_t i) { return p.node(n.operands[i]); }
std::string type_of(const Node& n) { return type_str(n.dtype, n.shape); }

// The node's own type must be `dtype` and `shape`.
Verdict expect_type(const Node& n, DType dtype, const Shape& shape) {
  if (n.dtype == dtype && same_shape(n.shape, shape)) return {};
  return Problem{"result type is wrong", type_of(n), type_str(dtype, shape)};
}

Verdict check_axis(const Node& n, const Shape& shape) {
  if (n.axis >= 0 && n.axis < static_cast<int>(shape.size())) return {};
  return Problem{"axis is out of range", std::to_string(n.axis),
                 "0 <= axis < " + std::to_string(shape.size())};
}

// ---- sources
// -----------------------------------------------------------------------------------------------

Verdict fill_rule(const Program&, const Node&) { return {}; }

Verdict scalar_rule(const Program& p, const Node& n) {
  const ScalarParam* scalar = p.scalar(n.name);
  if (scalar == nullptr || !scalar->is_float)
    return Problem{"no float attribute is called `" + n.name + "`", n.name,
                   "a declared float scalar"};
  return expect_type(n, DType::kF32, {});
}

Verdict from_index_rule(const Program&, const Node& n) { return expect_type(n, DType::kI64, {}); }

Verdict iota_rule(const Program&, const Node& n) {
  if (n.dtype != DType::kI32) return Problem{"result type is wrong", type_of(n), "i32"};
  return check_axis(n, n.shape);
}

Verdict loop_value_rule(const Program& p, const Node& n) {
  const Node& loop = operand(p, n, 0);
  if (loop.op != Op::kLoop)
    return Problem{"operand is not a loop", std::string(op_name(loop.op)), "loop"};
  if (n.axis < 0 || n.axis >= static_cast<int>(loop.operands.size()))
    return Problem{"the loop has no such carried value", std::to_string(n.axis),
                   "0 <= index < " + std::to_string(loop.operands.size())};
  const Node& init = operand(p, loop, static_cast<size_t>(n.axis));
  return expect_type(n, init.dtype, init.shape);
}

// ---- movement
// ----------------------------------------------------------------------------------------------

Verdict dim_rule(const Program& p, const TensorParam& t, const DimIndex& dim, size_t d) {
  const std::string what = "dimension " + std::to_string(d) + " of `" + t.name + "`";
  if (dim.kind == DimIndex::kPoint)
    return dim.tile_axis == -1 ? Verdict()
                               : Problem{what + " is a point with a tile axis",
                                         std::to_string(dim.tile_axis), "-1"};
  if (dim.tile_axis < 0)
    return Problem{what + " has no tile axis", std::to_string(dim.tile_axis), ">= 0"};
  if (dim.kind == DimIndex::kRange) {
    if (dim.step < 1)
      return Problem{what + " has a step below 1", std::to_string(dim.step), ">= 1"};
    if (dim.extent.is_const() && dim.extent.value() < 0)
      return Problem{what + " has a negative extent", dim.extent.str(), ">= 0"};
    // What constants alone show; the rest is the interpreter's and the prover's.
    const Expr& total = t.shape[d];
    if (dim.begin.is_const() && dim.extent.is_const() && total.is_const() &&
        dim.extent.value() > 0) {
      const int64_t last = dim.begin.value() + (dim.extent.value() - 1) * dim.step;
      if (dim.begin.value() < 0 || last >= total.value())
        return Problem{what + " is out of range",
                       std::to_string(dim.begin.value()) + ".." + std::to_string(last),
                       "0 <= index < " + total.str()};
    }
    return {};
  }
  if (dim.indirect < 0 || dim.indirect >= static_cast<int>(p.nodes.size()))
    return Problem{what + " has no index tile", std::to_string(dim.indirect), "a value"};
  const Node& index = p.node(dim.indirect);
  if (index.rank() != 1 || !is_integer(index.dtype))
    return Problem{what + " is indexed by a tile that is not a list of integers", type_of(index),
                   "a rank-1 integer tile"};
  return {};
}

// `rank`: of the tile that is loaded or stored. Axes that no dimension walks have extent 1.
Verdict region_rule(const Program& p, const Node& n, int rank) {
  const TensorParam* t = p.tensor(n.name);
  if (t == nullptr)
    return Problem{"no tensor is called `" + n.name + "`", n.name, "a declared tensor"};
  if (n.region.size() != t->shape.size())
    return Problem{"`" + n.name + "` is indexed with the wrong number of dimensions",
                   std::to_string(n.region.size()), std::to_string(t->shape.size())};
  // What walks each axis: nothing, one range, or any number of indirect dimensions.
  std::vector<std::optional<DimIndex::Kind>> walker(static_cast<size_t>(rank));
  for (size_t d = 0; d < n.region.size(); ++d) {
    const DimIndex& dim = n.region[d];
    if (Verdict v = dim_rule(p, *t, dim, d)) return v;
    if (dim.tile_axis < 0) continue;
    if (dim.tile_axis >= rank)
      return Problem{"tile axis is out of range", std::to_string(dim.tile_axis),
                     "below rank " + std::to_string(rank)};
    auto& axis = walker[static_cast<size_t>(dim.tile_axis)];
    const bool shared = axis == DimIndex::kIndirect && dim.kind == DimIndex::kIndirect;
    if (axis && !shared)
      return Problem{"two dimensions of `" + n.name + "` walk the same tile axis",
                     std::to_string(dim.tile_axis),
                     "an axis a range; indirect dimensions share one"};
    axis = dim.kind;
  }
  const Shape shape = region_shape(p, n.region, rank);
  for (const DimIndex& dim : n.region)
    if (dim.kind == DimIndex::kIndirect) {
      const Expr& length = p.node(dim.indirect).shape[0];
      const Expr& axis_extent = shape[static_cast<size_t>(dim.tile_axis)];
      if (!length.same_as(axis_extent))
        return Problem{"index tiles of `" + n.name + "` differ in length", length.str(),
                       axis_extent.str()};
    }
  return {};
}

Verdict load_rule(const Program& p, const Node& n) {
  if (Verdict v = region_rule(p, n, n.rank())) return v;
  return expect_type(n, p.tensor(n.name)->dtype, region_shape(p, n.region, n.rank()));
}

Verdict store_rule(const Program& p, const Node& n) {
  const Node& value = operand(p, n, 0);
  if (Verdict v = region_rule(p, n, value.rank())) return v;
  const TensorParam& t = *p.tensor(n.name);
  if (t.role == Role::kIn)
    return Problem{"store to the input `" + n.name + "`", "role in",
                   "role out, inout or workspace"};
  if (n.mode == StoreMode::kAdd && t.dtype != DType::kF32 && t.dtype != DType::kI32 &&
      t.dtype != DType::kI64)
    return Problem{"store_add to `" + n.name + "`", std::string(name(t.dtype)), "f32, i32 or i64"};
  const Shape shape = region_shape(p, n.region, value.rank());
  if (value.dtype == t.dtype && same_shape(value.shape, shape)) return {};
  return Problem{"stored tile and region of `" + n.name + "` differ in type", type_of(value),
                 type_str(t.dtype, shape)};
}

// ---- compute
// -----------------------------------------------------------------------------------------------

// The common shape of all operands, or the problem.
Verdict broadcast_rule(const Program& p, const Node& n, DType dtype) {
  Shape shape;
  for (size_t i = 0; i < n.operands.size(); ++i) {
    auto wider = broadcast(shape, operand(p, n, i).shape);
    if (!wider)
      return Problem{"operands do not broadcast",
                     shape_str(shape) + " and " + shape_str(operand(p, n, i).shape),
                     "equal ranks (or rank 0), extents equal or 1"};
    shape = *wider;
  }
  return expect_type(n, dtype, shape);
}

bool class_takes(EwClass cls, DType dtype) {
  switch (cls) {
    case EwClass::F:
      return dtype == DType::kF32;
    case EwClass::N:
    case EwClass::P:
      return is_arithmetic(dtype);
    case EwClass::I:
      return is_integer(dtype);
    case EwClass::B:
      return dtype == DType::kBool;
  }
  return false;
}

Verdict elementwise_rule(const Program& p, const Node& n) {
  const EwInfo& op = ew_info(n.ew);
  if (static_cast<int>(n.operands.size()) != op.arity)
    return Problem{"`" + std::string(op.name) + "` has the wrong number of operands",
                   std::to_string(n.operands.size()), std::to_string(op.arity)};
  const DType dtype = operand(p, n, 0).dtype;
  for (size_t i = 0; i < n.operands.size(); ++i) {
    const DType d = operand(p, n, i).dtype;
    if (d != dtype || !class_takes(op.cls, d))
      return Problem{"`" + std::string(op.name) + "` does not take these dtypes",
                     std::string(name(dtype)) + ", " + std::string(name(d)),
                     "equal dtypes of its class; narrow floats are cast to f32 first"};
  }
  const bool gives_bool = op.cls == EwClass::P || op.cls == EwClass::B;
  return broadcast_rule(p, n, gives_bool ? DType::kBool : dtype);
}

Verdict select_rule(const Program& p, const Node& n) {
  const Node &cond = operand(p, n, 0), &a = operand(p, n, 1), &b = operand(p, n, 2);
  if (cond.dtype != DType::kBool)
    return Problem{"condition of select is not bool", type_of(cond), "bool"};
  if (a.dtype != b.dtype || is_narrow_float(a.dtype))
    return Problem{"values of select differ in dtype or are narrow floats",
                   type_of(a) + ", " + type_of(b), "equal dtypes"};
  return broadcast_rule(p, n, a.dtype);
}

Verdict cast_rule(const Program& p, const Node& n) {
  return expect_type(n, n.dtype, operand(p, n, 0).shape);
}

Verdict reduce_rule(const Program& p, const Node& n) {
  const Node& x = operand(p, n, 0);
  if (Verdict v = check_axis(n, x.shape)) return v;
  if (!is_arithmetic(x.dtype))
    return Problem{"operand has no arithmetic", type_of(x), "f32 or an integer dtype"};
  Shape shape = x.shape;
  if (n.op == Op::kReduce) shape[static_cast<size_t>(n.axis)] = 1;
  const bool position = n.op == Op::kReduce && n.reduce == ReduceKind::kArgMax;
  if (n.op == Op::kScan && n.reduce != ReduceKind::kSum && n.reduce != ReduceKind::kMax)
    return Problem{"scan of this kind does not exist", std::string(reduce_name(n.reduce)),
                   "sum or max"};
  return expect_type(n, position ? DType::kI32 : x.dtype, shape);
}

Verdict mma_rule(const Program& p, const Node& n) {
  const Node &a = operand(p, n, 0), &b = operand(p, n, 1);
  auto is_bytes = [](DType d) { return d == DType::kI8 || d == DType::kU8; };
  const bool floats = a.dtype == b.dtype &&
                      (a.dtype == DType::kBf16 || a.dtype == DType::kF16 || a.dtype == DType::kF32);
  const bool bytes = is_bytes(a.dtype) && is_bytes(b.dtype);
  if (a.rank() != 2 || b.rank() != 2 || !a.shape[1].same_as(b.shape[0]) || !(floats || bytes))
    return Problem{"operands do not form a product", type_of(a) + " x " + type_of(b),
                   "[M, K] x [K, N], both bf16, f16 or f32, or i8/u8"};
  if (n.operands.size() == 3) {
    const Node& acc = operand(p, n, 2);
    if (acc.dtype != n.dtype || !same_shape(acc.shape, n.shape))
      return Problem{"accumulator and product differ in type", type_of(acc), type_of(n)};
  }
  return expect_type(n, bytes ? DType::kI32 : DType::kF32, {a.shape[0], b.shape[1]});
}

Verdict transpose_rule(const Program& p, const Node& n) {
  const Node& x = operand(p, n, 0);
  if (x.rank() != 2)
    return Problem{"transpose of a tile that is not a matrix", type_of(x), "rank 2"};
  return expect_type(n, x.dtype, {x.shape[1], x.shape[0]});
}

Verdict philox_rule(const Program& p, const Node& n) {
  const Node& counter = operand(p, n, 0);
  if (counter.dtype != DType::kI32 && counter.dtype != DType::kI64)
    return Problem{"counter is not i32 or i64", type_of(counter), "i32 or i64"};
  for (size_t i : {1, 2})
    if (operand(p, n, i).dtype != DType::kI64 || operand(p, n, i).rank() != 0)
      return Problem{"seed and offset are not rank-0 i64", type_of(operand(p, n, i)), "i64[]"};
  return expect_type(n, DType::kU32, counter.shape);
}

// ---- regions
// -----------------------------------------------------------------------------------------------

Verdict loop_rule(const Program& p, const Node& n) {
  if (n.step.is_const() && n.step.value() < 1)
    return Problem{"loop step is below 1", n.step.str(), ">= 1"};
  const auto& yields = n.block.yields;
  if (yields.size() != n.operands.size())
    return Problem{"loop yields another number of values than it carries",
                   std::to_string(yields.size()), std::to_string(n.operands.size())};
  for (size_t i = 0; i < yields.size(); ++i) {
    if (yields[i] < 0 || yields[i] >= static_cast<int>(p.nodes.size()))
      return Problem{"loop yields a value that does not exist", std::to_string(yields[i]),
                     "a value"};
    const Node &init = operand(p, n, i), &next = p.node(yields[i]);
    if (!next.has_value() || next.dtype != init.dtype || !same_shape(next.shape, init.shape))
      return Problem{"loop changes the type of carried value " + std::to_string(i), type_of(next),
                     type_of(init)};
  }
  return {};
}

Verdict when_rule(const Program&, const Node& n) {
  if (n.block.yields.empty()) return {};
  return Problem{"a conditional yields values", std::to_string(n.block.yields.size()),
                 "effects only"};
}

Verdict tiles_rule(const Program&, const Node& n) {
  if (!n.block.yields.empty())
    return Problem{"a parallel space yields values", std::to_string(n.block.yields.size()),
                   "effects only"};
  if (!n.vars.empty() && n.vars.size() == n.extents.size()) return {};
  return Problem{
      "parallel space needs an extent for each index",
      std::to_string(n.vars.size()) + " indices, " + std::to_string(n.extents.size()) + " extents",
      "as many of each, at least one"};
}

// ---- the table
// ---------------------------------------------------------------------------------------------

struct OpRule {
  Op op;
  int min_operands, max_operands;  // max -1: any number
  Rule check;
};
constexpr std::array<OpRule, 19> kRules = {{
    {Op::kFill, 0, 0, fill_rule},
    {Op::kScalar, 0, 0, scalar_rule},
    {Op::kFromIndex, 0, 0, from_index_rule},
    {Op::kIota, 0, 0, iota_rule},
    {Op::kCarried, 1, 1, loop_value_rule},
    {Op::kResult, 1, 1, loop_value_rule},
    {Op::kLoad, 0, 0, load_rule},
    {Op::kStore, 1, 1, store_rule},
    {Op::kElementwise, 1, 2, elementwise_rule},
    {Op::kSelect, 3, 3, select_rule},
    {Op::kCast, 1, 1, cast_rule},
    {Op::kReduce, 1, 1, reduce_rule},
    {Op::kScan, 1, 1, reduce_rule},
    {Op::kMma, 2, 3, mma_rule},
    {Op::kTranspose, 1, 1, transpose_rule},
    {Op::kPhilox, 3, 3, philox_rule},
    {Op::kLoop, 0, -1, loop_rule},
    {Op::kWhen, 0, 0, when_rule},
    {Op::kTiles, 0, 0, tiles_rule},
}};

}  // namespace

Verdict check_node(const Program& program, const Node& node) {
  const OpRule& rule = kRules[static_cast<size_t>(node.op)];
  const int count = static_cast<int>(node.operands.size());
  if (count < rule.min_operands || (rule.max_operands >= 0 && count > rule.max_operands))
    return Problem{"wrong number of operands", std::to_string(count),
                   std::to_string(rule.min_operands)};
  if (node.rank() > 4) return Problem{"tile of rank above 4", type_of(node), "rank 0 to 4"};
  const bool refers_to_loop = node.op == Op::kCarried || node.op == Op::kResult;
  for (size_t i = 0; i < node.operands.size(); ++i)
    if (!refers_to_loop && !operand(program, node, i).has_value())
      return Problem{"operand has no value", node_str(operand(program, node, i)), "a tile"};
  return rule.check(program, node);
}

}  // namespace rooftile::ir
