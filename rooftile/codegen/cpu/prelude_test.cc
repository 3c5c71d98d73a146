// SPDX-License-Identifier: Apache-2.0
// The functions of the prelude, compiled for each instruction set that this machine runs, against
// the C library in double: the accuracy that the comments promise, the edges, and exact
// conversions.
#include "rooftile/codegen/cpu/prelude.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <vector>

#include "rooftile/base/float_convert.h"
#include "rooftile/runtime/cpu/library.h"
#include "rooftile/toolchain/host_cc.h"

namespace rooftile {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr const char* kWrappers = R"(
#define WRAP(name) extern "C" void t_##name(const float* x, float* y, i64 n) { for (i64 i = 0; i < n; i += W) st(y + i, name(ld(x + i))); }
WRAP(expv) WRAP(exp2v) WRAP(logv) WRAP(log2v) WRAP(sqrtv) WRAP(rsqrtv) WRAP(recipv) WRAP(tanhv) WRAP(erfv) WRAP(floorv)
WRAP(as_bf16) WRAP(as_f16)
extern "C" void t_ld_bf16(const bf16* x, float* y, i64 n) { for (i64 i = 0; i < n; i += W) st(y + i, ld(x + i)); }
extern "C" void t_ld_f16(const f16* x, float* y, i64 n) { for (i64 i = 0; i < n; i += W) st(y + i, ld(x + i)); }
#define WRAP_F8(T) \
  extern "C" void t_as_##T(const float* x, float* y, i64 n) { for (i64 i = 0; i < n; i += W) st(y + i, as_##T(ld(x + i))); } \
  extern "C" void t_as1_##T(const float* x, float* y, i64 n) { for (i64 i = 0; i < n; i++) y[i] = as_##T(x[i]); } \
  extern "C" void t_ld_##T(const T* x, float* y, i64 n) { for (i64 i = 0; i < n; i += W) st(y + i, ld(x + i)); } \
  extern "C" void t_ldn_##T(const T* x, float* y, i64 n) { for (i64 i = 0; i < n; i += W - 1) stn(y + i, ldn(x + i, imin(W - 1, n - i)), imin(W - 1, n - i)); } \
  extern "C" void t_ldg_##T(const T* x, float* y, i64 n) { for (i64 i = 0; i < n; i += W) stg(y + n - 1 - i, ldg(x + n - 1 - i, -1, W), -1, W); } \
  extern "C" void t_ldx_##T(const T* x, float* y, i64 n) { for (i64 i = 0; i < n; i += W) stx(y, ldx(x, lanes() + vi((i32)i), 1, W), lanes() + vi((i32)i), 1, W); } \
  extern "C" void t_ld1_##T(const T* x, float* y, i64 n) { for (i64 i = 0; i < n; i++) y[i] = ld1(x + i); } \
  extern "C" void t_st_##T(T* y, const float* x, i64 n) { for (i64 i = 0; i < n; i += W) st(y + i, ld(x + i)); } \
  extern "C" void t_stn_##T(T* y, const float* x, i64 n) { for (i64 i = 0; i < n; i += W - 1) stn(y + i, ldn(x + i, imin(W - 1, n - i)), imin(W - 1, n - i)); } \
  extern "C" void t_stg_##T(T* y, const float* x, i64 n) { for (i64 i = 0; i < n; i += W) stg(y + n - 1 - i, ldg(x + n - 1 - i, -1, W), -1, W); } \
  extern "C" void t_stx_##T(T* y, const float* x, i64 n) { for (i64 i = 0; i < n; i += W) stx(y, ld(x + i), lanes() + vi((i32)i), 1, W); } \
  extern "C" void t_st1_##T(T* y, const float* x, i64 n) { for (i64 i = 0; i < n; i++) st1(y + i, x[i]); } \
  extern "C" void t_st2_##T(T* y, const float* x, i64 n) { for (i64 i = 0; i < n; i += 2 * W) st2(y + i, ld(x + i), ld(x + i + W)); }
WRAP_F8(f8e4m3) WRAP_F8(f8e5m2)
extern "C" float t_hsum(const float* x) { return hsum(ld(x)); }
extern "C" float t_hmax(const float* x) { return hmax(ld(x)); }
extern "C" float t_hmin(const float* x) { return hmin(ld(x)); }
extern "C" void t_max2(const float* a, const float* b, float* y) { st(y, nmax(ld(a), ld(b))); }
extern "C" void t_min2(const float* a, const float* b, float* y) { st(y, nmin(ld(a), ld(b))); }
#if W == 16
extern "C" void t_ld_line(const bf16* x, float* y) { st(y, ld_line<0>(x)); st(y + W, ld_line<W>(x)); }
#endif
extern "C" void t_tail(const float* x, float* y, i64 n) { stn(y, ldn(x, n), n); }
extern "C" void t_two(bf16* y, const float* x) { st2(y, ld(x), ld(x + W)); }
extern "C" void t_line(bf16* y, const float* x) { stnt2(y, ld(x), ld(x + W)); fence_nt(); }
)";

