// SPDX-License-Identifier: Apache-2.0
// Small tile programs for tests of the IR: together they use every operation of the language.
#pragma once

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "rooftile/dsl/dsl.h"

namespace rooftile::ir::test {

using namespace dsl;  // NOLINT: test vocabulary

inline Expr sym(const char* name) { return Expr::sym(name); }

inline TensorParam tensor(std::string name, DType dtype, std::vector<Expr> shape,
                          Role role = Role::kIn) {
  TensorParam t;
  t.name = std::move(name);
  t.dtype = dtype;
  t.shape = std::move(shape);
  t.role = role;
  t.align_bytes = size_bytes(dtype);
  return t;
}

inline ScalarParam float_attr(std::string name) {
  ScalarParam s;
  s.name = std::move(name);
  return s;
}
inline ScalarParam int_attr(std::string name) {
  ScalarParam s = float_attr(std::move(name));
  s.is_float = false;
  return s;
}

inline Program interface(std::string name, std::vector<TensorParam> tensors,
                         std::vector<ScalarParam> scalars = {}) {
  Program p;
  p.name = std::move(name);
  p.tensors = std::move(tensors);
  p.scalars = std::move(scalars);
  return p;
}

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

inline Result<Program> build_rms_norm() {
  ScalarParam eps = float_attr("eps");
  eps.has_range = true;
  eps.fmin = 0;
  eps.fmax = 1;
  eps.min_exclusive = true;
  const Expr T = sym("T"), H = sym("H");
  Kernel k(interface("rms_norm",
                     {tensor("out", DType::kBf16, {T, H}, Role::kOut),
                      tensor("x", DType::kBf16, {T, H}), tensor("weight", DType::kBf16, {H})},
                     {eps}));
  k.tiles({{"row", T}}, [&](Index row) {
    Tile x = k.load(k["x"](row, all), "x");                                   // [H]
    Tile r = rsqrt(sum(x * x) / k.index(H) + k.scalar("eps")).named("rstd");  // [1]
    k.store(k["out"](row, all), x * r * k.load(k["weight"](all)));
  });
  return k.finish();
}

// out = a b^T, blocked, with a loop over K that carries the accumulator.
inline Result<Program> build_gemm(DType dtype = DType::kF32) {
  const Expr M = sym("M"), N = sym("N"), K = sym("K");
  const bool bytes = dtype == DType::kI8;
  Kernel k(interface("gemm", {tensor("out", bytes ? DType::kI32 : DType::kF32, {M, N}, Role::kOut),
                              tensor("a", dtype, {M, K}), tensor("b", dtype, {N, K})}));
  const Index BM = k.tile_param("BM"), BN = k.tile_param("BN"), BK = k.tile_param("BK");
  k.tiles({{"i", ceil_div(M, BM)}, {"j", ceil_div(N, BN)}}, [&](Index i, Index j) {
    const Range rows = block(i, BM, M), columns = block(j, BN, N);
    Tile zero = k.full({rows.extent, columns.extent}, 0, bytes ? DType::kI32 : DType::kF32);
    auto acc =
        k.loop("kb", 0, ceil_div(K, BK), 1, {zero}, [&](Index kb, std::vector<Tile> carried) {
          Tile a = k.load(k["a"](rows, block(kb, BK, K)), "a");     // [BM, BK]
          Tile b = k.load(k["b"](columns, block(kb, BK, K)), "b");  // [BN, BK]
          return std::vector<Tile>{mma(a, b.t(), carried[0], "product")};
        });
    k.store(k["out"](rows, columns), acc[0]);
  });
  return k.finish();
}

// Numerically safe softmax in two phases through a workspace, in blocks of columns.
inline Result<Program> build_two_phase_softmax() {
  const Expr T = sym("T"), H = sym("H");
  Kernel k(interface("softmax", {tensor("out", DType::kF32, {T, H}, Role::kOut),
                                 tensor("x", DType::kF32, {T, H})}));
  Tensor stats = k.workspace("stats", DType::kF32, {T, 2});
  k.tiles({{"row", T}}, [&](Index row) {
    auto state = k.loop("c", 0, H, 3, {k.full({1}, -kInfinity), k.zeros({1})},
                        [&](Index c, std::vector<Tile> s) {
                          Tile x = k.load(k["x"](row, range(c, min(3, H - c))));
                          Tile m = max(s[0], reduce_max(x));
                          return std::vector<Tile>{m, s[1] * exp(s[0] - m) + sum(exp(x - m))};
                        });
    k.store(stats(row, range(0, 1)), state[0]);
    k.store(stats(row, range(1, 1)), state[1]);
  });
  k.tiles({{"row", T}}, [&](Index row) {
    Tile x = k.load(k["x"](row, all));
    k.store(k["out"](row, all), exp(x - k.load(stats(row, 0))) / k.load(stats(row, 1)));
  });
  return k.finish();
}

// Rows of `table` by `ids`, added into `out` at `slots`; only the first `n` rows, one tile a block
// of 2.
inline Result<Program> build_gather_scatter() {
  const Expr R = sym("R"), V = sym("V"), S = sym("S"), D = sym("D");
  Kernel k(interface("gather_scatter",
                     {tensor("out", DType::kF32, {S, D}, Role::kInOut),
                      tensor("table", DType::kF32, {V, D}), tensor("ids", DType::kI32, {R}),
                      tensor("slots", DType::kI64, {R}), tensor("first", DType::kI32, {1})},
                     {int_attr("n")}));
  Clause clause;
  clause.kind = Clause::kIndexRange;
  clause.tensor = "ids";
  clause.lo = 0;
  clause.hi = V;
  clause.has_except = true;
  clause.except = -1;
  clause.why = "rows of \"table\"\\n";
  Program& p = k.program();
  p.clauses.push_back(clause);
  clause = {};
  clause.condition = sym("n") <= R;
  clause.why = "n counts rows";
  p.clauses.push_back(clause);
  k.tiles({{"i", ceil_div(R, 2)}}, [&](Index i) {
    k.when(i >= k["first"].at(0), [&] {
      const Range r = range(i * 2, max(min(2, sym("n") - i * 2), 0));
      Tile rows = k.load(k["table"](k.load(k["ids"](r)), all), "rows");
      k.store_add(k["out"](k.load(k["slots"](r)), all), rows);
    });
  });
  return k.finish();
}

// One element from each pair (row, column), walking two dimensions together; and strided columns.
inline Result<Program> build_pick() {
  const Expr R = sym("R"), H = sym("H"), P = sym("P");
  Kernel k(interface(
      "pick", {tensor("picked", DType::kF32, {P}, Role::kOut),
               tensor("even", DType::kF32, {R, 2}, Role::kOut), tensor("x", DType::kF32, {R, H}),
               tensor("r", DType::kI32, {P}), tensor("c", DType::kI32, {P})}));
  k.tiles({{"once", 1}}, [&](Index) {
    k.store(k["picked"](all), k.load(k["x"](k.load(k["r"](all)), k.load(k["c"](all)))));
    k.store(k["even"](all, all), k.load(k["x"](all, range(0, 2, 2))));
  });
  return k.finish();
}

// Every remaining operation on one short row.
inline Result<Program> build_zoo() {
  const Expr n = sym("n");
  auto out = [&](std::string name, DType dtype) {
    return tensor(std::move(name), dtype, {n}, Role::kOut);
  };
  Kernel k(interface(
      "zoo",
      {out("scan", DType::kF32), out("running", DType::kI32), out("random", DType::kU32),
       out("mask", DType::kBool), out("ints", DType::kI32), out("fp8", DType::kF8E4M3),
       tensor("best", DType::kI32, {1}, Role::kOut), tensor("least", DType::kF32, {1}, Role::kOut),
       tensor("outer", DType::kF32, {n, n}, Role::kOut), tensor("x", DType::kF32, {n})},
      {float_attr("scale"), int_attr("seed")}));
  Tile scale = k.scalar("scale");
  k.tiles({{"once", 1}}, [&](Index) {
    Tile x = k.load(k["x"](all), "x");
    Tile i = k.iota(n, 1);
    k.store(k["scan"](all), scan(ReduceKind::kSum, x * scale));
    k.store(k["running"](all), scan(ReduceKind::kMax, mod(i * 7, 5)));
    k.store(k["random"](all), philox(i, k.index(sym("seed")), k.index(0)));
    Tile positive = logical_and(x > 0.0, logical_not(eq(i, 2)));
    k.store(k["mask"](all), positive);
    k.store(k["ints"](all), bit_xor(shl(bit_and(i, 3), 2), floor_div(i, 2)));
    k.store(k["fp8"](all), where_(positive, x, -1.0));
    k.store(k["best"](all), arg_max(x));
    k.store(k["least"](all), reduce_min(abs(-x)));
    Tile column = k.iota({n, 1}, 0), row = k.load(k["x"](new_axis, all));
    k.store(k["outer"](all, all), column * row);
  });
  return k.finish();
}

struct NamedProgram {
  std::string name;
  std::function<Result<Program>()> build;
};
inline std::vector<NamedProgram> all_programs() {
  return {{"rms_norm", build_rms_norm},
          {"gemm_f32", [] { return build_gemm(); }},
          {"gemm_i8", [] { return build_gemm(DType::kI8); }},
          {"two_phase_softmax", build_two_phase_softmax},
          {"gather_scatter", build_gather_scatter},
          {"pick", build_pick},
          {"zoo", build_zoo}};
}

}  // namespace rooftile::ir::test
