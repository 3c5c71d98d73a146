// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding of q and k, in place: each pair (a, b) of the first R elements of a
// head becomes (a cos - b sin, b cos + a sin), with the angles of the token's position. Elements
// from R on are not touched.
//
// Pairs are (i, i + R/2) (NeoX, Llama in Hugging Face) or (2i, 2i + 1) (interleaved, GPT-J).
// Rotating back is rotating with the sines negated.
#include "rooftile/ops/numerics.h"
#include "rooftile/ops/strips_sm90.h"

namespace rooftile::ops {

using namespace dsl;

void rope_ref(RefCall& call);

namespace {

struct Halves {
  Range first, second;
};

Halves pairs(const Index& rotary, bool interleaved) {
  Index half = rotary / 2;
  if (interleaved) return {range(0, half, 2), range(1, half, 2)};
  return {range(0, half), range(half, half)};
}

void rotate(Kernel& k, const Tensor& heads, const Index& token, const Halves& at, const Tile& cos,
            const Tile& sin) {
  Tile a = k.load(heads(token, all, at.first), heads.name() + "_a");   // [heads, R/2]
  Tile b = k.load(heads(token, all, at.second), heads.name() + "_b");  // [heads, R/2]
  Tile rotated_a = (a * cos - b * sin).to(heads.dtype()).named(heads.name() + "_rotated_a");
  Tile rotated_b = (b * cos + a * sin).to(heads.dtype()).named(heads.name() + "_rotated_b");
  k.store(heads(token, all, at.first), rotated_a);
  k.store(heads(token, all, at.second), rotated_b);
}

void rope_tokens(Kernel& k, const Config& config) {
  Index T = k.dim("T"), R = k.dim("R");
  Halves at = pairs(R, config.flag("interleaved") != 0);
  k.tiles({"token", T}, [&](Index token) {
    Index position = k["positions"].at(token);
    Tile cos = k.load(k["cos_sin"](position, new_axis, range(0, R / 2)), "cos");      // [1, R/2]
    Tile sin = k.load(k["cos_sin"](position, new_axis, range(R / 2, R / 2)), "sin");  // [1, R/2]
    rotate(k, k["q"], token, at, cos, sin);
    if (config.has("k")) rotate(k, k["k"], token, at, cos, sin);
  });
}

Tolerance rope_tolerance(const RefCall& call) {
  DType dtype = call.config.dtype("q");
  double largest = max_abs(call["q"]);
  if (call.has("k")) largest = std::max(largest, max_abs(call["k"]));
  double abs = 8 * kF32Roundoff * largest * max_abs(call["cos_sin"]) + underflow_error(dtype);
  return {abs, unit_roundoff(dtype), 0,
          "one rounding to the stored type; f32: two products and a difference, each of at most 2 "
          "|q cos|, where |q| is at "
          "most sqrt(2) times the largest rotated value"};
}

// Angles of theta = 10000, so that the rotation is a rotation and norms survive.
void rope_inputs(RefCall& call, uint64_t) {
  NdArray& table = call["cos_sin"];
  const int64_t half = call.dim("R") / 2;
  for (int64_t p = 0; p < call.dim("P"); ++p)
    for (int64_t i = 0; i < half; ++i) {
      double angle = static_cast<double>(p) *
                     std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(half));
      table({p, i}) = std::cos(angle);
      table({p, half + i}) = std::sin(angle);
    }
}

}  // namespace