std::vector<TargetInfo> targets() {
  std::vector<TargetInfo> list;
  TargetInfo generic;
  list.push_back(generic);
  const TargetInfo host = host_target();
  if (host.isa != "generic") {
    TargetInfo avx2;
    avx2.isa = "avx2";
    list.push_back(avx2);
  }
  if (host.isa == "avx512") {
    TargetInfo plain = host;
    plain.amx_bf16 = plain.amx_int8 = plain.avx512_bf16 = plain.avx512_fp16 = false;
    list.push_back(plain);
    list.push_back(host);
  }
  return list;
}

class Prelude : public ::testing::TestWithParam<size_t> {
 protected:
  void SetUp() override {
    target_ = targets()[GetParam()];
    const std::string path = ::testing::TempDir() + "prelude_" + std::to_string(GetParam()) + "_" +
                             std::to_string(getpid()) + ".so";
    auto built =
        compile_shared(codegen::cpu_prelude(target_) + kWrappers, cpu_flags(target_), path);
    ASSERT_TRUE(built.ok()) << built.diag().str();
    auto library = Library::open(path);
    ASSERT_TRUE(library.ok()) << library.diag().str();
    library_ = *library;
    std::filesystem::remove(path);
  }
  template <class Fn>
  Fn* symbol(const std::string& name) {
    auto found = library_->symbol(name);
    EXPECT_TRUE(found.ok());
    return reinterpret_cast<Fn*>(*found);
  }
  using Map = void(const float*, float*, int64_t);

  // The largest error in units of the last place of the rounded exact result.
  double worst_ulp(const std::string& name, const std::function<double(double)>& exact,
                   const std::vector<float>& xs) {
    std::vector<float> ys(xs.size());
    symbol<Map>("t_" + name)(xs.data(), ys.data(), static_cast<int64_t>(xs.size()));
    double worst = 0;
    for (size_t i = 0; i < xs.size(); ++i) {
      const double want = exact(xs[i]);
      const float rounded = static_cast<float>(want);
      if (std::isnan(want) || std::isinf(rounded)) {
        EXPECT_TRUE(std::isnan(want) ? std::isnan(ys[i]) : ys[i] == rounded)
            << name << "(" << xs[i] << ") = " << ys[i];
        continue;
      }
      const double ulp = std::max<double>(
          std::nextafterf(std::fabs(rounded), kInf) - std::fabs(rounded), 0x1p-149);
      const double error = std::fabs(ys[i] - want) / ulp;
      if (!(error <= worst)) worst = error;
    }
    return worst;
  }
  // Dense in [lo, hi], a multiple of the widest vector, with the edges in front.
  static std::vector<float> range(double lo, double hi, std::vector<float> edges = {}) {
    std::vector<float> xs = std::move(edges);
    while (xs.size() < 40000)
      xs.push_back(static_cast<float>(lo + (hi - lo) * static_cast<double>(xs.size()) / 40000));
    return xs;
  }
  TargetInfo target_;
  std::shared_ptr<Library> library_;
};

