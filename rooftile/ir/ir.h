// SPDX-License-Identifier: Apache-2.0
// L0, the tile algorithm: what is computed, with no thread, memory or barrier in it.
//
// A Program is a list of nodes in SSA form. Values are tiles: rank 0 to 4, a dtype, and an extent
// an axis. Extents are expressions: the last block of a dimension is simply a *short tile*. Padding
// does not exist at this level, so a reduction or product over a short tile is right by definition,
// and a target that pads must prove that its padding is neutral. Regions (loop, when, tiles) hold
// blocks of nodes. Narrow floats are storage: arithmetic on them is done in f32; only load, store,
// cast and mma see the narrow type.
//
// The meaning of every operation is the sequential interpreter (ir/interp.h).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rooftile/base/diag.h"
#include "rooftile/base/dtype.h"
#include "rooftile/base/expr.h"

namespace rooftile::ir {

enum class Op : uint8_t {
  // sources
  kFill,       // every element = `number` (or +-inf, NaN)
  kScalar,     // rank 0: the float attribute `name`
  kFromIndex,  // rank 0 i64: the value of `expr`
  kIota,       // i32: position along `axis` plus `expr`
  kCarried,    // block argument `axis` (= index) of the loop node in operands[0]
  kResult,     // result `axis` of the loop node in operands[0]
  // movement
  kLoad,   // region of a tensor -> tile
  kStore,  // operands[0] -> region of a tensor; mode kStoreAdd adds (f32, i32, i64 tensors only)
  // compute
  kElementwise,  // `ew`, operands broadcast like NumPy (extent 1 stretches; ranks equal or 0)
  kSelect,       // operands: bool tile, then, otherwise
  kCast,         // to dtype, round to nearest even, saturating for fp8 and integers
  kReduce,       // `reduce` over `axis`, kept with extent 1
  kScan,         // inclusive prefix `reduce` along `axis` (kSum, kMax)
  kMma,          // [M,K] x [K,N] (+ acc [M,N]) -> f32, or i32 for i8/u8; operands: a, b, (acc)
  kTranspose,    // rank 2 view
  // operands: counter tile (i32 or i64), seed, offset (rank 0 i64) -> u32 tile, Philox4x32-10
  kPhilox,
  // regions
  kLoop,   // serial: `name` from begin to end by step; operands = initial carried values; the
           // block yields the next ones
  kWhen,   // `expr` != 0: run the block (effects only)
  kTiles,  // parallel index space: names `vars`, extents `extents`; effects only. Consecutive
           // kTiles at the top level are phases: what the first one stores the second sees
};

enum class Ew : uint8_t {
#define RT_EW(e, text, arity, cls, weight, meaning) e,
#include "rooftile/ir/elementwise.def"
#undef RT_EW
};

enum class EwClass : uint8_t { F, N, I, P, B };
struct EwInfo {
  Ew ew;
  std::string_view name;
  int arity;
  EwClass cls;
  int weight;
};
const EwInfo& ew_info(Ew ew);
const EwInfo* ew_find(std::string_view name);

// kArgMax: i32 position, ties to the lowest, NaN is largest
enum class ReduceKind : uint8_t { kSum, kMax, kMin, kArgMax };
std::string_view reduce_name(ReduceKind kind);

// How one dimension of a tensor is addressed by a load or store. A tile axis that no dimension
// walks has extent 1.
struct DimIndex {
  enum Kind : uint8_t { kPoint, kRange, kIndirect } kind = kPoint;
  Expr begin;        // kPoint, kRange
  Expr extent = 1;   // kRange: number of elements
  int64_t step = 1;  // kRange
  // kIndirect: value id of a rank-1 integer tile. Several indirect dimensions walk together
  int indirect = -1;
  int tile_axis = -1;  // which axis of the tile walks this dimension; -1 for kPoint
};

enum class StoreMode : uint8_t { kSet, kAdd };

using ValueId = int;

struct Block {
  std::vector<ValueId> nodes;
  std::vector<ValueId> yields;  // loops only
};

struct Node {
  ValueId id = -1;
  Op op = Op::kFill;
  DType dtype = DType::kF32;
  std::vector<Expr> shape;  // empty for rank 0 and for nodes without a value
  std::vector<ValueId> operands;
  std::string label;             // what a Schedule calls it; unique when not empty
  std::string name;              // tensor, attribute or loop variable
  std::vector<DimIndex> region;  // kLoad, kStore
  StoreMode mode = StoreMode::kSet;
  Ew ew = Ew::kAdd;
  ReduceKind reduce = ReduceKind::kSum;
  int axis = 0;
  double number = 0;
  Expr expr;
  Expr begin, end, step = 1;      // kLoop
  std::vector<std::string> vars;  // kTiles
  std::vector<Expr> extents;      // kTiles
  Block block;                    // regions
  SourceLoc loc;

