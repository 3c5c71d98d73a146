// SPDX-License-Identifier: Apache-2.0
// Loads and stores: how the arguments of `k["x"](row, all)` become the addressed dimensions of a
// node.
//
// Ranges and new axes give the axes of the tile in order. All indirect dimensions share one axis,
// which stands where the first of them stands.
#include <algorithm>

#include "rooftile/dsl/dsl.h"
#include "rooftile/ir/types.h"

namespace rooftile::dsl {

using ir::DimIndex;
using ir::Node;
using ir::Op;

namespace {

bool is_new_axis(const DimArg& arg) { return std::holds_alternative<NewAxis>(arg); }

}  // namespace

// The tensor, if it exists and is indexed with its rank; null after a mistake.
const ir::TensorParam* Kernel::region_tensor(const Region& region, Where where) {
  const ir::TensorParam* tensor = program_.tensor(region.tensor);
  if (tensor == nullptr) {
    fail(ErrorCode::kIrStructure, "no tensor is called `" + region.tensor + "`", where,
         region.tensor, "a tensor of this kernel", "take it from k[...] or k.workspace(...)");
    return nullptr;
  }
  const auto num_new = std::count_if(region.dims.begin(), region.dims.end(), is_new_axis);
  const size_t num_dims = region.dims.size() - static_cast<size_t>(num_new);
  if (tensor->shape.size() == num_dims) return tensor;
  fail(ErrorCode::kIrType, "`" + region.tensor + "` is indexed with the wrong number of dimensions",
       where, std::to_string(num_dims) + " indices",
       std::to_string(tensor->shape.size()) + ", its shape is " + ir::shape_str(tensor->shape),
       "give one index, range or `all` for each dimension");
  return nullptr;
}

// A rank-1 integer tile as long as the other index tiles of the region; false after a mistake.
bool Kernel::check_index_tile(const Region& region, size_t position, const Tile& first,
                              Where where) {
  const Tile& index = std::get<Tile>(region.dims[position]);
  const std::string what = "index " + std::to_string(position) + " of `" + region.tensor + "`";
  if (!index.valid()) {
    fail(ErrorCode::kIrStructure, what + " is an empty tile", where, "Tile()",
         "a rank-1 integer tile", "load the indices first");
    return false;
  }
  if (index.shape().size() != 1 || !ir::is_integer(index.dtype())) {
    fail(ErrorCode::kIrType, what + " is not a list of integers", where,
         ir::type_str(index.dtype(), index.shape()), "a rank-1 integer tile",
         "for a single element use Tensor::at(...), which gives an Index");
    return false;
  }
  if (first.valid() && !index.shape()[0].same_as(first.shape()[0])) {
    fail(ErrorCode::kIrType,
         "index tiles of `" + region.tensor + "` walk together but differ in length", where,
         index.shape()[0].str(), first.shape()[0].str(), "load both over the same range");
    return false;
  }
  return true;
}

std::optional<Kernel::Addressed> Kernel::resolve_region(const Region& region, Where where) {
  const ir::TensorParam* tensor = region_tensor(region, where);
  if (tensor == nullptr) return std::nullopt;
  Addressed out;
  int indirect_axis = -1;
  Tile first_indirect;
  for (size_t i = 0; i < region.dims.size(); ++i) {
    const DimArg& arg = region.dims[i];
    if (is_new_axis(arg)) {
      ++out.rank;
    } else if (const Expr* point = std::get_if<Expr>(&arg)) {
      out.dims.push_back({DimIndex::kPoint, *point});
    } else if (const Range* r = std::get_if<Range>(&arg)) {
      out.dims.push_back({DimIndex::kRange, r->begin, r->extent, r->step, -1, out.rank++});
    } else if (std::holds_alternative<All>(arg)) {
      out.dims.push_back(
          {DimIndex::kRange, Expr(0), tensor->shape[out.dims.size()], 1, -1, out.rank++});
    } else {
      if (!check_index_tile(region, i, first_indirect, where)) return std::nullopt;
      const Tile& index = std::get<Tile>(arg);
      if (indirect_axis < 0) {
        indirect_axis = out.rank++;
        first_indirect = index;
      }
      out.dims.push_back({DimIndex::kIndirect, Expr(0), Expr(1), 1, index.id(), indirect_axis});
    }
  }
  return out;
}

Tile Kernel::load(const Region& region, std::string label, Where where) {
  auto addressed = resolve_region(region, where);
  if (!addressed)
    return placeholder(std::vector<Expr>(region.dims.size(), Expr(1)), DType::kF32, where);
  Node node;
  node.op = Op::kLoad;
  node.name = region.tensor;
  node.label = std::move(label);
  node.dtype = program_.tensor(region.tensor)->dtype;
  node.shape = ir::region_shape(program_, addressed->dims, addressed->rank);
  node.region = std::move(addressed->dims);
  return add_node(std::move(node), where);
}

void Kernel::store(const Region& region, const Tile& value, Where where) {
  store_node(region, value, ir::StoreMode::kSet, where);
}

void Kernel::store_add(const Region& region, const Tile& value, Where where) {
  store_node(region, value, ir::StoreMode::kAdd, where);
}

void Kernel::store_node(const Region& region, Tile value, ir::StoreMode mode, Where where) {
  auto addressed = resolve_region(region, where);
  if (!addressed) return;
  if (!value.valid())
    return fail(ErrorCode::kIrStructure, "store of an empty tile", where, "Tile()",
                "a tile that a kernel made", "assign the tile before storing it");
  const ir::TensorParam& tensor = *program_.tensor(region.tensor);
  if (tensor.role == ir::Role::kIn)
    return fail(ErrorCode::kIrStructure, "store to the input `" + tensor.name + "`", where,
                "role in", "role out, inout or workspace", "declare it with out() or inout()");
  const ir::Shape shape = ir::region_shape(program_, addressed->dims, addressed->rank);
  if (!ir::same_shape(value.shape(), shape))
    return fail(ErrorCode::kIrType, "store to `" + tensor.name + "` of a tile of another shape",
                where, ir::shape_str(value.shape()), ir::shape_str(shape),
                "make the region as large as the tile");
  if (value.dtype() != tensor.dtype) {
    if (!is_float(value.dtype()) || !is_float(tensor.dtype))
      return fail(ErrorCode::kIrType, "store to `" + tensor.name + "` of a tile of another dtype",
                  where, std::string(name(value.dtype())), std::string(name(tensor.dtype)),
                  "convert it with .to(DType)");
    value = cast(value, tensor.dtype, where);
  }
  Node node;
  node.op = Op::kStore;
  node.name = region.tensor;
  node.mode = mode;
  node.region = std::move(addressed->dims);
  node.operands = {value.id()};
  append(std::move(node), where);
}

}  // namespace rooftile::dsl
