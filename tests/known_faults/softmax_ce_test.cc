// SPDX-License-Identifier: Apache-2.0
// Known faults of softmax and cross-entropy kernels.
#include <algorithm>

#include "tests/known_faults/fault_support.h"

namespace rooftile::faults {
namespace {

Status run_softmax(Buffer& x, Buffer& out, int64_t rows, int64_t columns) {
  return call("softmax",
              {{"out", out.view(0, {rows, columns})}, {"x", x.view(0, {rows, columns})}});
}

struct Loss {
  Buffer loss, lse;
};

// Losses and lse of `rows` rows; the status goes to `status`.
Loss run_cross_entropy(Buffer& logits, int64_t rows, int64_t columns,
                       const std::vector<double>& targets, Status& status,
                       int64_t ignore_index = -100) {
  Loss result{Buffer(DType::kF32, rows), Buffer(DType::kF32, rows)};
  Buffer target_ids = from(DType::kI32, targets);
  status = call("cross_entropy",
                {{"loss", result.loss.view(0, {rows})},
                 {"lse", result.lse.view(0, {rows})},
                 {"logits", logits.view(0, {rows, columns})},
                 {"targets", target_ids.view(0, {rows})}},
                {{"ignore_index", ignore_index}});
  return result;
}

double log_softmax(const Buffer& x, int64_t offset, int64_t columns, int64_t column) {
  double largest = -kInf, total = 0;
  for (int64_t c = 0; c < columns; ++c) largest = std::max(largest, x[offset + c]);
  for (int64_t c = 0; c < columns; ++c) total += std::exp(x[offset + c] - largest);
  return x[offset + column] - largest - std::log(total);
}

TEST(KnownFaults, kf_softmax_01_RowsPastElement2To32AreAddressed) {
  constexpr int64_t kColumns = 1031, kStride = (int64_t{1} << 32) + 64, kRows = 3;
  const int64_t bytes = 2 * ((kRows - 1) * kStride + kColumns);
  SparseMemory far_x(bytes), far_out(bytes);
  if (!far_x.ok() || !far_out.ok()) GTEST_SKIP() << "no address space of " << bytes << " bytes";
  Buffer x = normal(DType::kF16, kRows * kColumns, 1), out(DType::kF16, kRows * kColumns);
  for (int64_t i = 0; i < x.count(); ++i)
    store_element(far_x.base(), DType::kF16, i / kColumns * kStride + i % kColumns, x[i]);
  TensorView far_in(far_x.base(), DType::kF16, {kRows, kColumns});
  TensorView far_result(far_out.base(), DType::kF16, {kRows, kColumns});
  far_in.strides[0] = far_result.strides[0] = kStride;
  ASSERT_OK(run_softmax(x, out, kRows, kColumns));
  ASSERT_OK(call("softmax", {{"out", far_result}, {"x", far_in}}));
  for (int64_t i = 0; i < x.count(); ++i)
    ASSERT_EQ(load_element(far_out.base(), DType::kF16, i / kColumns * kStride + i % kColumns),
              out[i]);
}

TEST(KnownFaults, kf_softmax_02_EveryWidthSumsToOne) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBf16})
    for (int64_t columns = 2; columns <= 4096;
         columns += columns < 1100 && dtype == DType::kF32 ? 1 : 37) {
      Buffer x(dtype, 2 * columns, 0), out(dtype, 2 * columns);
      ASSERT_OK(run_softmax(x, out, 2, columns));
      const double want = round_to(static_cast<float>(1.0 / static_cast<double>(columns)), dtype);
      for (int64_t i = 0; i < out.count(); ++i) {
        ASSERT_EQ(out[i], out[0]) << columns << " columns, element " << i;
        ASSERT_NEAR(out[i], want,
                    want * (dtype == DType::kF32   ? 0x1p-22
                            : dtype == DType::kF16 ? 0x1p-10
                                                   : 0x1p-7));
      }
    }
}

