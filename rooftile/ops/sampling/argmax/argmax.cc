// SPDX-License-Identifier: Apache-2.0
// Position of the largest element of each row. Ties go to the lowest position; a NaN, of either
// sign, is larger than every number, as in torch.argmax, so that the result is always a position of
// the row.
#include <limits>

#include "rooftile/ops/numerics.h"
#include "rooftile/ops/row_parts.h"
#include "rooftile/ops/strips_sm90.h"

namespace rooftile::ops {

using namespace dsl;

void argmax_ref(RefCall& call);

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNowhere = 0x7fffffff;  // behind every position

void argmax_rows(Kernel& k, const Config&) {
  Index T = k.dim("T");
  k.tiles({"row", T}, [&](Index row) {
    k.store(k["out"](range(row, 1)), arg_max(k.load(k["x"](row, all), "x")));  // [V] -> [1]
  });
}

// Rows in parts, so that few long ones keep all multiprocessors busy. A part leaves its first
// largest element: where, how large, and whether it is NaN, which is larger than all.
void argmax_parts(Kernel& k, const Config&) {
  const Index T = k.dim("T"), V = k.dim("V"), BV = k.tile_param("BV"), parts = ceil_div(V, BV);
  const Tensor places = k.workspace("part_place", DType::kI32, {T, parts});
  const Tensor values = k.workspace("part_value", DType::kF32, {T, parts});
  const Tensor nans = k.workspace("part_nan", DType::kF32, {T, parts});
  const Tile none = k.full({}, 0.0), infinity = k.full({}, kInfinity);
  k.tiles({{"row", T}, {"part", parts}}, [&](Index row, Index part) {
    const Range here = range(part, 1);
    Tile x = k.load(k["x"](row, block(part, BV, V)), "x").to(DType::kF32);  // [BV]
    Tile number = eq(x, x);
    k.store(places(row, here), arg_max(x) + k.index(part * BV).to(DType::kI32));
    k.store(values(row, here), reduce_max(where_(number, x, infinity)));
    k.store(nans(row, here), reduce_max(where_(number, none, k.full({}, 1.0))));
  });
  k.tiles({"row", T}, [&](Index row) {
    Tile value = k.load(values(row, all), "part_value"), nan = k.load(nans(row, all), "part_nan");
    Tile place = k.load(places(row, all), "part_place");  // [parts]
    Tile largest = reduce_max(value), any_nan = reduce_max(nan);
    Tile first = where_(0.0 < any_nan, 0.0 < nan, eq(value, largest));
    k.store(k["out"](range(row, 1)),
            reduce_min(where_(first, place, k.full({}, kNowhere, DType::kI32))));
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
      .kernel(row_parts(argmax_parts))
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
        T=2 V=16385 : smoke
        T=1 V=20480 dtype=f32 : smoke
        T=16 V=32000 : ci
        T=3 V=128256 dtype=f32 : ci
        T=1 V=128256 : llm
        T=16 V=128256 : llm
        T=16 V=151936 dtype=f32 : llm
        T=64 V=128256 : full
      )");
}

}  // namespace rooftile::ops
