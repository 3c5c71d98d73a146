// SPDX-License-Identifier: Apache-2.0
// Known faults of CPU kernels: padding that leaks, shares of threads with odd tails, reads past the
// end of a vector.
#include <omp.h>

#include "tests/known_faults/fault_support.h"

namespace rooftile::faults {
namespace {

double product(const Buffer& a, const Buffer& b, int64_t a_at, int64_t b_at, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += a[a_at + i] * b[b_at + i];
  return sum;
}

TEST(KnownFaults, kf_cpu_01_NanBesideARowStaysThere) {
  // A [7, K] inside [7, 96], B [33, K] inside [33, 96]: everything past column K is NaN.
  constexpr int64_t kM = 7, kN = 33, kStride = 96;
  for (int64_t depth = 1; depth <= 65; ++depth) {
    Buffer a = normal(DType::kBf16, kM * kStride, 1), b = normal(DType::kBf16, kN * kStride, 2),
           d(DType::kBf16, kM * kN);
    for (int64_t i = 0; i < a.count(); ++i)
      if (i % kStride >= depth) a.set(i, kNan);
    for (int64_t i = 0; i < b.count(); ++i)
      if (i % kStride >= depth) b.set(i, kNan);
    auto run = [&] {
      return call("gemm", {{"d", d.view(0, {kM, kN})},
                           {"a", a.view(0, {kM, depth}, {kStride, 1})},
                           {"b", b.view(0, {kN, depth}, {kStride, 1})}});
    };
    ASSERT_OK(run());
    for (int64_t m = 0; m < kM; ++m)
      for (int64_t n = 0; n < kN; ++n) {
        const double want = product(a, b, m * kStride, n * kStride, depth);
        ASSERT_NEAR(d[m * kN + n], want, 0x1p-8 * std::abs(want) + 1e-4)
            << "K = " << depth << " " << m << " " << n;
      }
    a.set(2 * kStride, kNan);
    ASSERT_OK(run());
    for (int64_t i = 0; i < d.count(); ++i)
      ASSERT_EQ(std::isnan(d[i]), i / kN == 2) << "K = " << depth;
  }
}

TEST(KnownFaults, kf_cpu_01_NanBesideARowOfARowKernelStaysThere) {
  for (int64_t columns = 1; columns <= 65; ++columns) {
    constexpr int64_t kRows = 3, kStride = 80;
    Buffer x = normal(DType::kBf16, kRows * kStride, 3), out(DType::kBf16, kRows * columns),
           weight(DType::kBf16, columns, 1);
    for (int64_t i = 0; i < x.count(); ++i)
      if (i % kStride >= columns) x.set(i, kNan);
    for (const char* op : {"rms_norm", "layer_norm"}) {
      ASSERT_OK(call(op, {{"out", out.view(0, {kRows, columns})},
                          {"x", x.view(0, {kRows, columns}, {kStride, 1})},
                          {"weight", weight.view(0, {columns})}}));
      for (int64_t i = 0; i < out.count(); ++i)
        ASSERT_TRUE(std::isfinite(out[i])) << op << " " << columns;
    }
    ASSERT_OK(call("softmax", {{"out", out.view(0, {kRows, columns})},
                               {"x", x.view(0, {kRows, columns}, {kStride, 1})}}));
    for (int64_t i = 0; i < out.count(); ++i)
      ASSERT_TRUE(std::isfinite(out[i])) << "softmax " << columns;
  }
}

TEST(KnownFaults, kf_cpu_02_AnyNumberOfThreads) {
  constexpr int64_t kN = 37, kK = 64;
  for (const int64_t rows : {6, 10, 62}) {
    Buffer a(DType::kI8, rows * kK), b(DType::kI8, kN * kK);
    std::mt19937_64 random(4);
    for (Buffer* x : {&a, &b})
      x->fill(
          [&](int64_t) { return static_cast<double>(static_cast<int64_t>(random() % 255) - 127); });
    Buffer x = normal(DType::kBf16, rows * 100, 5), weight(DType::kBf16, 100, 1),
           norm_once(DType::kBf16, rows * 100);
    ASSERT_OK(call("rms_norm", {{"out", norm_once.view(0, {rows, 100})},
                                {"x", x.view(0, {rows, 100})},
                                {"weight", weight.view(0, {100})}}));
    const int all_threads = omp_get_max_threads();
    for (const int threads : {1, 2, 3, 4, 5, 16}) {
      omp_set_num_threads(threads);
      Buffer norm(DType::kBf16, rows * 100 + 16), d(DType::kI32, rows * kN + 16);
      const Status normed = call("rms_norm", {{"out", norm.view(0, {rows, 100})},
                                              {"x", x.view(0, {rows, 100})},
                                              {"weight", weight.view(0, {100})}});
      const Status multiplied = call(
          "gemm",
          {{"d", d.view(0, {rows, kN})}, {"a", a.view(0, {rows, kK})}, {"b", b.view(0, {kN, kK})}});
      omp_set_num_threads(all_threads);
      ASSERT_OK(normed);
      ASSERT_OK(multiplied);
      for (int64_t i = 0; i < norm.count(); ++i)
        ASSERT_EQ(norm[i], i < rows * 100 ? norm_once[i] : Buffer::kGuard) << threads << " threads";
      for (int64_t i = 0; i < d.count(); ++i) {
        const double want =
            i < rows * kN ? product(a, b, i / kN * kK, i % kN * kK, kK) : Buffer::kGuard;
        ASSERT_EQ(d[i], want) << threads << " threads";
      }
    }
  }
}

TEST(KnownFaults, kf_cpu_03_VectorsAtTheEndOfAPage) {
  constexpr int64_t kM = 5, kK = 16;
  for (const DType dtype : {DType::kBf16, DType::kF16, DType::kF32})
    for (const int64_t columns : {1, 2, 7, 9, 17, 33}) {
      Buffer a = normal(dtype, kM * kK, 6), b = normal(dtype, columns * kK, 7);
      PageEnd bias(dtype, columns), a_end(dtype, kM * kK), b_end(dtype, columns * kK),
          d(dtype, kM * columns);
      for (int64_t i = 0; i < columns; ++i) bias.set(i, static_cast<double>(i));
      for (int64_t i = 0; i < a.count(); ++i) a_end.set(i, a[i]);
      for (int64_t i = 0; i < b.count(); ++i) b_end.set(i, b[i]);
      ASSERT_OK(call("gemm", {{"d", TensorView(d.data(), dtype, {kM, columns})},
                              {"a", TensorView(a_end.data(), dtype, {kM, kK})},
                              {"b", TensorView(b_end.data(), dtype, {columns, kK})},
                              {"bias", TensorView(bias.data(), dtype, {columns})}}));
      const double u = dtype == DType::kBf16 ? 0x1p-8 : dtype == DType::kF16 ? 0x1p-11 : 0x1p-23;
      for (int64_t i = 0; i < kM * columns; ++i) {
        const double want = product(a, b, i / columns * kK, i % columns * kK, kK) +
                            static_cast<double>(i % columns);
        ASSERT_NEAR(d[i], want, u * std::abs(want) + 1e-5) << name(dtype) << " N = " << columns;
      }

      PageEnd weight(dtype, columns), x(dtype, 2 * columns), out(dtype, 2 * columns);
      for (int64_t i = 0; i < columns; ++i) weight.set(i, 1), x.set(i, 1), x.set(columns + i, 2);
      ASSERT_OK(call("rms_norm", {{"out", TensorView(out.data(), dtype, {2, columns})},
                                  {"x", TensorView(x.data(), dtype, {2, columns})},
                                  {"weight", TensorView(weight.data(), dtype, {columns})}}));
      for (int64_t i = 0; i < 2 * columns; ++i) ASSERT_NEAR(out[i], 1, 1e-6);
    }
}

}  // namespace
}  // namespace rooftile::faults
