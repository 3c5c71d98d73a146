// SPDX-License-Identifier: Apache-2.0
#include "rooftile/ir/types.h"

#include <algorithm>
#include <array>

namespace rooftile::ir {
namespace {

constexpr EwClass F = EwClass::F, N = EwClass::N, I = EwClass::I, P = EwClass::P, B = EwClass::B;
constexpr auto kEwTable = std::to_array<EwInfo>({
#define RT_EW(e, text, arity, cls, weight, meaning) {Ew::e, text, arity, cls, weight},
#include "rooftile/ir/elementwise.def"
#undef RT_EW
});

constexpr std::array<std::string_view, 4> kReduceNames = {"sum", "max", "min", "argmax"};
constexpr std::array<std::string_view, 4> kRoleNames = {"in", "out", "inout", "workspace"};

template <class Enum, size_t kCount>
std::optional<Enum> find_name(const std::array<std::string_view, kCount>& names,
                              std::string_view name) {
  auto it = std::find(names.begin(), names.end(), name);
  if (it == names.end()) return std::nullopt;
  return static_cast<Enum>(it - names.begin());
}

}  // namespace

const EwInfo& ew_info(Ew ew) { return kEwTable[static_cast<size_t>(ew)]; }

const EwInfo* ew_find(std::string_view name) {
  auto it = std::find_if(kEwTable.begin(), kEwTable.end(),
                         [name](const EwInfo& e) { return e.name == name; });
  return it == kEwTable.end() ? nullptr : &*it;
}

std::string_view reduce_name(ReduceKind kind) { return kReduceNames[static_cast<size_t>(kind)]; }
std::optional<ReduceKind> reduce_find(std::string_view name) {
  return find_name<ReduceKind>(kReduceNames, name);
}
std::string_view role_name(Role role) { return kRoleNames[static_cast<size_t>(role)]; }
std::optional<Role> role_find(std::string_view name) { return find_name<Role>(kRoleNames, name); }

std::string_view op_name(Op op) {
  switch (op) {
    case Op::kFill:
      return "fill";
    case Op::kScalar:
      return "scalar";
    case Op::kFromIndex:
      return "index";
    case Op::kIota:
      return "iota";
    case Op::kCarried:
      return "carried";
    case Op::kResult:
      return "result";
    case Op::kLoad:
      return "load";
    case Op::kStore:
      return "store";
    case Op::kElementwise:
      return "elementwise";
    case Op::kSelect:
      return "select";
    case Op::kCast:
      return "cast";
    case Op::kReduce:
      return "reduce";
    case Op::kScan:
      return "scan";
    case Op::kMma:
      return "mma";
    case Op::kTranspose:
      return "transpose";
    case Op::kPhilox:
      return "philox";
    case Op::kLoop:
      return "loop";
    case Op::kWhen:
      return "when";
    case Op::kTiles:
      return "tiles";
  }
  return "";
}

std::string shape_str(const Shape& shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) out += (i > 0 ? ", " : "") + shape[i].str();
  return out + "]";
}

std::string type_str(DType dtype, const Shape& shape) {
  return std::string(name(dtype)) + shape_str(shape);
}

std::string node_str(const Node& node) {
  std::string out = "%" + std::to_string(node.id);
  if (!node.label.empty()) out += " `" + node.label + "`";
  if (node.has_value()) out += " " + type_str(node.dtype, node.shape);
  return out;
}

bool same_shape(const Shape& a, const Shape& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Expr& x, const Expr& y) { return x.same_as(y); });
}

std::optional<Shape> broadcast(const Shape& a, const Shape& b) {
  if (a.empty()) return b;
  if (b.empty()) return a;
  if (a.size() != b.size()) return std::nullopt;
  Shape out;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].same_as(b[i]) || b[i].is_const(1)) {
      out.push_back(a[i]);
    } else if (a[i].is_const(1)) {
      out.push_back(b[i]);
    } else {
      return std::nullopt;
    }
  }
  return out;
}

Shape region_shape(const Program& program, const std::vector<DimIndex>& region, int rank) {
  Shape out(static_cast<size_t>(rank), Expr(1));
  for (const DimIndex& dim : region) {
    if (dim.tile_axis < 0) continue;
    const bool indirect = dim.kind == DimIndex::kIndirect;
    out[static_cast<size_t>(dim.tile_axis)] =
        indirect ? program.node(dim.indirect).shape[0] : dim.extent;
  }
  return out;
}

const TensorParam* Program::tensor(std::string_view tensor_name) const {
  auto it = std::find_if(tensors.begin(), tensors.end(),
                         [&](const TensorParam& t) { return t.name == tensor_name; });
  return it == tensors.end() ? nullptr : &*it;
}

const ScalarParam* Program::scalar(std::string_view scalar_name) const {
  auto it = std::find_if(scalars.begin(), scalars.end(),
                         [&](const ScalarParam& s) { return s.name == scalar_name; });
  return it == scalars.end() ? nullptr : &*it;
}

}  // namespace rooftile::ir