OpDef rope() {
  Expr T = Expr::sym("T"), Hq = Expr::sym("Hq"), Hk = Expr::sym("Hk"), D = Expr::sym("D"),
       R = Expr::sym("R"), P = Expr::sym("P");
  return OpDef("position", "rope", "rotate q and k by their positions, in place")
      .inout({.name = "q",
              .shape = {T, Hq, D},
              .dtypes = kFloating,
              .doc = "[T, Hq, D] rotated in place"})
      .inout({.name = "k",
              .shape = {T, Hk, D},
              .same_dtype_as = "q",
              .optional = true,
              .doc = "[T, Hk, D] rotated in place; absent: only q"})
      .in({.name = "cos_sin",
           .shape = {P, R},
           .dtypes = {DType::kF32},
           .doc = "[P, R] cosines (columns 0..R/2-1), then sines, of each position; R <= D is the "
                  "rotary dimension"})
      .in({.name = "positions",
           .shape = {T},
           .dtypes = {DType::kI32},
           .doc = "[T] row of cos_sin of each token"})
      .flag("interleaved", false, "pairs are (2i, 2i+1) instead of (i, i + R/2)")
      .needs(R % 2 == 0, "elements rotate in pairs")
      .needs(R <= D, "the rotary dimension lies inside the head")
      .index_range("positions", 0, P, "a position is a row of cos_sin")
      .source("Su et al. 2021, arXiv:2104.09864, equation 34")
      .reference(rope_ref)
      .kernel({.name = "tokens",
               .build = rope_tokens,
               .schedule =
                   [](const Config& config, const Env& dims, const TargetInfo& target) {
                     if (target.gpu)
                       return sm90_streamed(dims.at("Hq") * dims.at("R") / 2, config.dtype("q"),
                                            256);
                     // Both results before either store: the second reads what the first
                     // overwrites.
                     std::vector<std::string> keep = {"q_rotated_a", "q_rotated_b"};
                     if (config.has("k")) keep.insert(keep.end(), {"k_rotated_a", "k_rotated_b"});
                     return row_schedule(keep);
                   }})
      .cost([](const RefCall& call) {
        double tokens = static_cast<double>(call.dim("T")),
               rotary = static_cast<double>(call.dim("R"));
        double heads = static_cast<double>(call.dim("Hq")) +
                       (call.config.has("k") ? static_cast<double>(call.dim("Hk")) : 0.0);
        return Cost{
            .flops = 3 * tokens * heads * rotary,
            .bytes = bytes_of(call, "q", 2 * tokens * heads * rotary) + tokens * (rotary * 4 + 4)};
      })
      .tolerance(rope_tolerance)
      .inputs(rope_inputs)
      .cases(R"(
        T=1 Hq=1 D=2 R=2 P=1 : smoke
        T=0 Hq=4 D=64 R=64 P=16 : smoke
        T=3 Hq=2 D=64 R=0 P=16 : smoke
        T=5 Hq=8 Hk=1 D=64 R=64 P=128 k=1 : smoke
        T=3 Hq=3 D=6 R=6 P=7 dtype=f32 : smoke
        T=3 Hq=3 Hk=2 D=6 R=6 P=7 dtype=f32 interleaved=1 k=1 : smoke
        T=4 Hq=2 Hk=2 D=128 R=32 P=64 k=1 : smoke
        T=4 Hq=2 Hk=2 D=128 R=32 P=64 k=1 interleaved=1 dtype=f16 : smoke
        T=2 Hq=5 D=72 R=72 P=90 interleaved=1 : smoke
        T=2 Hq=1 D=70 R=34 P=90 dtype=f32 : smoke
        T=64 Hq=32 Hk=8 D=128 R=128 P=4096 k=1 : ci
        T=33 Hq=14 Hk=2 D=64 R=64 P=2048 k=1 dtype=f16 : ci
        T=17 Hq=8 Hk=8 D=96 R=48 P=2048 k=1 dtype=f32 interleaved=1 : ci
        T=1 Hq=32 Hk=8 D=128 R=128 P=8192 k=1 : llm
        T=16 Hq=32 Hk=8 D=128 R=128 P=8192 k=1 : llm
        T=4096 Hq=32 Hk=8 D=128 R=128 P=8192 k=1 : llm
        T=512 Hq=14 Hk=2 D=64 R=64 P=2048 k=1 : llm
        T=512 Hq=32 Hk=8 D=128 R=128 P=2048 k=1 interleaved=1 : full
      )");
}

}  // namespace rooftile::ops
