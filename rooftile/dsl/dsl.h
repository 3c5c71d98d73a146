// SPDX-License-Identifier: Apache-2.0
// The C++ front end of the tile language: what an operator's author writes. Builds ir::Program.
//
//   void rms_norm(Kernel& k) {
//     Index T = k.dim("T"), H = k.dim("H");
//     k.tiles({{"row", T}}, [&](Index row) {
//       Tile x = k.load(k["x"](row, all), "x");                       // [H]
//       Tile r = rsqrt(sum(x * x) / k.index(H) + k.scalar("eps"));    // [1]
//       k.store(k["out"](row, all), x * r * k.load(k["weight"](all)));
//     });
//   }
//
// Tiles are immutable values. Arithmetic on narrow floats is in f32; store and to() round. Shapes
// broadcast like NumPy for equal ranks; rank 0 goes with anything. A mistake is recorded once, with
// the author's source line, and reported by Kernel::finish(); building goes on so that the rest of
// the author's code runs.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "rooftile/ir/ir.h"

namespace rooftile::dsl {

using Index = Expr;
class Kernel;
using Where = CallSite;
#define RT_HERE ::rooftile::dsl::Where where = ::rooftile::dsl::Where::current()

class Tile {
 public:
  Tile() = default;
  Tile(Kernel* kernel, ir::ValueId id) : kernel_(kernel), id_(id) {}
  Kernel* kernel() const { return kernel_; }
  ir::ValueId id() const { return id_; }
  bool valid() const { return kernel_ != nullptr; }
  std::vector<Expr> shape() const;
  DType dtype() const;
  Tile to(DType dtype, RT_HERE) const;  // rounds to nearest even; saturates for fp8 and integers
  Tile t(RT_HERE) const;                // transpose of a rank-2 tile
  Tile named(std::string label, RT_HERE) const;  // the name a Schedule uses for it

 private:
  Kernel* kernel_ = nullptr;
  ir::ValueId id_ = -1;
};

// How one dimension of a tensor is indexed.
struct All {};
inline constexpr All all{};
struct Range {
  Expr begin, extent;
  int64_t step = 1;
};
inline Range range(Expr begin, Expr extent, int64_t step = 1) {
  return {std::move(begin), std::move(extent), step};
}
// Block i of `size` elements of a dimension of `total`; the last one is short.
inline Range block(const Expr& i, const Expr& size, const Expr& total) {
  return {i * size, min(size, total - i * size), 1};
}
// A tile axis of extent 1 that walks no dimension, so that a vector meets a matrix:
// bias(new_axis, block(j, BN, N)) is [1, BN], lse(h, rows, new_axis) takes a [BM, 1] tile.
struct NewAxis {};
inline constexpr NewAxis new_axis{};
// Point, range, everything, a rank-1 integer tile (gather / scatter; several of them walk
// together), or a new axis.
using DimArg = std::variant<Expr, Range, All, Tile, NewAxis>;

struct Region {
  std::string tensor;
  std::vector<DimArg> dims;
};

class Tensor {
 public:
  Tensor() = default;
  Tensor(std::string name, DType dtype, std::vector<Expr> shape)
      : name_(std::move(name)), dtype_(dtype), shape_(std::move(shape)) {}
  const std::string& name() const { return name_; }
  DType dtype() const { return dtype_; }
  const std::vector<Expr>& shape() const { return shape_; }
  template <class... Dims>
  Region operator()(Dims&&... dims) const {
    return {name_, {to_dim(std::forward<Dims>(dims))...}};
  }
  // One element of an integer tensor as an index: block tables, sequence offsets.
  template <class... Indices>
  Index at(Indices&&... indices) const {
    return Expr::index_load(name_, {Expr(indices)...});
  }