TEST_P(Prelude, FunctionsAreAsAccurateAsPromised) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> edges = {0.0f, -0.0f, kInf, -kInf, nan};
  EXPECT_LE(worst_ulp(
                "expv", [](double x) { return std::exp(x); }, range(-110, 89, edges)),
            2.0);
  EXPECT_LE(worst_ulp(
                "exp2v", [](double x) { return std::exp2(x); }, range(-155, 128, edges)),
            2.0);
  EXPECT_LE(worst_ulp(
                "exp2v", [](double x) { return std::exp2(x); }, range(-1, 1)),
            2.0);
  EXPECT_LE(worst_ulp(
                "logv", [](double x) { return std::log(x); }, range(0, 4, edges)),
            2.0);
  EXPECT_LE(worst_ulp(
                "logv", [](double x) { return std::log(x); }, range(1e-38, 3e38, {1e-40f, -1.0f})),
            2.0);
  EXPECT_LE(worst_ulp(
                "log2v", [](double x) { return std::log2(x); }, range(1e-3, 1e6, edges)),
            2.5);
  EXPECT_LE(worst_ulp(
                "recipv", [](double x) { return 1 / x; }, range(0.01, 100)),
            1.0);
  EXPECT_LE(
      worst_ulp(
          "sqrtv", [](double x) { return std::sqrt(x); }, range(0, 1e6, {0.0f, kInf, nan, -1.0f})),
      0.5001);
  EXPECT_LE(worst_ulp(
                "rsqrtv", [](double x) { return 1 / std::sqrt(x); }, range(1e-6, 1e6)),
            2.0);
  EXPECT_LE(worst_ulp(
                "tanhv", [](double x) { return std::tanh(x); }, range(-12, 12, edges)),
            4.0);
  EXPECT_LE(worst_ulp(
                "erfv", [](double x) { return std::erf(x); }, range(-5, 5, edges)),
            4.0);
  EXPECT_EQ(worst_ulp(
                "floorv", [](double x) { return std::floor(x); },
                range(-1000, 1000, {kInf, -kInf, nan, 1e30f})),
            0);
}

TEST_P(Prelude, NarrowFloatsRoundToNearestEven) {
  // Every bf16 and f16 value, and what lies between neighbours: below, at and above the half.
  for (const bool half : {false, true}) {
    std::vector<float> xs;
    for (uint32_t code = 0; code < 0x10000; ++code) {
      const float x =
          half ? f16_to_f32(static_cast<uint16_t>(code)) : bf16_to_f32(static_cast<uint16_t>(code));
      // The conversion instruction flushes subnormal inputs; no test of ours tells 1e-39 from 0.
      if (!half && std::fabs(x) < 0x1p-126f) continue;
      uint32_t bits;
      std::memcpy(&bits, &x, 4);
      for (uint32_t low :
           {0u, half ? 0x0fffu : 0x7fffu, half ? 0x1000u : 0x8000u, half ? 0x1001u : 0x8001u}) {
        const uint32_t near = bits | (half && (bits & 0x1fff) ? 0 : low);
        float y;
        std::memcpy(&y, &near, 4);
        xs.push_back(y);
      }
    }
    while (xs.size() % 16) xs.push_back(1.0f);
    std::vector<float> ys(xs.size());
    symbol<Map>(half ? "t_as_f16" : "t_as_bf16")(xs.data(), ys.data(),
                                                 static_cast<int64_t>(xs.size()));
    for (size_t i = 0; i < xs.size(); ++i) {
      const float want = round_to(xs[i], half ? DType::kF16 : DType::kBf16);
      ASSERT_TRUE(std::isnan(want) ? std::isnan(ys[i]) : ys[i] == want)
          << (half ? "f16 " : "bf16 ") << xs[i] << " gives " << ys[i] << ", not " << want;
    }
  }
}

TEST_P(Prelude, LoadsOfNarrowFloatsAreExact) {
  std::vector<uint16_t> codes(0x10000);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint16_t>(i);
  std::vector<float> ys(codes.size());
  using Load = void(const uint16_t*, float*, int64_t);
  symbol<Load>("t_ld_bf16")(codes.data(), ys.data(), 0x10000);
  for (size_t i = 0; i < ys.size(); ++i) {
    const float want = bf16_to_f32(codes[i]);
    ASSERT_TRUE(std::isnan(want) ? std::isnan(ys[i]) : ys[i] == want) << i;
  }
  symbol<Load>("t_ld_f16")(codes.data(), ys.data(), 0x10000);
  for (size_t i = 0; i < ys.size(); ++i) {
    const float want = f16_to_f32(codes[i]);
    ASSERT_TRUE(std::isnan(want) ? std::isnan(ys[i]) : ys[i] == want) << i;
  }
}

