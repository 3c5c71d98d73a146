// SPDX-License-Identifier: Apache-2.0
// GeGLU's activation: out = gelu(gate) * up, where x holds the gate in its first half and up in its
// second.
//
// The two definitions of GeLU in use differ by up to 5e-4 and are not interchangeable: the exact
// one, with the error function, and the tanh approximation. The latter is computed as gate *
// sigmoid(2 y), which equals gate / 2 * (1 + tanh(y)) without its cancellation for negative gates.
#include "rooftile/ops/activation/gated_kernels.h"
#include "rooftile/ops/numerics.h"

namespace rooftile::ops {

using namespace dsl;

void gelu_and_mul_ref(RefCall& call);

namespace {

constexpr double kSqrtHalf = 0.70710678118654752440;
constexpr double kTwoSqrtTwoOverPi = 1.59576912160573071176;  // 2 * sqrt(2 / pi)
enum Approximate : int64_t { kNone, kTanh };

Tile gelu(const Tile& x, int64_t approximate) {
  if (approximate == kNone) return x * 0.5 * (1.0 + erf(x * kSqrtHalf));
  Tile two_y = kTwoSqrtTwoOverPi * (x + 0.044715 * (x * x * x));
  return x / (1.0 + exp(-two_y));
}

// Columns `here` of a row.
void gelu_and_mul_at(Kernel& k, const Config& config, const Index& row, const Range& here) {
  const Range there = range(k.dim("H") + here.begin, here.extent);
  Tile gate = k.load(k["x"](row, here), "gate");
  Tile up = k.load(k["x"](row, there), "up");
  k.store(k["out"](row, here), gelu(gate, config.flag("approximate")) * up);
}

void gelu_and_mul_rows(Kernel& k, const Config& config) {
  k.tiles({"row", k.dim("T")},
          [&](Index row) { gelu_and_mul_at(k, config, row, range(0, k.dim("H"))); });
}

// For a GPU: a long row is the work of several CTAs.
void gelu_and_mul_blocks(Kernel& k, const Config& config) {
  const Index T = k.dim("T"), H = k.dim("H"), BH = k.tile_param("BH");
  k.tiles({{"row", T}, {"part", ceil_div(H, BH)}},
          [&](Index row, Index part) { gelu_and_mul_at(k, config, row, block(part, BH, H)); });
}

Tolerance gelu_and_mul_tolerance(const RefCall& call) {
  DType dtype = call.config.dtype("x");
  double u = unit_roundoff(dtype), largest = max_abs(call["x"]);
  if (call.config.flag("approximate") == kTanh) {
    double abs = underflow_error(dtype) + 0x1p-118 * largest;
    return bounded(
        abs, u + (5 * 88 + 16) * kF32Roundoff, call["out"],
        "one rounding to the stored type; f32: an exponent of at most 88 with five roundings, exp "
        "to 2 ulp, "
        "sum, quotient, product; below -88 the result is 0 instead of less than 2^-118 * up");
  }
  // erf errs by 2 ulp of a number up to 1, its argument by two roundings (derivative at most 2 x
  // exp(-x^2) < 1).
  double abs = underflow_error(dtype) + 4 * kF32Roundoff * largest * largest;
  return bounded(abs, u + 16 * kF32Roundoff, call["out"],
                 "one rounding to the stored type; f32: 1 + erf cancels for negative gates, which "
                 "leaves an absolute error "
                 "of (2 ulp of erf, two roundings of its argument, one of the sum) * |gate| / 2 * "
                 "|up|; three products");
}

}  // namespace

OpDef gelu_and_mul() {
  Expr T = Expr::sym("T"), H = Expr::sym("H");
  return OpDef("activation", "gelu_and_mul", "gelu(gate) * up for x = [gate | up]")
      .out({.name = "out", .shape = {T, H}, .same_dtype_as = "x", .doc = "[T, H]"})
      .in({.name = "x",
           .shape = {T, 2 * H},
           .dtypes = kFloating,
           .doc = "[T, 2 H]: gate in columns 0..H-1, up in columns H..2H-1"})
      .choice("approximate", {"none", "tanh"},
              "none: with the error function; tanh: the approximation (Gemma)")
      .source("Hendrycks and Gimpel 2016, arXiv:1606.08415; Shazeer 2020, arXiv:2002.05202 (GeGLU)")
      .reference(gelu_and_mul_ref)
      .kernel(gated_blocks(gelu_and_mul_blocks))
      .kernel(gated_rows(gelu_and_mul_rows))
      .cost([](const RefCall& call) {
        double elements = static_cast<double>(call.dim("T")) * static_cast<double>(call.dim("H"));
        double each = call.config.flag("approximate") == kTanh ? 11 : 6;
        return Cost{.flops = each * elements, .bytes = bytes_of(call, "x", 3 * elements)};
      })
      .tolerance(gelu_and_mul_tolerance)
      .cases(R"(
        T=1 H=1 : smoke
        T=1 H=1 approximate=tanh : smoke
        T=0 H=16 : smoke
        T=3 H=0 approximate=tanh : smoke
        T=3 H=7 : smoke
        T=2 H=15 dtype=f16 approximate=tanh : smoke
        T=5 H=33 dtype=f32 : smoke
        T=7 H=769 approximate=tanh : smoke
        T=2 H=1025 dtype=f32 approximate=tanh : smoke
        T=16 H=4096 : ci
        T=9 H=11008 dtype=f16 : ci
        T=5 H=16384 dtype=f32 approximate=tanh : ci
        T=1 H=16384 approximate=tanh : llm
        T=4096 H=4096 approximate=tanh : llm
        T=4096 H=4096 : llm
        T=257 H=1031 : full
      )");
}

}  // namespace rooftile::ops