 private:
  static DimArg to_dim(Expr v) { return v; }
  static DimArg to_dim(Range v) { return v; }
  static DimArg to_dim(All v) { return v; }
  static DimArg to_dim(Tile v) { return v; }
  static DimArg to_dim(NewAxis v) { return v; }
  std::string name_;
  DType dtype_ = DType::kF32;
  std::vector<Expr> shape_;
};

// The name of an argument and the line that asks for it.
struct TensorName {
  TensorName(const char* n, RT_HERE) : name(n), at(where) {}  // NOLINT: implicit by intent
  TensorName(std::string n, RT_HERE)
      : name(std::move(n)), at(where) {}  // NOLINT: implicit by intent
  std::string name;
  Where at;
};

class Kernel {
 public:
  // `interface` carries name, tensors, scalars and clauses (OpDef fills them in); nodes are added
  // here.
  explicit Kernel(ir::Program interface);

  Tensor operator[](TensorName tensor);          // an argument; unknown names are a recorded error
  bool has(std::string_view tensor_name) const;  // optional arguments
  Index dim(std::string_view name) const { return Expr::sym(std::string(name)); }
  Index int_attr(std::string_view name) const { return Expr::sym(std::string(name)); }
  Index tile_param(std::string_view name);  // "BM": value from the Schedule
  Tensor workspace(std::string name, DType dtype, std::vector<Expr> shape, RT_HERE);

  Tile scalar(std::string_view attr, RT_HERE);  // float attribute, rank 0 f32
  Tile index(const Expr& value, RT_HERE);       // index as rank 0 i64
  Tile full(std::vector<Expr> shape, double value, DType dtype = DType::kF32, RT_HERE);
  Tile zeros(std::vector<Expr> shape, RT_HERE) {
    return full(std::move(shape), 0.0, DType::kF32, where);
  }
  Tile iota(const Expr& extent, const Expr& begin = 0,
            RT_HERE);  // [extent] i32: begin, begin+1, ...

  // The same in any shape, counting along `axis`: iota({rows, 1}, 0, first) is a column,
  // iota({1, columns}, 1) a row. Masks over a block of scores are comparisons of the two.
  Tile iota(std::vector<Expr> shape, int axis, const Expr& begin = 0, RT_HERE);

  Tile load(const Region& region, std::string label = "", RT_HERE);
  void store(const Region& region, const Tile& value, RT_HERE);
  void store_add(const Region& region, const Tile& value, RT_HERE);

  // Serial loop with carried tiles. The body returns the next values, same shapes and dtypes.
  using LoopBody = std::function<std::vector<Tile>(Index, std::vector<Tile>)>;
  std::vector<Tile> loop(std::string var, const Expr& begin, const Expr& end, const Expr& step,
                         std::vector<Tile> init, const LoopBody& body, RT_HERE);
  void loop(std::string var, const Expr& begin, const Expr& end, const Expr& step,
            const std::function<void(Index)>& body, RT_HERE);
  void when(const Expr& condition, const std::function<void()>& body, RT_HERE);

  struct Axis {
    // Not std::string: its constructor from (characters, count) would make {{"i", 4}} one axis.
    Axis(const char* index, Expr count) : var(index), extent(std::move(count)) {}
    std::string var;
    Expr extent;
  };
  // Parallel index space; top level only. Successive calls are phases with a barrier between them.
  // The body takes the indices one by one, `[&](Index m, Index n)`, or as one vector.
  template <class Body>
  void tiles(std::vector<Axis> axes, Body&& body, RT_HERE) {
    tiles_node(std::move(axes), adapt(body), where);
  }
  template <class Body>
  void tiles(Axis axis, Body&& body, RT_HERE) {
    tiles_node({std::move(axis)}, adapt(body), where);
  }

  // The program, verified; or the first mistake.
  Result<ir::Program> finish();

