// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/tile/tile_terms.h"

#include <cmath>

#include "rooftile/ir/types.h"

namespace rooftile::verify {

using ir::Ew;
using ir::Node;
using ir::Op;

namespace {

struct Limits {
  int64_t least = 0, most = 0;
};

// i64 is not limited here: index arithmetic in it stays far below 2^63 (docs/proofs.md).
std::optional<Limits> limits(DType dtype) {
  switch (dtype) {
    case DType::kI8:
      return Limits{-128, 127};
    case DType::kU8:
      return Limits{0, 255};
    case DType::kI32:
      return Limits{-(int64_t{1} << 31), (int64_t{1} << 31) - 1};
    case DType::kU32:
      return Limits{0, (int64_t{1} << 32) - 1};
    default:
      return std::nullopt;
  }
}

class TermOf {
 public:
  explicit TermOf(const ir::Program& program) : program_(program) {}

  std::optional<Expr> operator()(ir::ValueId id, const std::vector<Expr>& at) {
    const Node& n = program_.node(id);
    if (is_float(n.dtype)) return std::nullopt;
    switch (n.op) {
      case Op::kFill:
        return Expr(static_cast<int64_t>(n.number));
      case Op::kFromIndex:
        return n.expr;
      case Op::kIota:
        return fits(along(n, at, static_cast<size_t>(n.axis)) + n.expr, n.dtype);
      case Op::kLoad:
        return element(n, at);
      case Op::kCast: {
        if (is_float(program_.node(n.operands[0]).dtype)) return std::nullopt;
        const std::optional<Expr> x = operand(n, 0, at);
        return x ? std::optional<Expr>(fits(*x, n.dtype)) : std::nullopt;
      }
      case Op::kTranspose:
        return at.size() < 2 ? std::nullopt : (*this)(n.operands[0], {at[1], at[0]});
      case Op::kSelect: {
        const auto c = operand(n, 0, at), x = operand(n, 1, at), y = operand(n, 2, at);
        return c && x && y ? std::optional<Expr>(select(*c, *x, *y)) : std::nullopt;
      }
      case Op::kElementwise:
        return elementwise(n, at);
      default:
        return std::nullopt;
    }
  }

  std::vector<Expr> exact;

 private:
  Expr fits(const Expr& x, DType dtype) {
    const std::optional<Limits> range = limits(dtype);
    if (range && !(x.is_const() && range->least <= x.value() && x.value() <= range->most)) {
      exact.push_back(Expr(range->least) <= x);
      exact.push_back(x <= Expr(range->most));
    }
    return x;
  }

  // The position along an axis; extents of 1 stretch, so theirs is 0.
  static Expr along(const Node& n, const std::vector<Expr>& at, size_t axis) {
    return axis >= at.size() || n.shape[axis].is_const(1) ? Expr(0) : at[axis];
  }

  std::optional<Expr> operand(const Node& n, size_t i, const std::vector<Expr>& at) {
    return (*this)(n.operands[i], at);
  }

  std::optional<Expr> element(const Node& n, const std::vector<Expr>& at) {
    const ir::TensorParam* tensor = program_.tensor(n.name);
    if (tensor == nullptr || tensor->role != ir::Role::kIn || !ir::is_integer(tensor->dtype))
      return std::nullopt;
    std::vector<Expr> index;
    for (const ir::DimIndex& dim : n.region) {
      const auto axis = static_cast<size_t>(std::max(dim.tile_axis, 0));
      if (dim.kind == ir::DimIndex::kPoint) {
        index.push_back(dim.begin);
      } else if (dim.kind == ir::DimIndex::kRange) {
        index.push_back(dim.begin + along(n, at, axis) * Expr(dim.step));
      } else {
        const std::optional<Expr> value = (*this)(dim.indirect, {along(n, at, axis)});
        if (!value) return std::nullopt;
        index.push_back(*value);
      }
    }
    return Expr::index_load(n.name, std::move(index));
  }

  std::optional<Expr> elementwise(const Node& n, const std::vector<Expr>& at) {
    std::vector<Expr> x;
    for (size_t i = 0; i < n.operands.size(); ++i) {
      const std::optional<Expr> value = operand(n, i, at);
      if (!value) return std::nullopt;
      x.push_back(*value);
    }
    switch (n.ew) {
      case Ew::kAdd:
        return fits(x[0] + x[1], n.dtype);
      case Ew::kSub:
        return fits(x[0] - x[1], n.dtype);
      case Ew::kMul:
        return fits(x[0] * x[1], n.dtype);
      case Ew::kNeg:
        return fits(Expr(0) - x[0], n.dtype);
      case Ew::kMax:
        return max(x[0], x[1]);
      case Ew::kMin:
        return min(x[0], x[1]);
      case Ew::kFloorDiv:  // by zero it is zero here, and nothing in a formula
        exact.push_back(x[1] != Expr(0));
        return fits(x[0] / x[1], n.dtype);
      case Ew::kMod:
        exact.push_back(x[1] != Expr(0));
        return x[0] % x[1];
      case Ew::kLt:
        return x[0] < x[1];
      case Ew::kLe:
        return x[0] <= x[1];
      case Ew::kEq:
        return x[0] == x[1];
      case Ew::kNe:
        return x[0] != x[1];
      case Ew::kLogicalAnd:
        return x[0] && x[1];
      case Ew::kLogicalOr:
        return x[0] || x[1];
      case Ew::kLogicalNot:
        return !x[0];
      default:
        return std::nullopt;
    }
  }

  const ir::Program& program_;
};

}  // namespace

std::optional<TileTerm> tile_term(const ir::Program& program, ir::ValueId tile,
                                  const std::vector<Expr>& at) {
  TermOf term(program);
  std::optional<Expr> value = term(tile, at);
  if (!value) return std::nullopt;
  return TileTerm{*value, std::move(term.exact)};
}

}  // namespace rooftile::verify
