// SPDX-License-Identifier: Apache-2.0
// Known faults of normalisation kernels.
#include <algorithm>

#include "tests/known_faults/fault_support.h"

namespace rooftile::faults {
namespace {

struct Moments {
  double mean, variance, mean_square;
};

Moments moments(const Buffer& x, int64_t offset, int64_t count) {
  Moments m{0, 0, 0};
  const double n = static_cast<double>(count);
  for (int64_t i = 0; i < count; ++i) m.mean += x[offset + i] / n;
  for (int64_t i = 0; i < count; ++i) {
    m.variance += (x[offset + i] - m.mean) * (x[offset + i] - m.mean) / n;
    m.mean_square += x[offset + i] * x[offset + i] / n;
  }
  return m;
}

// Every row of `out` is the row of `x` normalised in float64, within `tolerance` of the largest
// value.
void expect_normalised(const char* op, const Buffer& x, const Buffer& out, int64_t rows,
                       int64_t columns, double eps, double tolerance) {
  const bool layer = std::string(op) == "layer_norm";
  for (int64_t r = 0; r < rows; ++r) {
    const Moments m = moments(x, r * columns, columns);
    const double center = layer ? m.mean : 0;
    const double root = std::sqrt((layer ? m.variance : m.mean_square) + eps);
    for (int64_t c = 0; c < columns; ++c) {
      const double want = (x[r * columns + c] - center) / root, got = out[r * columns + c];
      ASSERT_LE(std::abs(got - want), tolerance * std::max(1.0, std::abs(want)))
          << op << " [" << r << ", " << c << "] of " << columns << ": got " << got << ", want "
          << want;
    }
  }
}

Status normalise(const char* op, Buffer& x, Buffer& out, int64_t rows, int64_t columns,
                 double eps) {
  Buffer ones(x.dtype(), columns, 1);
  return call(op,
              {{"out", out.view(0, {rows, columns})},
               {"x", x.view(0, {rows, columns})},
               {"weight", ones.view(0, {columns})}},
              {{"eps", eps}});
}

TEST(KnownFaults, kf_norm_01_VarianceSurvivesAShiftedMean) {
  for (const double mean : {2000.0, 1e4, -1e5})
    for (const int64_t columns : {4, 64, 1000, 4096}) {
      Buffer x = normal(DType::kF32, 5 * columns, 1, mean), out(DType::kF32, 5 * columns);
      ASSERT_OK(normalise("layer_norm", x, out, 5, columns, 1e-5));
      expect_normalised("layer_norm", x, out, 5, columns, 1e-5, 1e-3);
      for (int64_t r = 0; r < 5; ++r) {
        const Moments m = moments(out, r * columns, columns);
        EXPECT_NEAR(m.mean, 0, 1e-3) << "mean " << mean << ", " << columns << " columns";
        EXPECT_NEAR(m.variance, 1, 1e-2);
      }
    }
}

TEST(KnownFaults, kf_norm_02_HugeFiniteRowsStayFinite) {
  constexpr int64_t kRows = 8, kColumns = 1024;
  std::mt19937_64 random(2);
  std::uniform_real_distribution<double> uniform(-1e30, 1e30);
  Buffer spread(DType::kF32, kRows * kColumns), spike(DType::kF32, kRows * kColumns, 0);
  spread.fill([&](int64_t) { return uniform(random); });
  for (int64_t r = 0; r < kRows; ++r) spike.set(r * kColumns + 37 * r, r % 2 == 0 ? 1e30 : -1e30);
  for (const char* op : {"layer_norm", "rms_norm"})
    for (Buffer* x : {&spread, &spike}) {
      Buffer out(DType::kF32, kRows * kColumns);
      ASSERT_OK(normalise(op, *x, out, kRows, kColumns, 1e-6));
      expect_normalised(op, *x, out, kRows, kColumns, 1e-6, 1e-5);
    }
}

TEST(KnownFaults, kf_norm_02_LargestFiniteBf16RowsNormaliseToOne) {
  Buffer x(DType::kBf16, 3 * 4096, 0x1.fep127), out(DType::kBf16, 3 * 4096);
  ASSERT_OK(normalise("rms_norm", x, out, 3, 4096, 1e-6));
  for (int64_t i = 0; i < out.count(); ++i) ASSERT_EQ(out[i], 1) << i;
  ASSERT_OK(normalise("layer_norm", x, out, 3, 4096, 1e-5));
  for (int64_t i = 0; i < out.count(); ++i) ASSERT_EQ(out[i], 0) << i;
}

TEST(KnownFaults, kf_norm_03_SquaresOfF16AreTakenInF32) {
  constexpr int64_t kRows = 4, kColumns = 4096;
  for (const double largest : {300.0, 6000.0, 60000.0}) {
    std::mt19937_64 random(3);
    Buffer x(DType::kF16, kRows * kColumns), out(DType::kF16, kRows * kColumns);
    x.fill([&](int64_t) {
      return (random() % 2 == 0 ? 1 : -1) * largest *
             (0.5 + 0.5 * std::generate_canonical<double, 53>(random));
    });
    for (const char* op : {"rms_norm", "layer_norm"}) {
      ASSERT_OK(normalise(op, x, out, kRows, kColumns, 1e-6));
      expect_normalised(op, x, out, kRows, kColumns, 1e-6, 0x1p-10);
    }
  }
}

TEST(KnownFaults, kf_norm_04_RowsPastElement2To32AreAddressed) {
  // Three rows, 2^32 + 64 elements apart; only they have memory behind them.
  constexpr int64_t kColumns = 256, kStride = (int64_t{1} << 32) + 64, kRows = 3;
  const int64_t bytes = 2 * ((kRows - 1) * kStride + kColumns);
  SparseMemory far_x(bytes), far_out(bytes);
  if (!far_x.ok() || !far_out.ok()) GTEST_SKIP() << "no address space of " << bytes << " bytes";
  Buffer near_x = normal(DType::kF16, kRows * kColumns, 4), near_out(DType::kF16, kRows * kColumns);
  Buffer ones(DType::kF16, kColumns, 1);
  for (int64_t r = 0; r < kRows; ++r)
    for (int64_t c = 0; c < kColumns; ++c)
      store_element(far_x.base(), DType::kF16, r * kStride + c, near_x[r * kColumns + c]);
  TensorView x(far_x.base(), DType::kF16, {kRows, kColumns}),
      out(far_out.base(), DType::kF16, {kRows, kColumns});
  x.strides[0] = out.strides[0] = kStride;
  for (const char* op : {"layer_norm", "rms_norm"}) {
    ASSERT_OK(normalise(op, near_x, near_out, kRows, kColumns, 1e-6));
    ASSERT_OK(
        call(op, {{"out", out}, {"x", x}, {"weight", ones.view(0, {kColumns})}}, {{"eps", 1e-6}}));
    for (int64_t r = 0; r < kRows; ++r)
      for (int64_t c = 0; c < kColumns; ++c)
        ASSERT_EQ(load_element(far_out.base(), DType::kF16, r * kStride + c),
                  near_out[r * kColumns + c])
            << r;
  }
}

TEST(KnownFaults, kf_norm_05_WideRowsOfTheFusedNorm) {
  for (const int64_t columns : {16384, 32768, 65536}) {
    Buffer x = normal(DType::kBf16, 3 * columns, 5),
           residual = normal(DType::kBf16, 3 * columns, 6);
    Buffer out(DType::kBf16, 3 * columns), ones(DType::kBf16, columns, 1),
        sum(DType::kBf16, 3 * columns);
    sum.fill(
        [&](int64_t i) { return round_to(static_cast<float>(x[i] + residual[i]), DType::kBf16); });
    ASSERT_OK(call("add_rms_norm", {{"out", out.view(0, {3, columns})},
                                    {"residual", residual.view(0, {3, columns})},
                                    {"x", x.view(0, {3, columns})},
                                    {"weight", ones.view(0, {columns})}}));
    for (int64_t i = 0; i < sum.count(); ++i) ASSERT_EQ(residual[i], sum[i]) << i;
    expect_normalised("add_rms_norm", sum, out, 3, columns, 1e-6, 0x1p-7);
  }
}

TEST(KnownFaults, kf_norm_05_TheFusedNormNormalisesWhatItStores) {
  constexpr int64_t kRows = 5, kColumns = 515;
  for (const DType dtype : {DType::kBf16, DType::kF16, DType::kF32}) {
    Buffer x = normal(dtype, kRows * kColumns, 7), residual = normal(dtype, kRows * kColumns, 8);
    Buffer fused(dtype, kRows * kColumns), after(dtype, kRows * kColumns), ones(dtype, kColumns, 1);
    ASSERT_OK(call("add_rms_norm", {{"out", fused.view(0, {kRows, kColumns})},
                                    {"residual", residual.view(0, {kRows, kColumns})},
                                    {"x", x.view(0, {kRows, kColumns})},
                                    {"weight", ones.view(0, {kColumns})}}));
    ASSERT_OK(normalise("rms_norm", residual, after, kRows, kColumns, 1e-6));
    for (int64_t i = 0; i < fused.count(); ++i)
      ASSERT_EQ(fused[i], after[i]) << name(dtype) << " " << i;
  }
}

TEST(KnownFaults, kf_norm_06_LeadingDimensionsThatDoNotMerge) {
  // q inside a packed projection: 7 tokens, 3 x 8 heads of 128; one head of all tokens has row
  // stride 3072.
  constexpr int64_t kTokens = 7, kHeads = 8, kDim = 128, kStride = 3 * kHeads * kDim;
  Buffer qkv = normal(DType::kBf16, kTokens * kStride, 9), before = qkv,
         ones(DType::kBf16, kDim, 1);
  const TensorView three = qkv.view(0, {kTokens, kHeads, kDim}, {kStride, kDim, 1});
  const Status refused =
      call("rms_norm", {{"out", three}, {"x", three}, {"weight", ones.view(0, {kDim})}});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.diag().code, ErrorCode::kRank) << refused.str();

