// SPDX-License-Identifier: Apache-2.0
// Known faults of rotary embedding kernels.
#include "tests/known_faults/fault_support.h"

namespace rooftile::faults {
namespace {

// Cosines, then sines, of position * 10000^(-2i/rotary).
Buffer angle_table(int64_t positions, int64_t rotary) {
  Buffer table(DType::kF32, positions * rotary);
  const int64_t half = rotary / 2;
  table.fill([&](int64_t at) {
    const int64_t i = at % rotary % half;
    const double angle = static_cast<double>(at / rotary) *
                         std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(half));
    return at % rotary < half ? std::cos(angle) : std::sin(angle);
  });
  return table;
}

// Element `d` of a rotated head that starts at `offset` of `x`.
double rotated(const Buffer& x, int64_t offset, int64_t d, const Buffer& table, int64_t position,
               int64_t rotary, bool interleaved) {
  if (d >= rotary) return x[offset + d];
  const int64_t half = rotary / 2, i = interleaved ? d / 2 : d % half;
  const bool first = interleaved ? d % 2 == 0 : d < half;
  const double a = x[offset + (interleaved ? 2 * i : i)],
               b = x[offset + (interleaved ? 2 * i + 1 : i + half)];
  const double cos = table[position * rotary + i], sin = table[position * rotary + half + i];
  return first ? a * cos - b * sin : b * cos + a * sin;
}

double tolerance(DType dtype, double value) {
  return 1e-6 + std::abs(value) * (dtype == DType::kF32   ? 0x1p-23
                                   : dtype == DType::kF16 ? 0x1p-11
                                                          : 0x1p-8);
}

TEST(KnownFaults, kf_rope_01_TokensPastElement2To31AreAddressed) {
  constexpr int64_t kTokens = 3, kHeads = 16, kDim = 72, kStride = (int64_t{1} << 31) + 64;
  const int64_t bytes = 2 * ((kTokens - 1) * kStride + kHeads * kDim);
  SparseMemory far(bytes);
  if (!far.ok()) GTEST_SKIP() << "no address space of " << bytes << " bytes";
  Buffer q = normal(DType::kBf16, kTokens * kHeads * kDim, 1), table = angle_table(90, kDim);
  auto far_at = [&](int64_t i) { return i / (kHeads * kDim) * kStride + i % (kHeads * kDim); };
  for (int64_t i = 0; i < q.count(); ++i) store_element(far.base(), DType::kBf16, far_at(i), q[i]);
  Buffer positions = from(DType::kI32, {0, 44, 89});
  TensorView far_q(far.base(), DType::kBf16, {kTokens, kHeads, kDim});
  far_q.strides[0] = kStride;
  for (const TensorView& view : {far_q, q.view(0, {kTokens, kHeads, kDim})})
    ASSERT_OK(call("rope",
                   {{"q", view},
                    {"cos_sin", table.view(0, {90, kDim})},
                    {"positions", positions.view(0, {kTokens})}},
                   {{"interleaved", true}}));
  for (int64_t i = 0; i < q.count(); ++i)
    ASSERT_EQ(load_element(far.base(), DType::kBf16, far_at(i)), q[i]) << i;
}

TEST(KnownFaults, kf_rope_02_PositionsOutsideTheTableAreRefused) {
  Buffer table = angle_table(128, 64);
  for (const double bad : {-1.0, 128.0, 2147483647.0}) {
    Buffer q = normal(DType::kF32, 4 * 2 * 64, 2), before = q;
    Buffer positions = from(DType::kI32, {0, 127, bad, 3});
    const Status refused = call("rope", {{"q", q.view(0, {4, 2, 64})},
                                         {"cos_sin", table.view(0, {128, 64})},
                                         {"positions", positions.view(0, {4})}});
    ASSERT_FALSE(refused.ok()) << bad;
    EXPECT_EQ(refused.diag().code, ErrorCode::kIndexRange) << refused.str();
    for (int64_t i = 0; i < q.count(); ++i) ASSERT_EQ(q[i], before[i]) << "a refused call wrote";
  }
  Buffer q = normal(DType::kF32, 2 * 64, 2), positions = from(DType::kI32, {0, 127});
  EXPECT_TRUE(call("rope", {{"q", q.view(0, {2, 1, 64})},
                            {"cos_sin", table.view(0, {128, 64})},
                            {"positions", positions.view(0, {2})}})
                  .ok());
}

TEST(KnownFaults, kf_rope_03_PartialRotationLeavesTheRestBitwiseAlone) {
  constexpr int64_t kTokens = 5, kHeads = 3, kDim = 128;
  Buffer positions = from(DType::kI32, {0, 1, 7, 63, 40});
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16})
    for (const int64_t rotary : {64, 32, 16})
      for (const bool interleaved : {false, true}) {
        Buffer q = normal(dtype, kTokens * kHeads * kDim, 3), before = q,
               table = angle_table(64, rotary);
        ASSERT_OK(call("rope",
                       {{"q", q.view(0, {kTokens, kHeads, kDim})},
                        {"cos_sin", table.view(0, {64, rotary})},
                        {"positions", positions.view(0, {kTokens})}},
                       {{"interleaved", interleaved}}));
        for (int64_t i = 0; i < q.count(); ++i) {
          const int64_t d = i % kDim,
                        position = static_cast<int64_t>(positions[i / (kHeads * kDim)]);
          const double want = rotated(before, i - d, d, table, position, rotary, interleaved);
          if (d >= rotary)
            ASSERT_EQ(q[i], before[i]) << "rotary " << rotary << ", element " << d;
          else
            ASSERT_NEAR(q[i], want, tolerance(dtype, want))
                << "rotary " << rotary << ", element " << d;
        }
      }
}

TEST(KnownFaults, kf_rope_04_HeadsComeFromTheShapeOnly) {
  constexpr int64_t kTokens = 5, kHeads = 8, kDim = 64;
  Buffer q = normal(DType::kBf16, kTokens * kHeads * kDim, 4),
         key = normal(DType::kBf16, kTokens * kDim, 5);
  Buffer q_before = q, key_before = key, table = angle_table(32, kDim),
         positions = from(DType::kI32, {0, 9, 3, 31, 1});
  auto run = [&](const TensorView& q_view) {
    return call("rope", {{"q", q_view},
                         {"k", key.view(0, {kTokens, 1, kDim})},
                         {"cos_sin", table.view(0, {32, kDim})},
                         {"positions", positions.view(0, {kTokens})}});
  };
  const Status refused = run(q.view(0, {kTokens, kHeads * kDim}));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.diag().code, ErrorCode::kRank) << refused.str();
  ASSERT_OK(run(q.view(0, {kTokens, kHeads, kDim})));
  for (int64_t i = 0; i < q.count(); ++i) {
    const int64_t position = static_cast<int64_t>(positions[i / (kHeads * kDim)]);
    const double want = rotated(q_before, i - i % kDim, i % kDim, table, position, kDim, false);
    ASSERT_NEAR(q[i], want, tolerance(DType::kBf16, want)) << i;
  }
  for (int64_t i = 0; i < key.count(); ++i) {
    const double want = rotated(key_before, i - i % kDim, i % kDim, table,
                                static_cast<int64_t>(positions[i / kDim]), kDim, false);
    ASSERT_NEAR(key[i], want, tolerance(DType::kBf16, want)) << i;
  }
}

}  // namespace
}  // namespace rooftile::faults
