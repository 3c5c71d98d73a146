// SPDX-License-Identifier: Apache-2.0
// Known faults of sampling and top-k kernels.
#include <map>
#include <set>

#include "tests/known_faults/fault_support.h"

namespace rooftile::faults {
namespace {

// Sampling parameters shared by all rows; an absent filter is not passed at all.
struct Filters {
  double temperature = 1;
  bool use_top_k = false, use_top_p = false, use_min_p = false;
  int64_t top_k = 0;
  double top_p = 1, min_p = 0;
};

// One token a row; row r draws with seed `first_seed + r`.
std::vector<int64_t> draw(const TensorView& logits, const Filters& filters, Status& status,
                          int64_t first_seed = 0) {
  const int64_t rows = logits.shape[0];
  auto column = [&](DType dtype, double value) { return Buffer(dtype, rows, value); };
  Buffer out(DType::kI32, rows), temperature = column(DType::kF32, filters.temperature);
  Buffer top_k = column(DType::kI32, static_cast<double>(filters.top_k));
  Buffer top_p = column(DType::kF32, filters.top_p), min_p = column(DType::kF32, filters.min_p);
  Buffer seed(DType::kI64, rows), offset(DType::kI64, rows, 0);
  seed.fill([&](int64_t r) { return static_cast<double>(first_seed + r); });
  auto given = [&](bool use, Buffer& buffer) {
    return use ? buffer.view(0, {rows}) : TensorView();
  };
  status = call("sample", {{"out", out.view(0, {rows})},
                           {"logits", logits},
                           {"temperature", temperature.view(0, {rows})},
                           {"top_k", given(filters.use_top_k, top_k)},
                           {"top_p", given(filters.use_top_p, top_p)},
                           {"min_p", given(filters.use_min_p, min_p)},
                           {"seed", seed.view(0, {rows})},
                           {"offset", offset.view(0, {rows})}});
  std::vector<int64_t> tokens;
  for (int64_t r = 0; r < rows; ++r) tokens.push_back(static_cast<int64_t>(out[r]));
  return tokens;
}

// The same row for every request.
std::vector<int64_t> draw_often(Buffer& row, int64_t times, const Filters& filters, Status& status,
                                int64_t first_seed = 0) {
  return draw(row.view(0, {times, row.count()}, {0, 1}), filters, status, first_seed);
}

std::map<int64_t, int64_t> histogram(const std::vector<int64_t>& tokens) {
  std::map<int64_t, int64_t> counts;
  for (int64_t token : tokens) ++counts[token];
  return counts;
}

std::vector<Filters> all_filters() {
  return {{},
          {.use_top_k = true, .top_k = 50},
          {.use_top_p = true, .top_p = 0.9},
          {.use_min_p = true, .min_p = 0.05},
          {.use_top_k = true,
           .use_top_p = true,
           .use_min_p = true,
           .top_k = 20,
           .top_p = 0.8,
           .min_p = 0.01}};
}

TEST(KnownFaults, kf_sample_01_OneHotWithAHugeK) {
  Buffer row(DType::kF32, 32000, -kInf);
  row.set(1, 0);
  Status status;
  const auto tokens = draw_often(
      row, 1000, {.use_top_k = true, .use_top_p = true, .top_k = 1073741824, .top_p = 1}, status);
  ASSERT_OK(status);
  for (int64_t token : tokens) ASSERT_EQ(token, 1);
}

TEST(KnownFaults, kf_sample_02_RowsThatCannotBeDrawnAreFlagged) {
  constexpr int64_t kColumns = 128256;
  Buffer x = normal(DType::kF32, 4 * kColumns, 2);
  for (int64_t c = 0; c < kColumns; ++c) {
    x.set(c, kNan);
    x.set(kColumns + c, -kInf);
  }
  x.set(2 * kColumns + 70000, kNan);
  for (Filters filters : all_filters())
    for (const double temperature : {0.0, 0.8}) {
      filters.temperature = temperature;
      Status status, alone_status;
      const auto tokens = draw(x.view(0, {4, kColumns}), filters, status);
      ASSERT_OK(status);
      EXPECT_EQ(tokens[0], -1);
      EXPECT_EQ(tokens[1], -1);
      EXPECT_EQ(tokens[2], -1);
      const auto alone = draw(x.view(3 * kColumns, {1, kColumns}), filters, alone_status, 3);
      ASSERT_OK(alone_status);
      EXPECT_EQ(tokens[3], alone[0]);
      EXPECT_GE(tokens[3], 0);
      EXPECT_LT(tokens[3], kColumns);
    }
}

TEST(KnownFaults, kf_sample_03_TiesAtTheCutLetExactlyKThrough) {
  constexpr int64_t kDraws = 100000;
  Buffer row = from(DType::kF32, {std::log(0.4), std::log(0.3), std::log(0.3), -kInf});
  for (const Filters& filters :
       {Filters{.use_top_k = true, .top_k = 2}, Filters{.use_top_p = true, .top_p = 0.6}}) {
    Status status;
    const auto counts = histogram(draw_often(row, kDraws, filters, status));
    ASSERT_OK(status);
    ASSERT_EQ(counts.size(), 2u);
    const double sigma = std::sqrt(kDraws * 4.0 / 7 * 3 / 7);
    EXPECT_NEAR(static_cast<double>(counts.at(0)), kDraws * 4.0 / 7, 3 * sigma);
    EXPECT_NEAR(static_cast<double>(counts.at(1)), kDraws * 3.0 / 7, 3 * sigma);
  }
  Buffer flat(DType::kF32, 32000, 1);
  Status status;
  const auto counts = histogram(draw_often(flat, 1000, {.use_top_k = true, .top_k = 50}, status));
  ASSERT_OK(status);
  EXPECT_EQ(counts.size(), 50u);  // all 50 appear: each is missed with probability 2e-9
  EXPECT_EQ(counts.begin()->first, 0);
  EXPECT_EQ(counts.rbegin()->first, 49);
}

TEST(KnownFaults, kf_sample_04_ZeroProbabilityIsNeverDrawn) {
  Buffer row(DType::kF32, 9 + 40 + 200, -kInf);
  double total = 0;
  for (int64_t i = 0; i < 40; ++i) total += 0.02 + 0.001 * static_cast<double>(i);
  for (int64_t i = 0; i < 40; ++i) row.set(9 + i, std::log(0.02 + 0.001 * static_cast<double>(i)));
  constexpr int64_t kDraws = 200000;
  Status status;
  const auto counts = histogram(draw_often(row, kDraws, {}, status));
  ASSERT_OK(status);
  EXPECT_GE(counts.begin()->first, 9);
  EXPECT_LT(counts.rbegin()->first, 49);
  for (int64_t i = 0; i < 40; ++i) {
    const double p = (0.02 + 0.001 * static_cast<double>(i)) / total;
    EXPECT_NEAR(static_cast<double>(counts.at(9 + i)), kDraws * p, 5 * std::sqrt(kDraws * p)) << i;
  }
}

TEST(KnownFaults, kf_sample_05_ASinglePossibleToken) {
  Buffer row(DType::kF32, 320, -kInf), nothing(DType::kF32, 320, -kInf);
  row.set(200, -3);
  for (const int64_t k : {5, 320, 1000}) {
    Status status;
    for (int64_t token : draw_often(row, 5, {.use_top_k = true, .top_k = k}, status))
      EXPECT_EQ(token, 200);
    ASSERT_OK(status);
    for (int64_t token : draw_often(nothing, 5, {.use_top_k = true, .top_k = k}, status))
      EXPECT_EQ(token, -1);
    ASSERT_OK(status);
  }
}

TEST(KnownFaults, kf_sample_06_RowsPastElement2To31AreAddressed) {
  constexpr int64_t kColumns = 1000, kStride = (int64_t{1} << 31) + 64, kRows = 3;
  const int64_t bytes = 4 * ((kRows - 1) * kStride + kColumns);
  SparseMemory far(bytes);
  if (!far.ok()) GTEST_SKIP() << "no address space of " << bytes << " bytes";
  Buffer x = normal(DType::kF32, kRows * kColumns, 6), out(DType::kI32, kRows);
  for (int64_t i = 0; i < x.count(); ++i)
    store_element(far.base(), DType::kF32, i / kColumns * kStride + i % kColumns, x[i]);
  TensorView logits(far.base(), DType::kF32, {kRows, kColumns});
  logits.strides[0] = kStride;
  Status status, near_status;
  const Filters filters{.use_top_k = true, .top_k = 20};
  EXPECT_EQ(draw(logits, filters, status),
            draw(x.view(0, {kRows, kColumns}), filters, near_status));
  ASSERT_OK(status);
  ASSERT_OK(near_status);
  ASSERT_OK(call("argmax", {{"out", out.view(0, {kRows})}, {"x", logits}}));
  for (int64_t r = 0; r < kRows; ++r) {
    int64_t best = 0;
    for (int64_t c = 1; c < kColumns; ++c)
      if (x[r * kColumns + c] > x[r * kColumns + best]) best = c;
    EXPECT_EQ(out[r], static_cast<double>(best));
  }
}

TEST(KnownFaults, kf_sample_07_EmptyAndDegenerateSizes) {
  Buffer x = normal(DType::kF32, 11, 7), out(DType::kI32, 4);
  Status status;
  for (const int64_t k : {0, -1, 11, 12}) {  // off
    const auto tokens = draw_often(x, 500, {.use_top_k = true, .top_k = k}, status);
    ASSERT_OK(status);
    EXPECT_EQ(tokens, draw_often(x, 500, {}, status)) << "k = " << k;
  }
  EXPECT_TRUE(draw(x.view(0, {0, 11}), {.use_top_k = true, .top_k = 3}, status).empty());
  ASSERT_OK(status);
  ASSERT_OK(call("argmax", {{"out", out.view(0, {0})}, {"x", x.view(0, {0, 11})}}));
  EXPECT_EQ(out[0], Buffer::kGuard);
  const Status no_columns = call("argmax", {{"out", out.view(0, {4})}, {"x", x.view(0, {4, 0})}});
  ASSERT_FALSE(no_columns.ok());
  EXPECT_EQ(no_columns.diag().code, ErrorCode::kExtent) << no_columns.str();
}

TEST(KnownFaults, kf_sample_08_OneOrderForEveryNan) {
  for (const int64_t columns : {270, 100000})
    for (const bool negative : {false, true}) {
      Buffer x = normal(DType::kF32, 16 * columns, 8), out(DType::kI32, 16);
      std::vector<int64_t> first;
      for (int64_t r = 0; r < 16; ++r) {
        first.push_back((r * 7919 + 3) % (columns / 2));
        x.set(r * columns + first.back(), negative ? -kNan : kNan);
        x.set(r * columns + columns - 1, negative ? kNan : -kNan);
      }
      ASSERT_OK(call("argmax", {{"out", out.view(0, {16})}, {"x", x.view(0, {16, columns})}}));
      for (int64_t r = 0; r < 16; ++r)
        EXPECT_EQ(out[r], static_cast<double>(first[static_cast<size_t>(r)]))
            << columns << " columns, row " << r;
      Status status;
      for (int64_t token : draw(x.view(0, {16, columns}), {.use_top_k = true, .top_k = 5}, status))
        EXPECT_EQ(token, -1);
      ASSERT_OK(status);
    }
}

TEST(KnownFaults, kf_sample_09_RowsOfAPaddedBuffer) {
  constexpr int64_t kRows = 33, kColumns = 100278, kStride = 100288;
  Buffer padded(DType::kF32, kRows * kStride, kNan),
      compact = normal(DType::kF32, kRows * kColumns, 9, 0, 3);
  for (int64_t r = 0; r < kRows; ++r)
    for (int64_t c = 0; c < kColumns; ++c) padded.set(r * kStride + c, compact[r * kColumns + c]);
  const Filters filters{.use_top_k = true, .use_top_p = true, .top_k = 50, .top_p = 0.9};
  Status status, compact_status;
  const auto tokens = draw(padded.view(0, {kRows, kColumns}, {kStride, 1}), filters, status);
  EXPECT_EQ(tokens, draw(compact.view(0, {kRows, kColumns}), filters, compact_status));
  ASSERT_OK(status);
  ASSERT_OK(compact_status);
  for (int64_t token : tokens) EXPECT_TRUE(token >= 0 && token < kColumns) << token;
}

TEST(KnownFaults, kf_sample_replay_EqualSeedsRepeatAndOthersDiffer) {
  Buffer x = normal(DType::kBf16, 5000, 10);
  Status status;
  const auto first = draw_often(x, 64, {}, status), again = draw_often(x, 64, {}, status);
  EXPECT_EQ(first, again);
  EXPECT_GT(std::set<int64_t>(first.begin(), first.end()).size(), 32u);
  // A batch of one draws what the same request draws in a batch of 64.
  for (int64_t r : {0, 17, 63})
    EXPECT_EQ(draw_often(x, 1, {}, status, r)[0], first[static_cast<size_t>(r)]);
}

}  // namespace
}  // namespace rooftile::faults
