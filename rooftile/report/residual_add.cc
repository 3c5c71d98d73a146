// SPDX-License-Identifier: Apache-2.0
#include "rooftile/report/residual_add.h"

namespace rooftile::report {
namespace {

using dsl::all;
using dsl::Index;
using dsl::Kernel;

void add_rows(Kernel& k, const Config&) {
  k.tiles({{"row", k.dim("T")}}, [&](Index row) {
    k.store(k["out"](row, all), k.load(k["x"](row, all)) + k.load(k["y"](row, all)));  // [H]
  });
}

void add_reference(RefCall& call) {
  const NdArray &x = call["x"], &y = call["y"];
  NdArray& out = call["out"];
  for (size_t i = 0; i < out.data.size(); ++i) out.data[i] = x.data[i] + y.data[i];
}

Tolerance add_tolerance(const RefCall& call) {
  // Half a unit in the last place of the result, at the smallest precision it may be stored in.
  double u = 0x1p-24;
  if (call.config.dtype("x") == DType::kBf16) u = 0x1p-8;
  if (call.config.dtype("x") == DType::kF16) u = 0x1p-11;
  return {.abs = 0x1p-25,
          .rel = 2 * u,
          .norm = 2 * u,
          .why = "one f32 sum, one rounding to the stored type"};
}

}  // namespace

OpDef residual_add() {
  const Expr T = Expr::sym("T"), H = Expr::sym("H");
  return OpDef("elementwise", "add", "sum of two tensors")
      .out({.name = "out", .shape = {T, H}, .same_dtype_as = "x", .doc = "[T, H]"})
      .in({.name = "x",
           .shape = {T, H},
           .dtypes = {DType::kBf16, DType::kF16, DType::kF32},
           .doc = "[T, H]"})
      .in({.name = "y", .shape = {T, H}, .same_dtype_as = "x", .doc = "[T, H]"})
      .reference(add_reference)
      .kernel({.name = "rows",
               .build = add_rows,
               .schedule = [](const Config&, const Env&,
                              const TargetInfo&) { return Schedule{.name = "rows"}; }})
      .cost([](const RefCall& call) {
        const auto elements =
            static_cast<double>(call.dim("T")) * static_cast<double>(call.dim("H"));
        return Cost{.flops = elements, .bytes = 3 * elements * size_bytes(call.config.dtype("x"))};
      })
      .tolerance(add_tolerance)
      .cases(R"(
        T=1 H=1 : smoke
        T=3 H=7 : smoke
        T=5 H=130 dtype=f32 : smoke
        T=4 H=65 dtype=f16 : smoke
      )");
}

}  // namespace rooftile::report