TEST(KnownFaults, kf_softmax_03_ShiftedRowsKeepTheirDigits) {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> uniform(0, 1);
  for (const double shift : {0.0, -1e7, 1e7}) {
    // b = a + shift in f32; every column is the target once.
    Buffer b(DType::kF32, 4 * 3);
    b.fill([&](int64_t) { return uniform(random) + shift; });
    for (int64_t target = 0; target < 3; ++target) {
      Status status;
      const Loss result =
          run_cross_entropy(b, 4, 3, std::vector<double>(4, static_cast<double>(target)), status);
      ASSERT_OK(status);
      for (int64_t r = 0; r < 4; ++r)
        EXPECT_NEAR(result.loss[r], -log_softmax(b, r * 3, 3, target), 1e-6) << "shift " << shift;
    }
    Buffer out(DType::kF32, 4 * 3);
    ASSERT_OK(run_softmax(b, out, 4, 3));
    for (int64_t i = 0; i < 12; ++i)
      EXPECT_NEAR(out[i], std::exp(log_softmax(b, i / 3 * 3, 3, i % 3)), 1e-6);
  }
  Buffer far = from(DType::kF32, {0, -1e30, 0, -1e30});
  Status status;
  const Loss result = run_cross_entropy(far, 2, 2, {0, 1}, status);
  ASSERT_OK(status);
  EXPECT_EQ(result.loss[0], 0);
  EXPECT_NEAR(result.loss[1], 1e30, 1e23);
}

TEST(KnownFaults, kf_softmax_04_BlocksOfOnlyMinusInfinity) {
  constexpr int64_t kColumns = 100000;
  for (const DType dtype : {DType::kBf16, DType::kF32})
    for (const int64_t at : {int64_t{50000}, int64_t{0}, kColumns - 1}) {
      Buffer x(dtype, kColumns, -kInf), out(dtype, kColumns);
      x.set(at, 10);
      Status status;
      const Loss result = run_cross_entropy(x, 1, kColumns, {static_cast<double>(at)}, status);
      ASSERT_OK(status);
      EXPECT_EQ(result.loss[0], 0);
      EXPECT_EQ(result.lse[0], 10);
      ASSERT_OK(run_softmax(x, out, 1, kColumns));
      for (int64_t c = 0; c < kColumns; ++c) ASSERT_EQ(out[c], c == at ? 1 : 0);
    }
  // A row that is all -inf: NaN loss, lse of nothing; the row beside it is not disturbed.
  Buffer x(DType::kF32, 2 * kColumns, -kInf);
  for (int64_t c = 0; c < kColumns; ++c) x.set(kColumns + c, 0);
  Status status;
  const Loss result = run_cross_entropy(x, 2, kColumns, {5, 5}, status);
  ASSERT_OK(status);
  EXPECT_TRUE(std::isnan(result.loss[0]));
  EXPECT_EQ(result.lse[0], -kInf);
  EXPECT_NEAR(result.loss[1], std::log(1e5), 1e-4);
}