  // For the free functions below.
  ir::Program& program() { return program_; }
  Tile add_node(ir::Node node, Where where);
  void fail(ErrorCode code, std::string message, Where where, std::string found = "",
            std::string expected = "", std::string fix = "");
  Tile elementwise(ir::Ew ew, std::vector<Tile> operands, Where where);
  Tile placeholder(std::vector<Expr> shape, DType dtype, Where where);  // stands in after a mistake
  Tile cast(const Tile& x, DType dtype,
            Where where);  // `x` itself if it has that dtype; one node a scope
  void set_label(const Tile& tile, std::string label, Where where);

 private:
  // A region being built, and the casts made in it, so that a tile used twice in f32 is widened
  // once.
  struct OpenBlock {
    std::vector<ir::ValueId> nodes;
    std::map<std::pair<ir::ValueId, DType>, ir::ValueId> casts;
  };
  struct TilesBody {
    size_t num_indices;  // 0: any number
    std::function<void(const std::vector<Index>&)> run;
  };
  template <class Body>
  static TilesBody adapt(Body& body) {
    if constexpr (std::is_invocable_v<Body&, std::vector<Index>>) {
      return {0, [&body](const std::vector<Index>& i) { body(i); }};
    } else if constexpr (std::is_invocable_v<Body&, Index>) {
      return {1, [&body](const std::vector<Index>& i) { body(i[0]); }};
    } else if constexpr (std::is_invocable_v<Body&, Index, Index>) {
      return {2, [&body](const std::vector<Index>& i) { body(i[0], i[1]); }};
    } else if constexpr (std::is_invocable_v<Body&, Index, Index, Index>) {
      return {3, [&body](const std::vector<Index>& i) { body(i[0], i[1], i[2]); }};
    } else {
      return {4, [&body](const std::vector<Index>& i) { body(i[0], i[1], i[2], i[3]); }};
    }
  }
  void tiles_node(std::vector<Axis> axes, const TilesBody& body, Where where);
  ir::ValueId append(ir::Node node, Where where);
  ir::Block build_block(const std::function<void()>& body);
  const ir::TensorParam* region_tensor(const Region& region, Where where);
  // The dimensions of a region and the rank of its tile, new axes included.
  struct Addressed {
    std::vector<ir::DimIndex> dims;
    int rank = 0;
  };
  bool check_index_tile(const Region& region, size_t position, const Tile& first, Where where);
  std::optional<Addressed> resolve_region(const Region& region, Where where);
  void store_node(const Region& region, Tile value, ir::StoreMode mode, Where where);