  int rank() const { return static_cast<int>(shape.size()); }
  bool has_value() const {
    return op != Op::kStore && op != Op::kLoop && op != Op::kWhen && op != Op::kTiles;
  }
};

enum class Role : uint8_t { kIn, kOut, kInOut, kWorkspace };
std::string_view role_name(Role role);

// A tensor argument and everything the launcher must check about it.
struct TensorParam {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<Expr> shape;
  Role role = Role::kIn;
  // required of data and of every stride but the innermost, in bytes
  int align_bytes = 1;
  bool unit_inner_stride = true;  // innermost stride must be 1 (when its extent exceeds 1)
  // tensors it may be identical to (same pointer, same strides)
  std::vector<std::string> may_alias;
  bool allow_overlap = false;  // index tensors: reads only, aliasing is harmless
  SourceLoc loc;
};

struct ScalarParam {
  std::string name;
  // float attributes are kScalar values; integer ones are symbols of expressions
  bool is_float = true;
  Expr min, max;  // integers: inclusive range, checked when has_range
  double fmin = 0, fmax = 0;
  bool has_range = false;
  bool min_exclusive = false;  // floats
};

// What must hold for a call to be accepted. kIndexLoad-free clauses are O(1); the others walk an
// index tensor.
struct Clause {
  enum Kind : uint8_t {
    kCondition,
    kIndexRange,
    kNonDecreasing,
    kFirstIs,
    kLastIs,
    kDistinct
  } kind = kCondition;
  Expr condition;      // kCondition
  std::string tensor;  // the index tensor
  Expr lo, hi;         // kIndexRange: lo <= t[...] < hi;  kFirstIs / kLastIs: == lo
  // kIndexRange of a matrix: only the first ceil(used[r] / used_unit) entries of row r count; the
  // rest may hold anything (a block table behind a sequence's last page). "": all of them.
  std::string used;
  Expr used_unit = 1;
  bool has_except = false;
  // kIndexRange: one value admitted although outside (a marker such as ignore_index). kDistinct:
  // one value that may stand more than once (a marker such as "skip")
  Expr except;
  std::string why;  // shown in the error
};

struct Program {
  std::string name;
  std::vector<TensorParam> tensors;  // arguments in call order, then workspaces
  std::vector<ScalarParam> scalars;  // arguments after the tensors
  std::vector<Clause> clauses;
  std::vector<std::string> tile_params;  // "BM", ...: symbols that the Schedule gives a value
  std::vector<Node> nodes;               // indexed by ValueId
  Block body;

  const Node& node(ValueId id) const { return nodes[static_cast<size_t>(id)]; }
  Node& node(ValueId id) { return nodes[static_cast<size_t>(id)]; }
  const TensorParam* tensor(std::string_view tensor_name) const;
  const ScalarParam* scalar(std::string_view scalar_name) const;
};

// Checks every structural and typing rule of the language; run after building, parsing and every
// pass.
Status verify(const Program& program);

// Text form. parse(print(p)) gives a program that prints the same.
std::string print(const Program& program);
Result<Program> parse(std::string_view text);

// Replaces symbols (tile parameters, specialised dims) by expressions everywhere.
Program substitute_symbols(const Program& program,
                           const std::map<std::string, Expr, std::less<>>& values);

// Helpers for the `meaning` column of elementwise.def.
inline int64_t as_int(double v) { return static_cast<int64_t>(v); }
inline int64_t as_int(int64_t v) { return v; }
inline int64_t floor_div(int64_t a, int64_t b) {
  return b == 0 ? 0 : a / b - ((a % b != 0) && ((a < 0) != (b < 0)));
}
inline int64_t floor_mod(int64_t a, int64_t b) { return b == 0 ? 0 : a - floor_div(a, b) * b; }
inline double floor_div(double a, double b) {
  return static_cast<double>(floor_div(as_int(a), as_int(b)));
}
inline double floor_mod(double a, double b) {
  return static_cast<double>(floor_mod(as_int(a), as_int(b)));
}
inline int64_t mul_hi_u32(int64_t a, int64_t b) {
  return static_cast<int64_t>(
      (static_cast<uint64_t>(static_cast<uint32_t>(a)) * static_cast<uint32_t>(b)) >> 32);
}

}  // namespace rooftile::ir
