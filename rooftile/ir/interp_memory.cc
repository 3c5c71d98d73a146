// SPDX-License-Identifier: Apache-2.0
#include "rooftile/ir/interp_memory.h"

#include <limits>

#include "rooftile/ir/types.h"

namespace rooftile::ir {
namespace {

std::string ints_str(const std::vector<int64_t>& values) {
  std::string out = "[";
  for (size_t i = 0; i < values.size(); ++i) out += (i > 0 ? ", " : "") + std::to_string(values[i]);
  return out + "]";
}

}  // namespace

// ---- diagnostics
// -------------------------------------------------------------------------------------------

std::string InterpMemory::indices() const {
  std::string out;
  for (const std::string& var : indices_) {
    auto it = env_.find(var);
    if (it != env_.end())
      out += (out.empty() ? "" : ", ") + var + " = " + std::to_string(it->second);
  }
  return out;
}

Diag InterpMemory::problem(const Node& n, ErrorCode code, std::string message, std::string found,
                           std::string expected) const {
  Diag diag;
  diag.code = code;
  diag.subject = program_.name;
  diag.message = std::move(message);
  diag.argument = n.name;
  diag.found = std::move(found);
  diag.expected = std::move(expected);
  diag.when = indices();
  diag.at = n.loc;
  return diag;
}

Diag InterpMemory::contract(const TensorParam& param, std::string message, std::string found,
                            std::string expected) const {
  Diag diag;
  diag.code = ErrorCode::kExtent;
  diag.subject = program_.name;
  diag.message = std::move(message);
  diag.argument = param.name;
  diag.found = std::move(found);
  diag.expected = std::move(expected);
  return diag;
}

std::string InterpMemory::position(const Tensor& tensor, size_t offset) const {
  std::vector<int64_t> at;
  auto rest = static_cast<int64_t>(offset);
  for (int64_t stride : tensor.strides) {
    at.push_back(rest / stride);
    rest %= stride;
  }
  return tensor.param->name + ints_str(at);
}

Diag InterpMemory::out_of_bounds(const Node& n, const Tensor& tensor, size_t dim,
                                 int64_t index) const {
  const char* verb = n.op == Op::kStore ? "write of `" : "read of `";
  return problem(n, ErrorCode::kOutOfBounds, verb + tensor.param->name + "` out of bounds",
                 "index " + std::to_string(index) + " in dimension " + std::to_string(dim),
                 "0 <= index < " + std::to_string(tensor.array->shape[dim]));
}

// ---- binding
// -----------------------------------------------------------------------------------------------

Status InterpMemory::bind() {
  RT_RETURN_IF_ERROR(bind_dims());
  for (const TensorParam& param : program_.tensors) RT_RETURN_IF_ERROR(bind_tensor(param));
  return {};
}

// Dims that the caller did not give are the extents of the tensors that it did give.
Status InterpMemory::bind_dims() {
  for (const TensorParam& param : program_.tensors) {
    auto it = tensors_.find(param.name);
    if (it == tensors_.end() || param.role == Role::kWorkspace) continue;
    if (it->second.shape.size() != param.shape.size())
      return contract(param, "`" + param.name + "` has the wrong number of dimensions",
                      ints_str(it->second.shape), shape_str(param.shape));
    for (size_t d = 0; d < param.shape.size(); ++d)
      if (param.shape[d].kind() == ExprKind::kSym)
        env_.try_emplace(param.shape[d].name(), it->second.shape[d]);
  }
  return {};
}

Status InterpMemory::bind_tensor(const TensorParam& param) {
  std::vector<int64_t> shape;
  int64_t count = 1;
  for (const Expr& extent : param.shape) {
    auto value = evaluate(extent, env_);
    if (!value || *value < 0)
      return contract(param, "the shape of `" + param.name + "` has no value", extent.str(),
                      value ? ">= 0" : "all its symbols given");
    shape.push_back(*value);
    count *= *value;
  }
  const bool is_input = param.role == Role::kIn || param.role == Role::kInOut;
  InterpTensors& home = param.role == Role::kWorkspace ? workspaces_ : tensors_;
  auto it = home.find(param.name);
  if (it == home.end()) {
    if (is_input)
      return contract(param, "the input `" + param.name + "` is missing", "",
                      type_str(param.dtype, param.shape));
    it = home.emplace(param.name, NdArray()).first;
    it->second.shape = shape;
  }
  NdArray& array = it->second;
  if (array.shape != shape)
    return contract(param, "`" + param.name + "` has another shape than the contract",
                    ints_str(array.shape), ints_str(shape));
  // What nothing writes is not a number, so that it cannot pass a comparison either.
  if (!is_input)
    array.data.assign(static_cast<size_t>(count), std::numeric_limits<double>::quiet_NaN());
  if (array.numel() != count)
    return contract(param, "`" + param.name + "` has another number of elements than its shape",
                    std::to_string(array.numel()), std::to_string(count));
  Tensor tensor{&param, &array, std::vector<int64_t>(shape.size(), 1), {}};
  for (size_t d = shape.size(); d-- > 1;) tensor.strides[d - 1] = tensor.strides[d] * shape[d];
  if (param.role != Role::kIn) tensor.cells.resize(static_cast<size_t>(count));
  if (param.role == Role::kInOut)
    for (Cell& cell : tensor.cells) cell.written = true;
  bound_.emplace(param.name, std::move(tensor));
  return {};
}

Status InterpMemory::check_outputs_complete() const {
  for (const auto& [name, tensor] : bound_) {
    if (tensor.param->role != Role::kOut) continue;
    for (size_t i = 0; i < tensor.cells.size(); ++i) {
      if (tensor.cells[i].written) continue;
      Diag diag;
      diag.code = ErrorCode::kUnwritten;
      diag.subject = program_.name;
      diag.message = "the output `" + name + "` is not written everywhere";
      diag.argument = name;
      diag.found = position(tensor, i) + " is never stored";
      diag.expected = "every element stored";
      return diag;
    }
  }
  return {};
}

// ---- expressions
// -------------------------------------------------------------------------------------------

Result<int64_t> InterpMemory::value_of(const Expr& expr, const Node& n) {
  if (expr.is_const()) return expr.value();
  Status bad_read;
  auto read = [&](const std::string& name, const std::vector<int64_t>& at) -> int64_t {
    Tensor& tensor = bound_.find(name)->second;
    int64_t offset = 0;
    for (size_t d = 0; d < at.size(); ++d) {
      if (at[d] < 0 || at[d] >= tensor.array->shape[d]) {
        if (bad_read.ok()) {
          Diag diag = out_of_bounds(n, tensor, d, at[d]);
          diag.message = "index read of `" + name + "` out of bounds";
          diag.argument = name;
          bad_read = diag;
        }
        return 0;
      }
      offset += at[d] * tensor.strides[d];
    }
    const auto cell = static_cast<size_t>(offset);
    if (!tensor.cells.empty() && bad_read.ok())
      bad_read = check_read(n, tensor, cell, tensor.cells[cell]);
    return bad_read.ok() ? static_cast<int64_t>(tensor.array->data[cell]) : 0;
  };
  std::optional<int64_t> value = evaluate(expr, env_, read);
  if (!bad_read.ok()) return bad_read.diag();
  if (value) return *value;
  std::string unbound;
  for (const std::string& symbol : symbols_of(expr))
    if (env_.count(symbol) == 0) unbound += (unbound.empty() ? "" : ", ") + symbol;
  return problem(n, ErrorCode::kIrStructure, "`" + expr.str() + "` has no value",
                 unbound.empty() ? "a division by zero or an overflow" : "no value for " + unbound,
                 "");
}

Result<std::vector<int64_t>> InterpMemory::shape_of(const std::vector<Expr>& shape, const Node& n) {
  std::vector<int64_t> out;
  for (const Expr& extent : shape) {
    Result<int64_t> value = value_of(extent, n);
    if (!value.ok()) return value.diag();
    if (*value < 0)
      return problem(n, ErrorCode::kIrType, "negative extent `" + extent.str() + "`",
                     std::to_string(*value), ">= 0");
    out.push_back(*value);
  }
  return out;
}

// ---- accesses
// ----------------------------------------------------------------------------------------------

// The offset in the tensor of every element of the tile, bounds checked. A tile without elements
// touches nothing.
Result<InterpMemory::Offsets> InterpMemory::address(
    const Node& n, const std::vector<int64_t>& tile_shape,
    const std::vector<const TileValue*>& index_tiles) {
  const Tensor& tensor = bound_.find(n.name)->second;
  size_t count = 1;
  for (int64_t extent : tile_shape) count *= static_cast<size_t>(extent);
  Offsets offsets(count, 0);
  if (count == 0) return offsets;
  for (size_t d = 0; d < n.region.size(); ++d) {
    const DimIndex& dim = n.region[d];
    Result<int64_t> begin = value_of(dim.begin, n);
    if (!begin.ok()) return begin.diag();
    const bool is_point = dim.kind == DimIndex::kPoint;
    const auto axis = static_cast<size_t>(is_point ? 0 : dim.tile_axis);
    const int64_t extent = is_point ? 1 : tile_shape[axis];
    size_t inner = 1;
    for (size_t a = axis + 1; a < tile_shape.size(); ++a)
      inner *= static_cast<size_t>(tile_shape[a]);
    std::vector<size_t> along(static_cast<size_t>(extent));  // this dimension's share of the offset
    for (int64_t i = 0; i < extent; ++i) {
      const TileValue* tile = index_tiles[d];
      const int64_t index =
          tile != nullptr ? tile->ints[static_cast<size_t>(i)] : *begin + i * dim.step;
      if (index < 0 || index >= tensor.array->shape[d]) return out_of_bounds(n, tensor, d, index);
      along[static_cast<size_t>(i)] = static_cast<size_t>(index * tensor.strides[d]);
    }
    for (size_t i = 0; i < count; ++i) offsets[i] += along[is_point ? 0 : i / inner % along.size()];
  }
  return offsets;
}

Status InterpMemory::check_read(const Node& n, const Tensor& tensor, size_t offset,
                                Cell& cell) const {
  if (!cell.written)
    return problem(n, ErrorCode::kUnwritten, "read of `" + n.name + "` before anything is written",
                   position(tensor, offset), "an element that an earlier store wrote");
  if (other_tile_now(cell.writer))
    return problem(n, ErrorCode::kRace, "read of what another tile of the same phase writes",
                   position(tensor, offset), "reads of earlier phases or of the tile's own stores");
  const bool first_reader = !other_tile_now(cell.reader);
  cell.reader = first_reader ? stamp() : phase_ * kTilesOfPhase + kSeveral;
  return {};
}

Status InterpMemory::check_write(const Node& n, const Tensor& tensor, size_t offset,
                                 Cell& cell) const {
  const bool adds = n.mode == StoreMode::kAdd;
  if (adds && !cell.written)
    return problem(n, ErrorCode::kUnwritten,
                   "store_add to `" + n.name + "` before anything is written",
                   position(tensor, offset), "an element that an earlier store wrote");
  if (other_tile_now(cell.writer) && !(adds && cell.added))
    return problem(n, ErrorCode::kRace, "two tiles of one phase store to the same element",
                   position(tensor, offset), "one tile an element, or store_add by all of them");
  if (other_tile_now(cell.reader))
    return problem(n, ErrorCode::kRace, "write of what another tile of the same phase reads",
                   position(tensor, offset), "a later phase");
  cell.writer = stamp();
  cell.added = adds;
  cell.written = true;
  return {};
}

Status InterpMemory::load(const Node& n, const std::vector<const TileValue*>& index_tiles,
                          TileValue& value) {
  Result<Offsets> offsets = address(n, value.shape, index_tiles);
  if (!offsets.ok()) return offsets.diag();
  Tensor& tensor = bound_.find(n.name)->second;
  for (size_t i = 0; i < offsets->size(); ++i) {
    const size_t at = (*offsets)[i];
    if (!tensor.cells.empty()) RT_RETURN_IF_ERROR(check_read(n, tensor, at, tensor.cells[at]));
    if (is_float(value.dtype))
      value.floats[i] = tensor.array->data[at];
    else
      value.ints[i] = static_cast<int64_t>(tensor.array->data[at]);
  }
  return {};
}

Status InterpMemory::store(const Node& n, const std::vector<const TileValue*>& index_tiles,
                           const TileValue& value, bool declared) {
  Result<Offsets> offsets = address(n, value.shape, index_tiles);
  if (!offsets.ok()) return offsets.diag();
  Tensor& tensor = bound_.find(n.name)->second;
  for (size_t i = 0; i < offsets->size(); ++i) {
    const size_t at = (*offsets)[i];
    RT_RETURN_IF_ERROR(check_write(n, tensor, at, tensor.cells[at]));
    double& element = tensor.array->data[at];
    if (n.mode == StoreMode::kSet) {
      element = value.as_double(i);
    } else if (is_float(value.dtype)) {
      element += value.floats[i];
      if (declared) element = static_cast<double>(static_cast<float>(element));
    } else {
      element =
          static_cast<double>(wrap_to(static_cast<int64_t>(element) + value.ints[i], value.dtype));
    }
  }
  return {};
}

}  // namespace rooftile::ir
