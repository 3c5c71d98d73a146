// SPDX-License-Identifier: Apache-2.0
// What tiles compute: typing, conversion and broadcasting of every compute node.
//
// Conversions are explicit nodes, so that later stages never guess: narrow floats are widened to
// f32 before arithmetic, integers next to floats become f32, and a rank-0 i64 index takes the dtype
// of the other integer. Anything else that differs is the author's mistake.
#include <algorithm>
#include <cmath>

#include "rooftile/dsl/dsl.h"
#include "rooftile/ir/types.h"

namespace rooftile::dsl {

using ir::EwClass;
using ir::Node;
using ir::Op;

std::vector<Expr> Tile::shape() const {
  return valid() ? kernel_->program().node(id_).shape : std::vector<Expr>{};
}
DType Tile::dtype() const { return valid() ? kernel_->program().node(id_).dtype : DType::kF32; }

namespace {

std::string type_of(const Tile& x) { return ir::type_str(x.dtype(), x.shape()); }
bool is_index(const Tile& x) { return x.dtype() == DType::kI64 && x.shape().empty(); }

Tile widen(const Tile& x, Where where) {
  return is_narrow_float(x.dtype()) ? x.kernel()->cast(x, DType::kF32, where) : x;
}

// False, with the mistake recorded, if one of the tiles is empty (default-constructed).
bool all_valid(std::string_view what, std::initializer_list<const Tile*> tiles, Where where) {
  Kernel* kernel = nullptr;
  for (const Tile* t : tiles)
    if (t->valid()) kernel = t->kernel();
  for (const Tile* t : tiles) {
    if (t->valid()) continue;
    if (kernel != nullptr)
      kernel->fail(ErrorCode::kIrStructure, std::string(what) + " of an empty tile", where,
                   "Tile()", "a tile that a kernel made", "assign the tile before using it");
    return false;
  }
  return true;
}

// Gives all operands one dtype; false if there is no rule for it. Bools never mix.
bool unify(std::vector<Tile>& operands, Where where) {
  Kernel& k = *operands[0].kernel();
  const bool any_float = std::any_of(operands.begin(), operands.end(),
                                     [](const Tile& t) { return is_float(t.dtype()); });
  DType common = DType::kF32;
  if (!any_float) {
    // The first operand that is not a mere index decides.
    auto it = std::find_if_not(operands.begin(), operands.end(), is_index);
    common = it == operands.end() ? DType::kI64 : it->dtype();
  }
  for (Tile& t : operands) {
    if (t.dtype() == common) continue;
    const bool convertible =
        any_float ? t.dtype() != DType::kBool : is_index(t) && common != DType::kBool;
    if (!convertible) return false;
    t = k.cast(t, common, where);
  }
  return true;
}

std::string types_of(const std::vector<Tile>& operands) {
  std::string out;
  for (const Tile& t : operands) out += (out.empty() ? "" : ", ") + type_of(t);
  return out;
}

// Converts the operands to what the class of the operation takes; records a mistake otherwise.
bool convert_operands(const ir::EwInfo& op, std::vector<Tile>& operands, Where where) {
  Kernel& k = *operands[0].kernel();
  const std::string what = "operands of `" + std::string(op.name) + "`";
  auto any = [&](auto&& predicate) {
    return std::any_of(operands.begin(), operands.end(),
                       [&](const Tile& t) { return predicate(t.dtype()); });
  };
  const bool any_bool = any([](DType d) { return d == DType::kBool; });
  const bool any_float = any([](DType d) { return is_float(d); });
  if (op.cls == EwClass::B) {
    if (!any([](DType d) { return d != DType::kBool; })) return true;
    k.fail(ErrorCode::kIrType, what + " are not bools", where, types_of(operands), "bool tiles",
           "compare first: lt, le, eq, ne");
    return false;
  }
  if (any_bool) {
    k.fail(ErrorCode::kIrType, what + " are bools", where, types_of(operands), "numbers",
           "convert with .to(DType::kI32), or select with where_");
    return false;
  }
  if (op.cls == EwClass::I && any_float) {
    k.fail(ErrorCode::kIrType, what + " are floats", where, types_of(operands), "integers",
           "convert with .to(DType::kI32)");
    return false;
  }
  if (op.cls == EwClass::F) {
    for (Tile& t : operands) t = k.cast(t, DType::kF32, where);
    return true;
  }
  if (unify(operands, where)) return true;
  k.fail(ErrorCode::kIrType, what + " differ in integer dtype", where, types_of(operands),
         "equal dtypes", "convert one with .to(DType)");
  return false;
}

// The common shape of the operands; a mistake names the two that disagree.
ir::Shape broadcast_all(const std::string& what, const std::vector<Tile>& operands, Where where) {
  ir::Shape shape;
  for (const Tile& t : operands) {
    auto wider = ir::broadcast(shape, t.shape());
    if (!wider) {
      std::string detail = ir::shape_str(shape) + " and " + ir::shape_str(t.shape());
      const ir::Shape other = t.shape();
      if (other.size() == shape.size())
        for (size_t i = 0; i < shape.size(); ++i)
          if (!ir::broadcast({shape[i]}, {other[i]}))
            detail += ": extents " + shape[i].str() + " and " + other[i].str() + " on axis " +
                      std::to_string(i);
      operands[0].kernel()->fail(ErrorCode::kIrType, what + " do not broadcast", where, detail,
                                 "equal ranks (or rank 0), extents equal or 1",
                                 "write both extents with the same expression");
      return shape;
    }
    shape = *wider;
  }
  return shape;
}

// A number beside a tile of `dtype` as a rank-0 fill.
Tile number_tile(Kernel& k, double number, DType dtype, Where where) {
  if (is_float(dtype)) return k.full({}, number, DType::kF32, where);
  const bool fits = number == std::floor(number) && std::fabs(number) <= 0x1p53 &&
                    (dtype != DType::kBool || number == 0 || number == 1);
  if (!fits)
    k.fail(ErrorCode::kIrType, "a number beside an integer tile is not an integer", where,
           std::to_string(number), "a value of " + std::string(name(dtype)),
           "convert the tile with .to(DType::kF32)");
  return k.full({}, fits ? number : 0, dtype, where);
}

}  // namespace

Tile Kernel::cast(const Tile& x, DType dtype, Where where) {
  if (x.dtype() == dtype) return x;
  const std::pair<ir::ValueId, DType> key{x.id(), dtype};
  for (const OpenBlock& open : block_stack_)
    if (auto it = open.casts.find(key); it != open.casts.end()) return {this, it->second};
  Node node;
  node.op = Op::kCast;
  node.dtype = dtype;
  node.shape = x.shape();
  node.operands = {x.id()};
  Tile result = add_node(std::move(node), where);
  block_stack_.back().casts[key] = result.id();
  return result;
}

Tile Kernel::elementwise(ir::Ew ew, std::vector<Tile> operands, Where where) {
  const ir::EwInfo& op = ir::ew_info(ew);
  if (!convert_operands(op, operands, where)) {
    const bool gives_bool = op.cls == EwClass::P || op.cls == EwClass::B;
    return placeholder(operands[0].shape(), gives_bool ? DType::kBool : operands[0].dtype(), where);
  }
  Node node;
  node.op = Op::kElementwise;
  node.ew = ew;
  if (op.cls == EwClass::N)  // neg, abs, max and min of narrow floats are done in f32 as well
    for (Tile& t : operands) t = widen(t, where);
  if (op.cls == EwClass::P)
    for (Tile& t : operands) t = widen(t, where);
  node.dtype = op.cls == EwClass::P || op.cls == EwClass::B ? DType::kBool : operands[0].dtype();
  node.shape = broadcast_all("operands of `" + std::string(op.name) + "`", operands, where);
  for (const Tile& t : operands) node.operands.push_back(t.id());
  return add_node(std::move(node), where);
}

Tile unary(ir::Ew ew, const Operand& a, Where where) {
  if (!a.tile.valid()) return {};
  return a.tile.kernel()->elementwise(ew, {a.tile}, where);
}

Tile binary(ir::Ew ew, const Operand& a, const Operand& b, Where where) {
  Kernel* kernel = a.tile.valid() ? a.tile.kernel() : b.tile.kernel();
  if (kernel == nullptr) return {};
  auto as_tile = [&](const Operand& x, const Operand& other) -> Tile {
    if (!x.is_number) return x.tile;
    const bool float_op = ir::ew_info(ew).cls == EwClass::F;
    return number_tile(*kernel, x.number, float_op ? DType::kF32 : other.tile.dtype(), where);
  };
  Tile left = as_tile(a, b), right = as_tile(b, a);
  if (!all_valid(ir::ew_info(ew).name, {&left, &right}, where))
    return kernel->placeholder({}, DType::kF32, where);
  return kernel->elementwise(ew, {left, right}, where);
}

Tile where_(const Tile& cond, Operand a, Operand b, Where where) {
  if (!cond.valid()) return {};
  Kernel& k = *cond.kernel();
  const DType number_dtype = a.tile.valid() ? a.tile.dtype() : b.tile.dtype();
  auto as_tile = [&](const Operand& x) {
    return x.is_number ? number_tile(k, x.number, number_dtype, where) : x.tile;
  };
  std::vector<Tile> values = {as_tile(a), as_tile(b)};
  if (!all_valid("where_", {&cond, &values[0], &values[1]}, where))
    return k.placeholder({}, DType::kF32, where);
  for (Tile& t : values) t = widen(t, where);
  if (cond.dtype() != DType::kBool)
    k.fail(ErrorCode::kIrType, "the condition of where_ is not a bool tile", where, type_of(cond),
           "bool", "compare first: lt, le, eq, ne");
  if (values[0].dtype() != values[1].dtype() && !unify(values, where))
    k.fail(ErrorCode::kIrType, "the values of where_ differ in dtype", where, types_of(values),
           "equal dtypes", "convert one with .to(DType)");
  Node node;
  node.op = Op::kSelect;
  node.dtype = values[0].dtype();
  node.shape = broadcast_all("operands of where_", {cond, values[0], values[1]}, where);
  node.operands = {cond.id(), values[0].id(), values[1].id()};
  return k.add_node(std::move(node), where);
}

Tile Tile::to(DType dtype, Where where) const {
  return valid() ? kernel_->cast(*this, dtype, where) : Tile();
}

Tile Tile::t(Where where) const {
  if (!valid()) return {};
  Node node;
  node.op = Op::kTranspose;
  node.dtype = dtype();
  node.shape = shape();
  if (node.shape.size() != 2) {
    kernel_->fail(ErrorCode::kIrType, "transpose of a tile that is not a matrix", where,
                  type_of(*this), "rank 2", "load it with new_axis to give it a second axis");
    return *this;
  }
  std::swap(node.shape[0], node.shape[1]);
  node.operands = {id_};
  return kernel_->add_node(std::move(node), where);
}

Tile Tile::named(std::string label, Where where) const {
  if (valid()) kernel_->set_label(*this, std::move(label), where);
  return *this;
}

namespace {

// The axis counted from the front and the operand in the dtype that is accumulated; false after a
// mistake.
bool prepare_fold(std::string_view what, ir::ReduceKind kind, Tile& x, int& axis, Where where) {
  Kernel& k = *x.kernel();
  const int rank = static_cast<int>(x.shape().size());
  if (axis < -rank || axis >= rank) {
    k.fail(ErrorCode::kIrType, std::string(what) + " over an axis that the tile does not have",
           where, "axis " + std::to_string(axis) + " of " + type_of(x),
           rank == 0 ? "a tile of rank 1 or more"
                     : "-" + std::to_string(rank) + " <= axis < " + std::to_string(rank),
           "axes count from 0, or from -1 at the end");
    return false;
  }
  if (axis < 0) axis += rank;
  if (x.dtype() == DType::kBool) {
    k.fail(ErrorCode::kIrType, std::string(what) + " of a bool tile", where, type_of(x), "numbers",
           "convert with .to(DType::kI32)");
    return false;
  }
  x = widen(x, where);
  // Sums of bytes need room.
  if (kind == ir::ReduceKind::kSum && size_bytes(x.dtype()) == 1) x = k.cast(x, DType::kI32, where);
  return true;
}

}  // namespace

Tile reduce(ir::ReduceKind kind, const Tile& x, int axis, Where where) {
  if (!x.valid()) return {};
  Tile operand = x;
  if (!prepare_fold(ir::reduce_name(kind), kind, operand, axis, where)) return x;
  Node node;
  node.op = Op::kReduce;
  node.reduce = kind;
  node.axis = axis;
  node.dtype = kind == ir::ReduceKind::kArgMax ? DType::kI32 : operand.dtype();
  node.shape = operand.shape();
  node.shape[static_cast<size_t>(axis)] = 1;
  node.operands = {operand.id()};
  return x.kernel()->add_node(std::move(node), where);
}

Tile scan(ir::ReduceKind kind, const Tile& x, int axis, Where where) {
  if (!x.valid()) return {};
  Tile operand = x;
  if (kind != ir::ReduceKind::kSum && kind != ir::ReduceKind::kMax) {
    x.kernel()->fail(ErrorCode::kIrType, "scan of this kind does not exist", where,
                     std::string(ir::reduce_name(kind)), "sum or max",
                     "negate the tile to scan minima");
    return x;
  }
  if (!prepare_fold("scan", kind, operand, axis, where)) return x;
  Node node;
  node.op = Op::kScan;
  node.reduce = kind;
  node.axis = axis;
  node.dtype = operand.dtype();
  node.shape = operand.shape();
  node.operands = {operand.id()};
  return x.kernel()->add_node(std::move(node), where);
}

namespace {

bool bytes_dtype(DType d) { return d == DType::kI8 || d == DType::kU8; }
bool mma_float(DType d) { return d == DType::kBf16 || d == DType::kF16 || d == DType::kF32; }

Tile mma_node(const Tile& a, const Tile& b, const Tile* acc, std::string label, Where where) {
  if (!all_valid("mma", {&a, &b, acc != nullptr ? acc : &a}, where))
    return acc != nullptr ? *acc : Tile();
  Kernel& k = *a.kernel();
  const ir::Shape as = a.shape(), bs = b.shape();
  if (as.size() != 2 || bs.size() != 2) {
    k.fail(ErrorCode::kIrType, "operands of mma are not matrices", where,
           type_of(a) + " x " + type_of(b), "[M, K] x [K, N]",
           "load a vector with range(i, 1) or new_axis to make it a matrix");
    return acc != nullptr ? *acc : k.placeholder({1, 1}, DType::kF32, where);
  }
  Node node;
  node.op = Op::kMma;
  node.label = std::move(label);
  node.shape = {as[0], bs[1]};
  node.dtype = bytes_dtype(a.dtype()) ? DType::kI32 : DType::kF32;
  if (!as[1].same_as(bs[0]))
    k.fail(ErrorCode::kIrType, "operands of mma differ in K", where,
           as[1].str() + " and " + bs[0].str(), "[M, K] x [K, N]",
           "write both extents with the same expression; .t() transposes");
  const bool dtypes_ok = (mma_float(a.dtype()) && a.dtype() == b.dtype()) ||
                         (bytes_dtype(a.dtype()) && bytes_dtype(b.dtype()));
  if (!dtypes_ok)
    k.fail(ErrorCode::kIrType, "mma has no form for these dtypes", where,
           std::string(name(a.dtype())) + " x " + std::string(name(b.dtype())),
           "both bf16, both f16, both f32, or i8/u8", "convert one with .to(DType)");
  node.operands = {a.id(), b.id()};
  if (acc != nullptr) {
    if (acc->dtype() != node.dtype || !ir::same_shape(acc->shape(), node.shape))
      k.fail(ErrorCode::kIrType, "the accumulator of mma has another type than the product", where,
             type_of(*acc), ir::type_str(node.dtype, node.shape),
             "start from full() in the shape and dtype of the product");
    node.operands.push_back(acc->id());
  }
  return k.add_node(std::move(node), where);
}

}  // namespace

Tile mma(const Tile& a, const Tile& b, std::string label, Where where) {
  return mma_node(a, b, nullptr, std::move(label), where);
}

Tile mma(const Tile& a, const Tile& b, const Tile& acc, std::string label, Where where) {
  return mma_node(a, b, &acc, std::move(label), where);
}

Tile philox(const Tile& counter, const Tile& seed, const Tile& offset, Where where) {
  if (!all_valid("philox", {&counter, &seed, &offset}, where)) return counter;
  Kernel& k = *counter.kernel();
  if (counter.dtype() != DType::kI32 && counter.dtype() != DType::kI64)
    k.fail(ErrorCode::kIrType, "the counter of philox is not an i32 or i64 tile", where,
           type_of(counter), "i32 or i64", "convert it with .to(DType::kI64)");
  if (!is_index(seed) || !is_index(offset))
    k.fail(ErrorCode::kIrType, "seed and offset of philox are rank-0 i64 tiles", where,
           type_of(seed) + ", " + type_of(offset), "i64[], i64[]", "use index(int_attr(...))");
  Node node;
  node.op = Op::kPhilox;
  node.dtype = DType::kU32;
  node.shape = counter.shape();
  node.operands = {counter.id(), seed.id(), offset.id()};
  return k.add_node(std::move(node), where);
}

}  // namespace rooftile::dsl
