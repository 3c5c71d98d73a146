// SPDX-License-Identifier: Apache-2.0
// Softmax over each row: out = exp(scale * (x - max x)) / sum of the same.
//
// The maximum is subtracted before scaling, so that rows far from zero keep their digits
// (pytorch#38839). A row that is all -inf, or holds +inf or NaN, gives NaN, as plain softmax does;
// masked attention has its own definition.
#include <limits>

#include "rooftile/ops/numerics.h"
#include "rooftile/ops/row_parts.h"
#include "rooftile/ops/strips_sm90.h"

namespace rooftile::ops {

using namespace dsl;

void softmax_ref(RefCall& call);

namespace {

constexpr double kLog2E = 1.44269504088896340736;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool is_narrow(const Config& config) { return config.dtype("x") != DType::kF32; }

// exp(scale * x). 2^x takes half the instructions of e^x, for one more rounding of the exponent:
// see below.
Tile scaled_exp(Kernel& k, const Config& config, const Tile& x) {
  return is_narrow(config) ? exp2(x * (k.scalar("scale") * kLog2E)) : exp(x * k.scalar("scale"));
}

void softmax_rows(Kernel& k, const Config& config) {
  Index T = k.dim("T"), V = k.dim("V");
  k.tiles({"row", T}, [&](Index row) {
    Tile x = k.load(k["x"](row, all), "x");                        // [V]
    Tile e = scaled_exp(k, config, x - reduce_max(x)).named("e");  // [V]
    k.store(k["out"](row, all), e * recip(sum(e)));
  });
}

// Rows in parts, so that few long ones keep all multiprocessors busy. A part leaves its maximum and
// its sum; whoever writes a part of the row joins them again.
void softmax_parts(Kernel& k, const Config& config) {
  const Index T = k.dim("T"), V = k.dim("V"), BV = k.tile_param("BV"), parts = ceil_div(V, BV);
  const Tensor maxima = k.workspace("part_max", DType::kF32, {T, parts});
  const Tensor sums = k.workspace("part_sum", DType::kF32, {T, parts});
  k.tiles({{"row", T}, {"part", parts}}, [&](Index row, Index part) {
    Tile x = k.load(k["x"](row, block(part, BV, V)), "x");  // [BV]
    Tile largest = reduce_max(x.to(DType::kF32));           // [1]
    // A part that is all -inf has the sum 0: its terms are exp(-inf - 0).
    Tile base = where_(eq(largest, -kInfinity), k.full({}, 0.0), largest);
    k.store(maxima(row, range(part, 1)), largest);
    k.store(sums(row, range(part, 1)), sum(scaled_exp(k, config, x - base)));
  });
  k.tiles({{"row", T}, {"part", parts}}, [&](Index row, Index part) {
    Tile maximum = k.load(maxima(row, all), "part_max");  // [parts]
    Tile largest = reduce_max(maximum);                   // [1]
    Tile weight = scaled_exp(k, config, maximum - largest);
    Tile total = sum(k.load(sums(row, all), "part_sum") * weight);  // [1]
    Tile x = k.load(k["x"](row, block(part, BV, V)), "x_again");    // [BV]
    k.store(k["out"](row, block(part, BV, V)), scaled_exp(k, config, x - largest) * recip(total));
  });
}

// f32: the exponent is rounded twice. Narrow types: 3.3 times (difference, product, and log2 e
// times the scale), but an exponent that counts is at most 88 for bf16 (results below 2^-126 have
// the absolute bound) and 18 for f16. That is 290 roundings for bf16 where the bound below has 208;
// the difference is in the rounding to the stored type, u / (1 + u) at most: 255 f32 roundings less
// than u. Rows in parts: an exponent comes in two pieces, each with its roundings, whose sizes add
// up to the same; the sums of parts and their weights add 3 roundings a term, and their additions
// are fewer than V/8 together.
Tolerance softmax_tolerance(const RefCall& call) {
  DType dtype = call.config.dtype("x");
  double rel = unit_roundoff(dtype) + (sum_chain(call.dim("V")) + 2 * 104 + 16) * kF32Roundoff;
  return bounded(underflow_error(dtype), rel, call["out"],
                 "one rounding to the stored type; f32: V/8 + 8 additions of positive terms, two "
                 "roundings of an exponent "
                 "of at most 104 (beyond, the result underflows) that count 104 times each, 16 for "
                 "exp (2 ulp, in the "
                 "term and in the sum), reciprocal and product");
}

}  // namespace

OpDef softmax() {
  Expr T = Expr::sym("T"), V = Expr::sym("V");
  return OpDef("softmax", "softmax", "exponentials of each row, divided by their sum")
      .out({.name = "out",
            .shape = {T, V},
            .same_dtype_as = "x",
            .may_alias = {"x"},
            .doc = "[T, V] probabilities; may be x itself"})
      .in({.name = "x",
           .shape = {T, V},
           .dtypes = kFloating,
           .doc = "[T, V] logits; -inf has probability 0"})
      .attr({.name = "scale",
             .default_value = 1,
             .min = 0,
             .max = 1e30,
             .has_range = true,
             .min_exclusive = true,
             .doc = "multiplies the logits: the inverse temperature"})
      .needs(V >= 1, "a row needs at least one element")
      .limit("V", (int64_t{1} << 31) - 1)
      .source(
          "definition; maximum subtracted as in Milakov and Gimelshein 2018, arXiv:1805.02867, "
          "section 2")
      .reference(softmax_ref)
      .kernel(row_parts(softmax_parts))
      .kernel({.name = "rows",
               .build = softmax_rows,
               .schedule =
                   [](const Config& config, const Env& dims, const TargetInfo& target) {
                     if (target.gpu)
                       return sm90_rows(dims.at("T"), dims.at("V"), config.dtype("x"));
                     return row_schedule({"e"});
                   }})
      .cost([](const RefCall& call) {
        double elements = static_cast<double>(call.dim("T")) * static_cast<double>(call.dim("V"));
        return Cost{.flops = 6 * elements, .bytes = bytes_of(call, "x", 2 * elements)};
      })
      .tolerance(softmax_tolerance)
      .cases(R"(
        T=1 V=1 : smoke
        T=0 V=16 : smoke
        T=3 V=7 : smoke
        T=2 V=15 dtype=f16 : smoke
        T=5 V=33 dtype=f32 : smoke
        T=4 V=64 scale=0.125 : smoke
        T=7 V=769 scale=3 : smoke
        T=2 V=511 dtype=f32 : smoke
        T=2 V=1025 dtype=f32 scale=0.01 : smoke
        T=2 V=16387 scale=2 : smoke
        T=1 V=20480 dtype=f32 : smoke
        T=16 V=4096 : ci
        T=9 V=32000 dtype=f16 : ci
        T=3 V=128256 dtype=f32 : ci
        T=1 V=128256 : llm
        T=16 V=128256 dtype=f32 : llm
        T=4096 V=4096 : llm
        T=4096 V=4096 dtype=f32 : llm
        T=2048 V=1024 : llm
        T=257 V=1031 : full
        T=8 V=151936 : full
      )");
}

}  // namespace rooftile::ops