  for (int64_t head = 0; head < kHeads; ++head) {
    const TensorView rows = qkv.view(head * kDim, {kTokens, kDim}, {kStride, 1});
    ASSERT_OK(call("rms_norm", {{"out", rows}, {"x", rows}, {"weight", ones.view(0, {kDim})}}));
  }
  for (int64_t token = 0; token < kTokens; ++token)
    for (int64_t head = 0; head < 3 * kHeads; ++head) {
      const int64_t at = token * kStride + head * kDim;
      const double root = std::sqrt(moments(before, at, kDim).mean_square + 1e-6);
      for (int64_t d = 0; d < kDim; ++d) {
        if (head >= kHeads)
          ASSERT_EQ(qkv[at + d], before[at + d]) << "outside the view";
        else
          ASSERT_NEAR(qkv[at + d], before[at + d] / root, 0x1p-7 * std::abs(before[at + d] / root));
      }
    }
}

TEST(KnownFaults, kf_norm_07_OddWidthsLeaveTheirNeighboursAlone) {
  constexpr int64_t kRows = 7;
  for (const int64_t columns : {1, 2, 3, 7, 127, 769, 1025})
    for (const int64_t offset : {0, 1})
      for (const int64_t gap : {0, 3}) {
        const int64_t stride = columns + gap, count = kRows * stride + 8;
        Buffer x = normal(DType::kF16, count, 10), out(DType::kF16, count),
               weight(DType::kF16, columns, 0.5);
        ASSERT_OK(call("rms_norm", {{"out", out.view(offset, {kRows, columns}, {stride, 1})},
                                    {"x", x.view(offset, {kRows, columns}, {stride, 1})},
                                    {"weight", weight.view(0, {columns})}}));
        for (int64_t i = 0; i < count; ++i) {
          const int64_t row = (i - offset) / stride, column = (i - offset) % stride;
          if (i < offset || row >= kRows || column >= columns) {
            ASSERT_EQ(out[i], Buffer::kGuard) << columns << " columns, element " << i;
            continue;
          }
          const double root =
              std::sqrt(moments(x, offset + row * stride, columns).mean_square + 1e-6);
          ASSERT_NEAR(out[i], x[i] / root / 2, 0x1p-11 + 0x1p-10 * std::abs(x[i] / root / 2));
        }
      }
}

TEST(KnownFaults, kf_norm_08_EveryTripCountOfTheRowSum) {
  constexpr int64_t kRows = 257;
  Schedule unfused;
  unfused.name = "unfused";
  unfused.fuse = false;
  for (const int64_t columns : {2048, 3072, 4096, 5120, 6144, 7168, 8192}) {
    Buffer x = normal(DType::kBf16, kRows * columns, 11), ones(DType::kBf16, columns, 1);
    Buffer out(DType::kBf16, kRows * columns), plain(DType::kBf16, kRows * columns);
    auto run = [&](Buffer& result, const CallOptions& options) {
      return call("rms_norm",
                  {{"out", result.view(0, {kRows, columns})},
                   {"x", x.view(0, {kRows, columns})},
                   {"weight", ones.view(0, {columns})}},
                  {}, options);
    };
    ASSERT_OK(run(out, {}));
    expect_normalised("rms_norm", x, out, kRows, columns, 1e-6, 0x1p-7);
    CallOptions options;
    options.schedule = &unfused;
    ASSERT_OK(run(plain, options));
    expect_normalised("rms_norm", x, plain, kRows, columns, 1e-6, 0x1p-7);
  }
}

}  // namespace
}  // namespace rooftile::faults
