// SPDX-License-Identifier: Apache-2.0
// The programs of docs/decisions/0001-language.md run in the interpreter, in float64, against plain
// loops: sizes that leave short tiles on every side, rows that see no key, empty experts. And the
// rewrite `speculate_reference`: the loop it gives computes the same, whether its repair path runs
// never, sometimes or always.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "rooftile/ir/interp.h"
#include "tests/language/design_programs.h"

namespace rooftile {
namespace {

using namespace design_test;

NdArray random_array(std::vector<int64_t> shape, uint64_t seed, double spread = 1) {
  NdArray a;
  a.shape = std::move(shape);
  size_t count = 1;
  for (int64_t extent : a.shape) count *= static_cast<size_t>(extent);
  a.data.resize(count);
  std::mt19937_64 random(seed);
  std::uniform_int_distribution<int> value(-64, 64);  // exact in bf16
  for (double& v : a.data) v = spread * value(random) / 64.0;
  return a;
}

NdArray integers(std::vector<double> values) {
  NdArray a;
  a.shape = {static_cast<int64_t>(values.size())};
  a.data = std::move(values);
  return a;
}

// Runs the program in float64; the tensors hold its outputs then.
void run(const Result<ir::Program>& program, const Env& ints, const ir::FloatAttrs& floats,
         ir::InterpTensors& tensors) {
  ASSERT_TRUE(program.ok()) << program.diag().str();
  const Status status =
      ir::interpret(*program, ints, floats, tensors, {.numerics = ir::InterpOptions::kFloat64});
  ASSERT_TRUE(status.ok()) << status.str();
}

constexpr double kTolerance = 1e-12;  // float64 with a few hundred roundings

double dot(const NdArray& a, int64_t row, const NdArray& b, int64_t other, int64_t depth) {
  double s = 0;
  for (int64_t k = 0; k < depth; ++k) s += a({row, k}) * b({other, k});
  return s;
}

TEST(DesignNumbers, GemmWithShortTilesOnEverySide) {
  const int64_t M = 7, N = 9, K = 10;
  ir::InterpTensors t = {{"a", random_array({M, K}, 1)},
                         {"b", random_array({N, K}, 2)},
                         {"bias", random_array({N}, 3)}};
  run(gemm(), {{"BM", 4}, {"BN", 4}, {"BK", 4}}, {{"softmax_scale", 0}}, t);
  for (int64_t m = 0; m < M; ++m)
    for (int64_t n = 0; n < N; ++n) {
      const double y = dot(t["a"], m, t["b"], n, K) + t["bias"]({n});
      EXPECT_NEAR(t["d"]({m, n}), y / (1 + std::exp(-y)), kTolerance);
    }
}

struct AttentionCase {
  int64_t Sq, Sk;
  bool causal;
};

// Softmax of one row, and its log-sum-exp; `visible` keys from the left.
void check_attention(ir::InterpTensors& t, const AttentionCase& c, double scale) {
  const NdArray &q = t["q"], &k = t["k"], &v = t["v"];
  const int64_t Hq = q.shape[2], D = q.shape[3], group = Hq / k.shape[2];
  for (int64_t h = 0; h < Hq; ++h)
    for (int64_t i = 0; i < c.Sq; ++i) {
      const int64_t visible = c.causal ? std::clamp<int64_t>(i + c.Sk - c.Sq + 1, 0, c.Sk) : c.Sk;
      std::vector<double> s(static_cast<size_t>(visible));
      double top = -std::numeric_limits<double>::infinity(), sum = 0;
      for (int64_t j = 0; j < visible; ++j) {
        double& x = s[static_cast<size_t>(j)];
        for (int64_t d = 0; d < D; ++d) x += q({0, i, h, d}) * k({0, j, h / group, d});
        x *= scale;
        top = std::max(top, x);
      }
      for (double x : s) sum += std::exp(x - top);
      for (int64_t d = 0; d < D; ++d) {
        double o = 0;
        for (int64_t j = 0; j < visible; ++j)
          o += std::exp(s[static_cast<size_t>(j)] - top) / sum * v({0, j, h / group, d});
        ASSERT_NEAR(t["out"]({0, i, h, d}), o, kTolerance) << "row " << i << " of " << c.Sq;
      }
      if (visible == 0)
        ASSERT_EQ(t["lse"]({0, h, i}), top);
      else
        ASSERT_NEAR(t["lse"]({0, h, i}), top + std::log(sum), kTolerance * (1 + std::fabs(top)));
    }
}

TEST(DesignNumbers, AttentionMasksShortBlocksAndDeadRows) {
  for (const AttentionCase& c :
       {AttentionCase{9, 9, true}, AttentionCase{5, 11, true}, AttentionCase{11, 5, true},
        AttentionCase{6, 7, false}, AttentionCase{3, 0, false}, AttentionCase{8, 8, true}}) {
    ir::InterpTensors t = {{"q", random_array({1, c.Sq, 4, 8}, 1, 4)},
                           {"k", random_array({1, c.Sk, 2, 8}, 2, 4)},
                           {"v", random_array({1, c.Sk, 2, 8}, 3)}};
    run(attention(c.causal), {{"BM", 4}, {"BN", 4}}, {{"softmax_scale", 0.5}}, t);
    check_attention(t, c, 0.5);
  }
}

// Attention without mask, its loop cut after one tracked step, the rest as the rewrite gives it.
Result<ir::Program> speculative_attention(double bound) {
  using namespace dsl;
  const std::vector<Expr> q = {S("B"), S("Sq"), S("Hq"), S("D")};
  const std::vector<Expr> kv = {S("B"), S("Sk"), S("Hkv"), S("D")};
  return build(
      "speculative",
      {out("out", kBf16, q), out("lse", kF32, {S("B"), S("Hq"), S("Sq")}), in("q", kBf16, q),
       in("k", kBf16, kv), in("v", kBf16, kv)},
      [&](Kernel& k) {
        const Index Sq = k.dim("Sq"), Sk = k.dim("Sk"), D = k.dim("D"), BN = k.tile_param("BN");
        const Tile scale = k.scalar("softmax_scale") * design::kLog2e;
        k.tiles({{"b", k.dim("B")}, {"h", k.dim("Hq")}}, [&](std::vector<Index> at) {
          const Index b = at[0], h = at[1], hk = h / (k.dim("Hq") / k.dim("Hkv"));
          const Tile query = k.load(k["q"](b, all, h, all), "q");
          auto scores = [&](const Range& keys, Tile& values) {
            values = k.load(k["v"](b, keys, hk, all));
            return mma(query, k.load(k["k"](b, keys, hk, all)).t()) * scale;
          };
          Tile v0;
          const Tile x0 = scores(range(0, BN), v0), m0 = reduce_max(x0), p0 = exp2(x0 - m0);
          design::Tiles state = {mma(p0.to(kBf16), v0, k.zeros({Sq, D})), m0, sum(p0)};
          state = k.loop("kv", 1, Sk / BN, 1, state, [&](Index j, design::Tiles s) {
            Tile v;
            const Tile x = scores(range(j * BN, BN), v);
            return design::speculative_step(k, x, v, s[0], s[1], s[2], bound);
          });
          k.store(k["out"](b, all, h, all), state[0] / state[2]);
          k.store(k["lse"](b, h, all, new_axis),
                  (state[1] + log2(state[2])) * (1 / design::kLog2e));
        });
      });
}

TEST(DesignNumbers, SpeculativeReferenceIsExactWhateverIsRepaired) {
  const AttentionCase c = {5, 24, false};
  ir::InterpTensors inputs = {{"q", random_array({1, c.Sq, 2, 8}, 4, 4)},
                              {"k", random_array({1, c.Sk, 1, 8}, 5, 4)},
                              {"v", random_array({1, c.Sk, 1, 8}, 6)}};
  // Scores that rise by hundreds from block to block: every block outruns the reference.
  ir::InterpTensors rising = inputs;
  for (int64_t j = 0; j < c.Sk; ++j)
    for (int64_t d = 0; d < 8; ++d) rising["k"]({0, j, 0, d}) *= 1.0 + static_cast<double>(j * 8);
  for (const ir::InterpTensors& data : {inputs, rising})
    for (double bound : {0x1p60, 64.0, 0.0}) {  // hardly ever, sometimes, always
      ir::InterpTensors t = data;
      run(speculative_attention(bound), {{"BN", 4}}, {{"softmax_scale", 0.5}}, t);
      check_attention(t, c, 0.5);
    }
}

// Lengths 0, 1, whole pages and part of one; more pieces than work, and one piece.
TEST(DesignNumbers, PagedDecodeCutsTheListAnywhere) {
  const int64_t B = 5, Hkv = 2, G = 2, D = 8, PAGE = 4, P = 9;
  const std::vector<int64_t> lens = {5, 0, 11, 1, 8};
  NdArray table = integers({3, 0, 0, 0, 0, 0, 7, 1, 5, 2, 0, 0, 8, 4, 0});
  table.data[1] = 6;
  table.shape = {B, 3};
  const NdArray q = random_array({B, Hkv, G, D}, 1, 4);
  const NdArray k = random_array({P, PAGE, Hkv, D}, 2, 4), v = random_array({P, PAGE, Hkv, D}, 3);
  for (int64_t pieces : {1, 3, 40}) {
    ir::InterpTensors t = {{"q", q}, {"k", k}, {"v", v}, {"table", table}};
    t["lens"] = integers({5, 0, 11, 1, 8});
    run(decode(), {{"UNIT", 2}, {"PIECES", pieces}}, {{"softmax_scale", 0.5}}, t);
    for (int64_t b = 0; b < B; ++b)
      for (int64_t h = 0; h < Hkv; ++h)
        for (int64_t g = 0; g < G; ++g) {
          std::vector<double> weights, o(static_cast<size_t>(D), 0.0);
          double sum = 0;
          const int64_t length = lens[static_cast<size_t>(b)];
          auto slot = [&](int64_t j) { return static_cast<int64_t>(table({b, j / PAGE})); };
          for (int64_t j = 0; j < length; ++j) {
            double s = 0;
            for (int64_t d = 0; d < D; ++d) s += q({b, h, g, d}) * k({slot(j), j % PAGE, h, d});
            weights.push_back(std::exp(0.5 * s));
            sum += weights.back();
          }
          for (int64_t j = 0; j < length; ++j)
            for (int64_t d = 0; d < D; ++d)
              o[static_cast<size_t>(d)] +=
                  weights[static_cast<size_t>(j)] / sum * v({slot(j), j % PAGE, h, d});
          for (int64_t d = 0; d < D; ++d)
            ASSERT_NEAR(t["out"]({b, h, g, d}), o[static_cast<size_t>(d)], 1e-11)
                << "request " << b << ", pieces " << pieces;
        }
  }
}

TEST(DesignNumbers, MoeWithEmptyExpertsAndShortGroups) {
  const int64_t N = 6, K = 5;
  ir::InterpTensors t = {{"x", random_array({4, K}, 1)},
                         {"w", random_array({4, N, K}, 2)},
                         {"source", integers({3, 0, 1, 1, 2, 0, 3})},
                         {"offsets", integers({0, 5, 5, 6, 7})}};
  run(moe(), {{"BM", 2}, {"BN", 4}, {"BK", 3}}, {{"softmax_scale", 0}}, t);
  for (int64_t r = 0; r < 7; ++r) {
    const int64_t e = r < 5 ? 0 : r < 6 ? 2 : 3, from = static_cast<int64_t>(t["source"]({r}));
    for (int64_t n = 0; n < N; ++n) {
      double y = 0;
      for (int64_t k = 0; k < K; ++k) y += t["x"]({from, k}) * t["w"]({e, n, k});
      EXPECT_NEAR(t["y"]({r, n}), y, kTolerance);
    }
  }
}

TEST(DesignNumbers, Int4UnpacksEveryNibble) {
  const int64_t M = 3, N = 5, K = 32, G = 16;
  NdArray word = random_array({K / 8, N}, 1), zero = random_array({K / G, N}, 2);
  std::mt19937_64 random(3);
  for (double& w : word.data) w = static_cast<double>(static_cast<int32_t>(random()));
  for (double& z : zero.data) z = static_cast<double>(random() % 16);
  ir::InterpTensors t = {{"x", random_array({M, K}, 4)},
                         {"word", word},
                         {"scale", random_array({K / G, N}, 5)},
                         {"zero", zero}};
  run(int4(), {{"BM", 2}, {"BN", 4}, {"BK", 8}}, {{"softmax_scale", 0}}, t);
  for (int64_t m = 0; m < M; ++m)
    for (int64_t n = 0; n < N; ++n) {
      double y = 0;
      for (int64_t k = 0; k < K; ++k) {
        const auto bits = static_cast<uint32_t>(static_cast<int64_t>(word({k / 8, n})));
        const double nibble = (bits >> (4 * (k % 8))) & 15u;
        y += t["x"]({m, k}) * (nibble - zero({k / G, n})) * t["scale"]({k / G, n});
      }
      EXPECT_NEAR(t["y"]({m, n}), y, kTolerance);
    }
}

TEST(DesignNumbers, SoftmaxDividesInTheExponent) {
  ir::InterpTensors t = {{"x", random_array({2, 13}, 1, 20)}};
  run(softmax(), {}, {{"softmax_scale", 0}}, t);
  for (int64_t r = 0; r < 2; ++r) {
    double sum = 0;
    for (int64_t c = 0; c < 13; ++c) sum += std::exp(t["x"]({r, c}));
    for (int64_t c = 0; c < 13; ++c)
      EXPECT_NEAR(t["y"]({r, c}), std::exp(t["x"]({r, c})) / sum, kTolerance);
  }
}

}  // namespace
}  // namespace rooftile
