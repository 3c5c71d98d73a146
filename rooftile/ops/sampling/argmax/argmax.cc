// SPDX-License-Identifier: Apache-2.0
// Position of the largest element of each row. Ties go to the lowest position; a NaN, of either
// sign, is larger than every number, as in torch.argmax, so that the result is always a position of
// the row.
#include "rooftile/ops/numerics.h"
#include "rooftile/ops/strips_sm90.h"

namespace rooftile::ops {

using namespace dsl;

void argmax_ref(RefCall& call);

namespace {

void argmax_rows(Kernel& k, const Config&) {
  Index T = k.dim("T");
  k.tiles({"row", T}, [&](Index row) {
    k.store(k["out"](range(row, 1)), arg_max(k.load(k["x"](row, all), "x")));  // [V] -> [1]
  });
}

}  // namespace

OpDef argmax() {
  Expr T = Expr::sym("T"), V = Expr::sym("V");
  return OpDef("sampling", "argmax", "position of the largest element of each row")
      .out({.name = "out",
            .shape = {T},
            .dtypes = {DType::kI32},
            .doc = "[T] column of the largest element"})
      .in({.name = "x", .shape = {T, V}, .dtypes = kFloating, .doc = "[T, V]"})
      .needs(V >= 1, "the largest of no elements does not exist")
      .limit("V", (int64_t{1} << 31) - 1)
      .source("definition; order as in torch.argmax")
      .reference(argmax_ref)
      .kernel({.name = "rows",
               .build = argmax_rows,
               .schedule =
                   [](const Config& config, const Env& dims, const TargetInfo& target) {
                     if (target.gpu) return sm90_streamed(dims.at("V"), config.dtype("x"));
                     return row_schedule();
                   }})
      .cost([](const RefCall& call) {
        double rows = static_cast<double>(call.dim("T")),
               columns = static_cast<double>(call.dim("V"));
        return Cost{.flops = rows * columns,
                    .bytes = bytes_of(call, "x", rows * columns) + 4 * rows};
      })
      .tolerance([](const RefCall&) {
        return Tolerance{0, 0, 0, "comparisons only: exact"};
      })
      .cases(R"(
        T=1 V=1 : smoke
        T=0 V=16 : smoke
        T=3 V=7 : smoke
        T=9 V=15 dtype=f16 : smoke
        T=20 V=33 dtype=f32 : smoke
        T=7 V=769 : smoke
        T=4 V=4097 dtype=f32 : smoke
        T=16 V=32000 : ci
        T=3 V=128256 dtype=f32 : ci
        T=1 V=128256 : llm
        T=16 V=128256 : llm
        T=16 V=151936 dtype=f32 : llm
        T=64 V=128256 : full
      )");
}

}  // namespace rooftile::ops