// An 8-bit float has few values: all of them, and around each boundary between two neighbours the
// f32 below, at and above it. Codes are compared, so that zeros keep their sign.
constexpr DType kF8Types[] = {DType::kF8E4M3, DType::kF8E5M2};

float decoded(uint8_t code, DType dtype) {
  return dtype == DType::kF8E4M3 ? e4m3_to_f32(code) : e5m2_to_f32(code);
}
uint8_t encoded(float value, DType dtype) {
  return dtype == DType::kF8E4M3 ? f32_to_e4m3(value) : f32_to_e5m2(value);
}
bool same_float(float a, float b) {
  return std::isnan(a) ? std::isnan(b) : std::memcmp(&a, &b, sizeof a) == 0;
}

TEST_P(Prelude, EveryLoadOfEightBitFloatsIsExact) {
  std::vector<uint8_t> codes(256);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint8_t>(i);
  for (const DType dtype : kF8Types)
    for (const char* load : {"ld", "ldn", "ldg", "ldx", "ld1"}) {
      std::vector<float> ys(codes.size(), -1.0f);
      symbol<void(const uint8_t*, float*, int64_t)>(
          "t_" + std::string(load) + "_" + std::string(name(dtype)))(codes.data(), ys.data(), 256);
      for (size_t i = 0; i < ys.size(); ++i)
        ASSERT_TRUE(same_float(ys[i], decoded(codes[i], dtype)))
            << load << " " << name(dtype) << " of code " << i << " gives " << ys[i];
    }
}

std::vector<float> around_every_boundary(DType dtype) {
  std::vector<float> xs = {0.0f,      kInf,      std::numeric_limits<float>::quiet_NaN(),
                           0x1p-149f, 0x1p-126f, std::numeric_limits<float>::max(),
                           448.0f,    464.0f,    57344.0f,
                           61440.0f,  65536.0f,  1e6f};
  for (uint8_t code = 0; code < 0x7f; ++code) {
    const float x = decoded(code, dtype), y = decoded(static_cast<uint8_t>(code + 1), dtype);
    if (!std::isfinite(x)) continue;
    // Beyond the largest number: half a step on, where formats with more exponents would round up.
    const float step =
        std::isfinite(y) ? y - x : x - decoded(static_cast<uint8_t>(code - 1), dtype);
    for (const float near : {x, x + step / 4, x + step / 2, x + 3 * step / 4})
      for (const float at : {near, std::nextafterf(near, kInf), std::nextafterf(near, -kInf)})
        xs.push_back(at);
  }
  const size_t positive = xs.size();
  for (size_t i = 0; i < positive; ++i) xs.push_back(-xs[i]);
  while (xs.size() % 32) xs.push_back(1.0f);
  return xs;
}

TEST_P(Prelude, EveryStoreOfEightBitFloatsRoundsToNearestEvenAndSaturates) {
  for (const DType dtype : kF8Types) {
    const std::vector<float> xs = around_every_boundary(dtype);
    const auto n = static_cast<int64_t>(xs.size());
    for (const char* store : {"st", "stn", "stg", "stx", "st1", "st2"}) {
      std::vector<uint8_t> codes(xs.size(), 0x55);
      symbol<void(uint8_t*, const float*, int64_t)>(
          "t_" + std::string(store) + "_" + std::string(name(dtype)))(codes.data(), xs.data(), n);
      for (size_t i = 0; i < xs.size(); ++i)
        ASSERT_EQ(codes[i], encoded(xs[i], dtype)) << store << " " << name(dtype) << " " << xs[i];
    }
    for (const char* cast : {"as", "as1"}) {
      std::vector<float> ys(xs.size());
      symbol<Map>("t_" + std::string(cast) + "_" + std::string(name(dtype)))(xs.data(), ys.data(),
                                                                             n);
      for (size_t i = 0; i < xs.size(); ++i)
        ASSERT_TRUE(same_float(ys[i], round_to(xs[i], dtype)))
            << cast << " " << name(dtype) << " " << xs[i] << " gives " << ys[i];
    }
  }
}