  ir::Program program_;
  std::vector<OpenBlock> block_stack_;
  std::set<std::string> labels_;
  Status first_error_;
};

Tile reduce(ir::ReduceKind kind, const Tile& x, int axis,
            RT_HERE);  // negative axes count from the end
inline Tile sum(const Tile& x, int axis = -1, RT_HERE) {
  return reduce(ir::ReduceKind::kSum, x, axis, where);
}
inline Tile reduce_max(const Tile& x, int axis = -1, RT_HERE) {
  return reduce(ir::ReduceKind::kMax, x, axis, where);
}
inline Tile reduce_min(const Tile& x, int axis = -1, RT_HERE) {
  return reduce(ir::ReduceKind::kMin, x, axis, where);
}
inline Tile arg_max(const Tile& x, int axis = -1, RT_HERE) {
  return reduce(ir::ReduceKind::kArgMax, x, axis, where);
}
Tile scan(ir::ReduceKind kind, const Tile& x, int axis = -1, RT_HERE);  // inclusive
Tile mma(const Tile& a, const Tile& b, std::string label = "", RT_HERE);
Tile mma(const Tile& a, const Tile& b, const Tile& acc, std::string label = "", RT_HERE);
Tile philox(const Tile& counter, const Tile& seed, const Tile& offset, RT_HERE);

// A tile or a C++ number as an operand, and the author's line: the default argument of the
// converting constructor is evaluated where the conversion happens, which is how an operator, which
// can take no default argument, learns it.
struct Operand {
  Operand(const Tile& t, RT_HERE) : tile(t), at(where) {}  // NOLINT: implicit by intent
  Operand(double n, RT_HERE)
      : number(n), is_number(true), at(where) {}  // NOLINT: implicit by intent
  Tile tile;
  double number = 0;  // adopts the dtype of the other operand
  bool is_number = false;
  Where at;
};
Tile unary(ir::Ew ew, const Operand& a, Where where);
Tile binary(ir::Ew ew, const Operand& a, const Operand& b, Where where);
Tile where_(const Tile& cond, Operand a, Operand b, RT_HERE);

#define RT_DSL_UNARY(fn, ew) \
  inline Tile fn(const Tile& a, RT_HERE) { return unary(ir::Ew::ew, a, where); }
RT_DSL_UNARY(abs, kAbs)
RT_DSL_UNARY(floor, kFloor)
RT_DSL_UNARY(exp, kExp)
RT_DSL_UNARY(exp2, kExp2)
RT_DSL_UNARY(log, kLog)
RT_DSL_UNARY(log2, kLog2)
RT_DSL_UNARY(sqrt, kSqrt)
RT_DSL_UNARY(rsqrt, kRsqrt)
RT_DSL_UNARY(recip, kRecip)
RT_DSL_UNARY(tanh, kTanh)
RT_DSL_UNARY(erf, kErf)
RT_DSL_UNARY(sin, kSin)
RT_DSL_UNARY(cos, kCos)
RT_DSL_UNARY(logical_not, kLogicalNot)
#undef RT_DSL_UNARY

// Binary functions take tiles or C++ numbers on either side (a number becomes a rank-0 fill of the
// other's dtype).
#define RT_DSL_BINARY(fn, ew)                                                                  \
  inline Tile fn(const Tile& a, const Tile& b, RT_HERE) {                                      \
    return binary(ir::Ew::ew, a, b, where);                                                    \
  }                                                                                            \
  inline Tile fn(const Tile& a, double b, RT_HERE) { return binary(ir::Ew::ew, a, b, where); } \
  inline Tile fn(double a, const Tile& b, RT_HERE) { return binary(ir::Ew::ew, a, b, where); }
RT_DSL_BINARY(max, kMax)
RT_DSL_BINARY(min, kMin)
RT_DSL_BINARY(floor_div, kFloorDiv)
RT_DSL_BINARY(mod, kMod)
RT_DSL_BINARY(bit_and, kAnd)
RT_DSL_BINARY(bit_or, kOr)
RT_DSL_BINARY(bit_xor, kXor)
RT_DSL_BINARY(shl, kShl)
RT_DSL_BINARY(shr, kShr)
RT_DSL_BINARY(mul_hi, kMulHi)
RT_DSL_BINARY(lt, kLt)
RT_DSL_BINARY(le, kLe)
RT_DSL_BINARY(eq, kEq)
RT_DSL_BINARY(ne, kNe)
RT_DSL_BINARY(logical_and, kLogicalAnd)
RT_DSL_BINARY(logical_or, kLogicalOr)
#undef RT_DSL_BINARY

#define RT_DSL_OPERATOR(symbol, ew) \
  inline Tile operator symbol(Operand a, Operand b) { return binary(ir::Ew::ew, a, b, a.at); }
RT_DSL_OPERATOR(+, kAdd)
RT_DSL_OPERATOR(-, kSub)
RT_DSL_OPERATOR(*, kMul)
RT_DSL_OPERATOR(/, kDiv)
RT_DSL_OPERATOR(<, kLt)
RT_DSL_OPERATOR(<=, kLe)
#undef RT_DSL_OPERATOR
inline Tile operator>(Operand a, Operand b) { return binary(ir::Ew::kLt, b, a, a.at); }
inline Tile operator>=(Operand a, Operand b) { return binary(ir::Ew::kLe, b, a, a.at); }
inline Tile operator-(Operand a) { return unary(ir::Ew::kNeg, a, a.at); }

}  // namespace rooftile::dsl
