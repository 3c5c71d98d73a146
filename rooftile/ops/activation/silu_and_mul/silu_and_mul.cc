// SPDX-License-Identifier: Apache-2.0
// SwiGLU's activation: out = silu(gate) * up, where x holds the gate in its first half and up in
// its second.
#include "rooftile/ops/activation/gated_kernels.h"
#include "rooftile/ops/numerics.h"

namespace rooftile::ops {

using namespace dsl;

void silu_and_mul_ref(RefCall& call);

namespace {

// Columns `here` of a row.
void silu_and_mul_at(Kernel& k, const Config&, const Index& row, const Range& here) {
  const Range there = range(k.dim("H") + here.begin, here.extent);
  Tile gate = k.load(k["x"](row, here), "gate");
  Tile up = k.load(k["x"](row, there), "up");
  k.store(k["out"](row, here), gate / (1.0 + exp(-gate)) * up);
}

void silu_and_mul_rows(Kernel& k, const Config& config) {
  k.tiles({"row", k.dim("T")},
          [&](Index row) { silu_and_mul_at(k, config, row, range(0, k.dim("H"))); });
}

// For a GPU: a long row is the work of several CTAs.
void silu_and_mul_blocks(Kernel& k, const Config& config) {
  const Index T = k.dim("T"), H = k.dim("H"), BH = k.tile_param("BH");
  k.tiles({{"row", T}, {"part", ceil_div(H, BH)}},
          [&](Index row, Index part) { silu_and_mul_at(k, config, row, block(part, BH, H)); });
}

Tolerance silu_and_mul_tolerance(const RefCall& call) {
  DType dtype = call.config.dtype("x");
  double abs = underflow_error(dtype) + 0x1p-120 * max_abs(call["x"]);
  double rel = unit_roundoff(dtype) + (88 + 16) * kF32Roundoff;
  return bounded(abs, rel, call["out"],
                 "one rounding to the stored type; f32: exp errs by 2 ulp plus one rounding of an "
                 "exponent of at most 88, "
                 "then sum, quotient and product; below -88 exp(-gate) overflows and the result is "
                 "0 instead of "
                 "88 * exp(-88) * up < 2^-120 * up");
}

}  // namespace

OpDef silu_and_mul() {
  Expr T = Expr::sym("T"), H = Expr::sym("H");
  return OpDef("activation", "silu_and_mul", "gate * sigmoid(gate) * up for x = [gate | up]")
      .out({.name = "out", .shape = {T, H}, .same_dtype_as = "x", .doc = "[T, H]"})
      .in({.name = "x",
           .shape = {T, 2 * H},
           .dtypes = kFloating,
           .doc = "[T, 2 H]: gate in columns 0..H-1, up in columns H..2H-1"})
      .source("Shazeer 2020, arXiv:2002.05202 (SwiGLU)")
      .reference(silu_and_mul_ref)
      .kernel(gated_blocks(silu_and_mul_blocks))
      .kernel(gated_rows(silu_and_mul_rows))
      .cost([](const RefCall& call) {
        double elements = static_cast<double>(call.dim("T")) * static_cast<double>(call.dim("H"));
        return Cost{.flops = 6 * elements, .bytes = bytes_of(call, "x", 3 * elements)};
      })
      .tolerance(silu_and_mul_tolerance)
      .cases(R"(
        T=1 H=1 : smoke
        T=0 H=16 : smoke
        T=3 H=0 : smoke
        T=3 H=7 : smoke
        T=2 H=15 dtype=f16 : smoke
        T=5 H=33 dtype=f32 : smoke
        T=7 H=769 : smoke
        T=2 H=1025 dtype=f32 : smoke
        T=16 H=4096 : ci
        T=9 H=11008 dtype=f16 : ci
        T=5 H=14336 dtype=f32 : ci
        T=1 H=14336 : llm
        T=16 H=14336 : llm
        T=4096 H=4096 : llm
        T=512 H=4864 : llm
        T=257 H=1031 : full
        T=1000 H=5120 dtype=f32 : full
      )");
}

}  // namespace rooftile::ops