TEST_P(Prelude, HalvesOfALineAreItsElementsInOrder) {
  if (target_.lanes_f32() != 16) GTEST_SKIP() << "lines are taken apart with 64-byte vectors only";
  std::vector<uint16_t> codes(0x10000);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint16_t>(i);
  std::vector<float> ys(codes.size());
  for (size_t i = 0; i < codes.size(); i += 32)
    symbol<void(const uint16_t*, float*)>("t_ld_line")(codes.data() + i, ys.data() + i);
  for (size_t i = 0; i < ys.size(); ++i) {
    const float want = bf16_to_f32(codes[i]);
    ASSERT_TRUE(std::isnan(want) ? std::isnan(ys[i]) : ys[i] == want) << i;
  }
}

TEST_P(Prelude, LargerAndSmallerKeepANanOfEitherSide) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> values = {1.0f, -2.0f, 0.0f, kInf, -kInf, nan, -nan, 0x1p-149f};
  const size_t lanes = static_cast<size_t>(target_.lanes_f32());
  using Two = void(const float*, const float*, float*);
  for (const float a : values)
    for (const float b : values) {
      // One lane differs from its neighbours: a mask must not spill over.
      std::vector<float> x(lanes, 3.0f), y(lanes, 3.0f), largest(lanes), least(lanes);
      x[1] = a, y[1] = b;
      symbol<Two>("t_max2")(x.data(), y.data(), largest.data());
      symbol<Two>("t_min2")(x.data(), y.data(), least.data());
      for (size_t i = 0; i < lanes; ++i) {
        const bool none = std::isnan(x[i]) || std::isnan(y[i]);
        EXPECT_TRUE(none ? std::isnan(largest[i]) : largest[i] == std::max(x[i], y[i])) << a << b;
        EXPECT_TRUE(none ? std::isnan(least[i]) : least[i] == std::min(x[i], y[i])) << a << b;
      }
    }
}

TEST_P(Prelude, FoldsPropagateNanAndFindExtremes) {
  using Fold = float(const float*);
  const size_t lanes = static_cast<size_t>(target_.lanes_f32());
  for (size_t at = 0; at < lanes; ++at) {
    std::vector<float> x(lanes, 1.0f);
    x[at] = 7.0f;
    EXPECT_EQ(symbol<Fold>("t_hmax")(x.data()), 7.0f);
    EXPECT_EQ(symbol<Fold>("t_hsum")(x.data()), static_cast<float>(lanes) + 6.0f);
    x[at] = -7.0f;
    EXPECT_EQ(symbol<Fold>("t_hmin")(x.data()), -7.0f);
    x[at] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_TRUE(std::isnan(symbol<Fold>("t_hmax")(x.data())));
    EXPECT_TRUE(std::isnan(symbol<Fold>("t_hmin")(x.data())));
  }
}

TEST_P(Prelude, TailsTouchOnlyTheirElements) {
  const int64_t lanes = target_.lanes_f32();
  for (int64_t n = 0; n < lanes; ++n) {
    std::vector<float> x(static_cast<size_t>(n), 3.0f), y(static_cast<size_t>(lanes) + 1, -1.0f);
    x.reserve(1);
    symbol<Map>("t_tail")(x.data(), y.data(), n);
    for (int64_t i = 0; i <= lanes; ++i) EXPECT_EQ(y[static_cast<size_t>(i)], i < n ? 3.0f : -1.0f);
  }
}

TEST_P(Prelude, TwoVectorsAtOnceAndPastTheCaches) {
  const size_t lanes = static_cast<size_t>(target_.lanes_f32());
  std::vector<float> x(2 * lanes);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) + 0.5f;
  for (const char* store : {"t_two", "t_line"}) {
    alignas(64) uint16_t y[64] = {};
    symbol<void(uint16_t*, const float*)>(store)(y, x.data());
    for (size_t i = 0; i < x.size(); ++i)
      EXPECT_EQ(bf16_to_f32(y[i]), round_to(x[i], DType::kBf16)) << store;
  }
}

INSTANTIATE_TEST_SUITE_P(EveryIsa, Prelude, ::testing::Range<size_t>(0, targets().size()),
                         [](const auto& test) {
                           const TargetInfo target = targets()[test.param];
                           return target.isa + (target.avx512_bf16 ? "_bf16" : "");
                         });

}  // namespace
}  // namespace rooftile