TEST(KnownFaults, kf_softmax_05_TargetsOutsideTheShard) {
  // A vocabulary of 2000 in two shards of 1000, 1024 apart: no target may reach the padding.
  constexpr int64_t kShard = 1000, kStride = 1024, kRows = 24;
  Buffer x = normal(DType::kF32, kRows * 2 * kShard, 5);
  Buffer shards[2] = {Buffer(DType::kF32, kRows * kStride, kNan),
                      Buffer(DType::kF32, kRows * kStride, kNan)};
  std::vector<double> whole_targets, shard_targets[2];
  for (int64_t r = 0; r < kRows; ++r) {
    const int64_t target =
        r < 12 ? kShard + r : r * 40;  // 1000, 1001, ... are the padded columns of the first shard
    whole_targets.push_back(static_cast<double>(target));
    shard_targets[0].push_back(static_cast<double>(target < kShard ? target : -100));
    shard_targets[1].push_back(static_cast<double>(target < kShard ? -100 : target - kShard));
    for (int64_t c = 0; c < kShard; ++c)
      for (int64_t s : {0, 1}) shards[s].set(r * kStride + c, x[r * 2 * kShard + s * kShard + c]);
  }
  auto run = [&](int64_t s, std::vector<double> targets, Loss& result) {
    Buffer ids = from(DType::kI32, targets);
    return call("cross_entropy", {{"loss", result.loss.view(0, {kRows})},
                                  {"lse", result.lse.view(0, {kRows})},
                                  {"logits", shards[s].view(0, {kRows, kShard}, {kStride, 1})},
                                  {"targets", ids.view(0, {kRows})}});
  };
  Loss part[2] = {{Buffer(DType::kF32, kRows), Buffer(DType::kF32, kRows)},
                  {Buffer(DType::kF32, kRows), Buffer(DType::kF32, kRows)}};
  const Status refused = run(0, whole_targets, part[0]);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.diag().code, ErrorCode::kIndexRange) << refused.str();
  EXPECT_EQ(part[0].loss[0], Buffer::kGuard) << "a refused call wrote";

  ASSERT_OK(run(0, shard_targets[0], part[0]));
  ASSERT_OK(run(1, shard_targets[1], part[1]));
  for (int64_t r = 0; r < kRows; ++r) {
    const int64_t owner = whole_targets[static_cast<size_t>(r)] < kShard ? 0 : 1;
    EXPECT_EQ(part[1 - owner].loss[r], 0);
    // lse - z[target], with the lse of both shards and the target's logit from its owner.
    const double lse = std::log(std::exp(part[0].lse[r]) + std::exp(part[1].lse[r]));
    const double loss = lse - (part[owner].lse[r] - part[owner].loss[r]);
    EXPECT_NEAR(loss,
                -log_softmax(x, r * 2 * kShard, 2 * kShard,
                             static_cast<int64_t>(whole_targets[static_cast<size_t>(r)])),
                1e-5);
  }
}

TEST(KnownFaults, kf_softmax_06_AllTargetsIgnored) {
  for (const bool with_lse : {false, true}) {
    Buffer x = normal(DType::kBf16, 8 * 1000, 6), loss(DType::kF32, 8), lse(DType::kF32, 8);
    Buffer targets(DType::kI32, 8, -100);
    ASSERT_OK(call("cross_entropy",
                   {{"loss", loss.view(0, {8})},
                    {"lse", with_lse ? lse.view(0, {8}) : TensorView()},
                    {"logits", x.view(0, {8, 1000})},
                    {"targets", targets.view(0, {8})}},
                   {{"label_smoothing", 0.1}, {"z_loss", 1e-4}}));
    for (int64_t r = 0; r < 8; ++r) EXPECT_EQ(loss[r], 0);
  }
}

TEST(KnownFaults, kf_softmax_07_IgnoredRowsDoNotTouchTheOthers) {
  constexpr int64_t kRows = 8, kColumns = 15;
  Buffer x = normal(DType::kF32, kRows * kColumns, 7);
  std::vector<double> targets;
  for (int64_t r = 0; r < kRows; ++r) targets.push_back(r % 3 == 0 ? -100 : static_cast<double>(r));
  for (int64_t c = 0; c < kColumns; ++c) x.set(c, kNan);  // row 0, ignored
  Status status;
  const Loss result = run_cross_entropy(x, kRows, kColumns, targets, status);
  ASSERT_OK(status);
  for (int64_t r = 0; r < kRows; ++r)
    EXPECT_NEAR(result.loss[r], r % 3 == 0 ? 0 : -log_softmax(x, r * kColumns, kColumns, r), 1e-6)
        << r;
}

TEST(KnownFaults, kf_norm_08_EveryTripCountOfTheVocabularyLoop) {
  // Around every multiple of the block of 4096 columns: a full, a short and a one-element last
  // block.
  for (int64_t blocks = 1; blocks <= 5; ++blocks)
    for (const int64_t columns : {4096 * blocks - 1, 4096 * blocks, 4096 * blocks + 1}) {
      Buffer x = normal(DType::kF32, 2 * columns, static_cast<uint64_t>(columns));
      Status status;
      const Loss result =
          run_cross_entropy(x, 2, columns, {0, static_cast<double>(columns - 1)}, status);
      ASSERT_OK(status);
      EXPECT_NEAR(result.loss[0], -log_softmax(x, 0, columns, 0), 1e-4) << columns;
      EXPECT_NEAR(result.loss[1], -log_softmax(x, columns, columns, columns - 1), 1e-4) << columns;
    }
}

}  // namespace
}  // namespace rooftile::faults
