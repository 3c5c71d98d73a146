// SPDX-License-Identifier: Apache-2.0
#include "rooftile/codegen/cpu/prelude.h"

namespace rooftile::codegen {
namespace {

// Types. W is the number of f32 lanes; i64 vectors have as many lanes and twice the bytes.
constexpr const char* kTypes = R"(
typedef signed char i8;
typedef unsigned char u8;
typedef unsigned short u16;
typedef int i32;
typedef unsigned u32;
typedef long i64;
struct bf16 { u16 bits; };
struct f16 { u16 bits; };
struct f8e4m3 { u8 bits; };
struct f8e5m2 { u8 bits; };
struct b8 { u8 bits; };
typedef float VF __attribute__((vector_size(4 * W)));
typedef i32 VI __attribute__((vector_size(4 * W)));
typedef u32 VU __attribute__((vector_size(4 * W)));
typedef i64 VL __attribute__((vector_size(8 * W)));
typedef u16 VH __attribute__((vector_size(2 * W)));
typedef i8 VB1 __attribute__((vector_size(W)));
typedef u8 VB2 __attribute__((vector_size(W)));
typedef VF VFu __attribute__((aligned(1), may_alias));
typedef VI VIu __attribute__((aligned(1), may_alias));
typedef VU VUu __attribute__((aligned(1), may_alias));
typedef VL VLu __attribute__((aligned(1), may_alias));
typedef VH VHu __attribute__((aligned(1), may_alias));
typedef VB1 VB1u __attribute__((aligned(1), may_alias));
typedef VB2 VB2u __attribute__((aligned(1), may_alias));
typedef i32 i32u __attribute__((aligned(1), may_alias));
#define AI static inline __attribute__((always_inline))
#define CONV __builtin_convertvector
extern "C" int omp_get_thread_num(void);
extern "C" int omp_get_num_threads(void);
extern "C" int omp_get_max_threads(void);
AI i64 imin(i64 a, i64 b) { return a < b ? a : b; }
AI i64 imax(i64 a, i64 b) { return a > b ? a : b; }
AI i64 fdiv(i64 a, i64 b) { i64 q = a / b; return q - ((a % b != 0) & ((a < 0) != (b < 0))); }
AI i64 fmod_(i64 a, i64 b) { i64 r = a % b; return r + ((r != 0) & ((r < 0) != (b < 0))) * b; }
AI VF vf(float x) { return x - (VF){}; }
AI VI vi(i32 x) { return x - (VI){}; }
AI VU vu(u32 x) { return x - (VU){}; }
AI VL vl(i64 x) { return x - (VL){}; }
AI VI vi(bool x) { return -(i32)x - (VI){}; }
AI VF vf(VF x) { return x; }
AI VI vi(VI x) { return x; }
AI VU vu(VU x) { return x; }
AI VL vl(VL x) { return x; }
)";

// 8-bit floats, a code in each lane of a VI. As bits of an f32 a code has its exponent too small by
// a constant. What lies below the smallest normal number is a whole number of its last place: added
// to (taken from) a number of that last place by the adder, which also rounds. No operand of an f32
// operation here is subnormal unless the caller's is, and additions take those at full speed.
constexpr const char* kF8 = R"(
// MAN mantissa bits, smallest normal number 2^LEAST, largest finite code TOP, NaN from code NONE on.
template <int MAN, int LEAST, i32 TOP, i32 NONE> struct F8 {
  static constexpr int S = 23 - MAN;
  static constexpr i32 NORMAL = (127 + LEAST) << 23, BASE = NORMAL - (1 << 23);
  static constexpr i32 UNIT = (127 + LEAST - MAN + 23) << 23;  // the f32 whose last place is that of a subnormal
  AI VF widen(VI code) {
    const VI m = (code & 0x7f) << S;
    const VI below = (VI)((VF)(m + NORMAL) - (VF)vi(NORMAL));
    VI r = m < (1 << 23) ? below : m + BASE;
    if constexpr (TOP + 1 < NONE) r = m > (TOP << S) ? vi(0x7f800000) : r;
    r = m >= (NONE << S) ? vi(0x7fc00000) : r;
    return (VF)(r | ((code & 0x80) << 24));
  }
  // To nearest even; what is too large, infinities included, becomes the largest finite number.
  AI VI narrow(VF v) {
    const VI u = (VI)v, a = u & 0x7fffffff;
    const VI normal = (a - BASE + ((1 << (S - 1)) - 1) + ((a >> S) & 1)) >> S;
    const VI below = (VI)((VF)a + (VF)vi(UNIT)) - UNIT;
    VI r = a < NORMAL ? below : normal;
    r = r > TOP ? vi(TOP) : r;
    r = a > 0x7f800000 ? vi(0x7f) : r;
    return r | ((u >> 24) & 0x80);
  }
};
typedef F8<3, -6, 0x7e, 0x7f> E4M3;
typedef F8<2, -14, 0x7b, 0x7d> E5M2;
)";

// Loads and stores of one vector. `n` variants touch n < W elements, `g` strided, `x` indexed, `1`
// one element.
constexpr const char* kMemory = R"(
AI VF ld(const float* p) { return *(const VFu*)p; }
AI VI ld(const i32* p) { return *(const VIu*)p; }
AI VU ld(const u32* p) { return *(const VUu*)p; }
AI VL ld(const i64* p) { return *(const VLu*)p; }
AI VI ld(const i8* p) { return CONV(*(const VB1u*)p, VI); }
AI VI ld(const u8* p) { return CONV(*(const VB2u*)p, VI); }
AI VI ld(const b8* p) { return CONV(*(const VB2u*)p, VI) != 0; }
AI VF ld(const bf16* p) { return (VF)(widen_u16((const u16*)p) << 16); }
AI VF ld(const f16* p) { return widen_f16(*(const VHu*)p); }
AI VF ld(const f8e4m3* p) { return E4M3::widen(widen_u8((const u8*)p)); }
AI VF ld(const f8e5m2* p) { return E5M2::widen(widen_u8((const u8*)p)); }
AI void st(float* p, VF v) { *(VFu*)p = v; }
AI void st(i32* p, VI v) { *(VIu*)p = v; }
AI void st(u32* p, VU v) { *(VUu*)p = v; }
AI void st(i64* p, VL v) { *(VLu*)p = v; }
AI void st(i8* p, VI v) { *(VB1u*)p = CONV(v, VB1); }
AI void st(u8* p, VI v) { *(VB2u*)p = CONV(v, VB2); }
AI void st(b8* p, VI v) { *(VB2u*)p = CONV(v & 1, VB2); }
AI void st(bf16* p, VF v) { *(VHu*)p = narrow_bf16(v); }
AI void st(f16* p, VF v) { *(VHu*)p = narrow_f16(v); }
AI void st(f8e4m3* p, VF v) { *(VB2u*)p = narrow_u8(E4M3::narrow(v)); }
AI void st(f8e5m2* p, VF v) { *(VB2u*)p = narrow_u8(E5M2::narrow(v)); }
template <class T> AI auto ldn(const T* p, i64 n) {
  T b[W] = {};
  for (i64 i = 0; i < n; i++) b[i] = p[i];
  return ld(b);
}
template <class T, class V> AI void stn(T* p, V v, i64 n) {
  T b[W];
  st(b, v);
  for (i64 i = 0; i < n; i++) p[i] = b[i];
}
template <class T> AI auto ldg(const T* p, i64 stride, i64 n) {
  T b[W] = {};
  for (i64 i = 0; i < n; i++) b[i] = p[i * stride];
  return ld(b);
}
template <class T, class V> AI auto ldx(const T* p, V at, i64 stride, i64 n) {
  T b[W] = {};
  for (i64 i = 0; i < n; i++) b[i] = p[(i64)at[i] * stride];
  return ld(b);
}
template <class T, class V> AI void stg(T* p, V v, i64 stride, i64 n) {
  T b[W];
  st(b, v);
  for (i64 i = 0; i < n; i++) p[i * stride] = b[i];
}
template <class T, class V, class X> AI void stx(T* p, V v, X at, i64 stride, i64 n) {
  T b[W];
  st(b, v);
  for (i64 i = 0; i < n; i++) p[(i64)at[i] * stride] = b[i];
}
AI float ld1(const float* p) { return *p; }
AI i32 ld1(const i32* p) { return *p; }
AI u32 ld1(const u32* p) { return *p; }
AI i64 ld1(const i64* p) { return *p; }
AI i32 ld1(const i8* p) { return *p; }
AI i32 ld1(const u8* p) { return *p; }
AI bool ld1(const b8* p) { return p->bits != 0; }
AI float ld1(const bf16* p) { u32 u = (u32)p->bits << 16; float f; __builtin_memcpy(&f, &u, 4); return f; }
AI float ld1(const f16* p) { return ldn(p, 1)[0]; }
AI float ld1(const f8e4m3* p) { return E4M3::widen(vi((i32)p->bits))[0]; }
AI float ld1(const f8e5m2* p) { return E5M2::widen(vi((i32)p->bits))[0]; }
AI void st1(float* p, float v) { *p = v; }
AI void st1(bf16* p, float v) { stn(p, vf(v), 1); }
AI void st1(f16* p, float v) { stn(p, vf(v), 1); }
AI void st1(f8e4m3* p, float v) { p->bits = (u8)E4M3::narrow(vf(v))[0]; }
AI void st1(f8e5m2* p, float v) { p->bits = (u8)E5M2::narrow(vf(v))[0]; }
AI void st1(i32* p, i32 v) { *p = v; }
AI void st1(u32* p, u32 v) { *p = v; }
AI void st1(i64* p, i64 v) { *p = v; }
AI void st1(i8* p, i32 v) { *p = (i8)v; }
AI void st1(u8* p, i32 v) { *p = (u8)v; }
AI void st1(b8* p, bool v) { p->bits = v; }
)";

// Functions. Accuracy: 2 ulp of f32 for exp, exp2, log, log2, recip, rsqrt; 4 ulp for tanh, erf.
// Polynomials are minimax fits of the relative error on the stated interval.
constexpr const char* kMath = R"(
#define BITS(x) ((VI)(x))
AI VF sel(VI m, VF a, VF b) { return m ? a : b; }
AI VI sel(VI m, VI a, VI b) { return m ? a : b; }
AI VU sel(VI m, VU a, VU b) { return m ? a : b; }
// By bits: g++ takes a conditional on vectors of two registers apart, element by element.
AI VL sel(VI m, VL a, VL b) { VL k = CONV(m, VL); return (a & k) | (b & ~k); }
template <class T> AI T sel(bool m, T a, T b) { return m ? a : b; }
AI VI nmax(VI a, VI b) { return a < b ? b : a; }
AI VI nmin(VI a, VI b) { return b < a ? b : a; }
AI VU nmax(VU a, VU b) { return a < b ? b : a; }
AI VU nmin(VU a, VU b) { return b < a ? b : a; }
AI VL nmax(VL a, VL b) { return a < b ? b : a; }
AI VL nmin(VL a, VL b) { return b < a ? b : a; }
AI i32 nmax(i32 a, i32 b) { return a < b ? b : a; }
AI i32 nmin(i32 a, i32 b) { return b < a ? b : a; }
AI u32 nmax(u32 a, u32 b) { return a < b ? b : a; }
AI u32 nmin(u32 a, u32 b) { return b < a ? b : a; }
AI i64 nmax(i64 a, i64 b) { return a < b ? b : a; }
AI i64 nmin(i64 a, i64 b) { return b < a ? b : a; }
AI VF absv(VF a) { return (VF)(BITS(a) & 0x7fffffff); }
AI VI absv(VI a) { return a < 0 ? -a : a; }
AI VL absv(VL a) { return a < 0 ? -a : a; }
AI float absv(float a) { return __builtin_fabsf(a); }
AI i32 absv(i32 a) { return a < 0 ? -a : a; }
AI i64 absv(i64 a) { return a < 0 ? -a : a; }
AI VF as_bf16(VF x) { VH h = narrow_bf16(x); return (VF)(CONV(h, VU) << 16); }
AI VF as_f16(VF x) { return widen_f16(narrow_f16(x)); }
AI float as_bf16(float x) { return as_bf16(vf(x))[0]; }
AI float as_f16(float x) { return as_f16(vf(x))[0]; }
AI VF as_f8e4m3(VF x) { return E4M3::widen(E4M3::narrow(x)); }
AI VF as_f8e5m2(VF x) { return E5M2::widen(E5M2::narrow(x)); }
AI float as_f8e4m3(float x) { return as_f8e4m3(vf(x))[0]; }
AI float as_f8e5m2(float x) { return as_f8e5m2(vf(x))[0]; }
AI VF round_any(VF x) { return sel(absv(x) < 4194304.0f, round_fast(x), x); }
AI VI to_i32(VF x) {
  VI r = CONV(sel(absv(x) < 2147483648.0f, round_any(x), vf(0.0f)), VI);
  r = sel(x >= 2147483648.0f, vi(0x7fffffff), r);
  return sel(x <= -2147483648.0f, vi(-0x7fffffff - 1), r);
}
AI VL to_i64(VF x) {
  VI fits = absv(x) < 9223372036854775808.0f;
  VL r = CONV(sel(fits, round_any(x), vf(0.0f)), VL);
  r = sel((VI)(x >= 9223372036854775808.0f), vl(0x7fffffffffffffffl), r);
  return sel((VI)(x <= -9223372036854775808.0f), vl(-0x7fffffffffffffffl - 1), r);
}
AI VU to_u32(VF x) { VL r = to_i64(x); r = nmin(nmax(r, vl(0)), vl(0xffffffffl)); return CONV(r, VU); }
AI i32 to_i32(float x) { return to_i32(vf(x))[0]; }
AI i64 to_i64(float x) { return to_i64(vf(x))[0]; }
AI u32 to_u32(float x) { return to_u32(vf(x))[0]; }
AI VF floorv(VF x) {
  VI fits = absv(x) < 8388608.0f;
  VF y = sel(fits, x, vf(0.0f)), t = CONV(CONV(y, VI), VF);
  t -= sel(t > y, vf(1.0f), vf(0.0f));
  return sel(fits, t, x);
}
// a NaN stays
AI VF expv(VF x) {
  x = clampv(x, -110.0f, 110.0f);
  VF n = round_fast(x * 1.44269504089f);
  // ln 2 in two parts; the first product is exact
  VF r = (x - n * 0.693145751953125f) - n * 1.42860682030941723e-6f;
  VF p = 0.00138368507f * r + 0.008374815769f;
  p = p * r + 0.04166822548f;
  p = p * r + 0.1666642017f;
  p = p * r + 0.4999999208f;
  p = p * r + 1.000000036f;
  p = p * r + 1.0f;
  return scale_by(p, n);
}
// x = m * 2^e with m in [sqrt(1/2), sqrt(2)); log(m) = 2s + s^3 P(s^2), s = (m-1)/(m+1)
AI void split_log(VF x, VF& e, VF& lm) {
  VI tiny = x < 1.17549435e-38f;
  VF y = sel(tiny, x * 8388608.0f, x);
  VI b = (VI)((VU)y - 0x3f3504f3u);
  e = CONV((b >> 23) - (tiny & 23), VF);
  VF m = (VF)((b & 0x007fffff) + 0x3f3504f3);
  VF s = (m - 1.0f) / (m + 1.0f), z = s * s;
  VF p = 0.2333347992f * z + 0.285507055f;
  p = p * z + 0.4000012292f;
  p = p * z + 0.6666666655f;
  lm = s * z * p + 2.0f * s;
}
AI VF log_edges(VF x, VF r) {  // 0, infinity, negatives and NaN
  r = sel(x == 0.0f, vf(-__builtin_inff()), r);
  r = sel(x == __builtin_inff(), x, r);
  return sel((x < 0.0f) | (x != x), vf(__builtin_nanf("")), r);
}
AI VF logv(VF x) {
  VF e, m;
  split_log(x, e, m);
  return log_edges(x, (e * -2.12194440e-4f + m) + e * 0.693359375f);
}
AI VF log2v(VF x) {
  VF e, m;
  split_log(x, e, m);
  return log_edges(x, m * 1.44269504089f + e);
}
AI VF recipv(VF x) { return 1.0f / x; }
AI VF rsqrtv(VF x) { return 1.0f / sqrtv(x); }
AI VF with_sign(VF magnitude, VF sign) { return (VF)(BITS(magnitude) | (BITS(sign) & (i32)0x80000000)); }
AI VF tanhv(VF x) {
  VF a = absv(x), z = x * x;
  VF p = 0.002244860602f * z - 0.00830059237f;
  p = p * z + 0.02175532353f;
  p = p * z - 0.05395754087f;
  p = p * z + 0.1333329605f;
  p = p * z - 0.3333333312f;
  VF small = x * z * p + x;
  VF big = with_sign(1.0f - 2.0f / (expv(2.0f * clampv(a, 0.0f, 20.0f)) + 1.0f), x);
  return sel(a < 0.63f, small, big);
}
AI VF erfv(VF x) {
  VF a = absv(x), z = x * x;
  VF p = 7.853858505e-5f * z - 0.0008010192631f;
  p = p * z + 0.005188327552f;
  p = p * z - 0.02685381185f;
  p = p * z + 0.1128358515f;
  p = p * z - 0.3761262582f;
  p = p * z + 1.128379166f;
  VF c = clampv(a, 0.0f, 4.2f), t = 1.0f / (0.5f * c + 1.0f);  // erfc(c) = exp(-c^2) Q(t)
  VF q = 0.1184664082f * t - 0.4680850011f;
  q = q * t + 0.5585951243f;
  q = q * t - 0.09974803228f;
  q = q * t + 0.3459018325f;
  q = q * t + 0.2602443623f;
  q = q * t + 0.2848226794f;
  q = q * t - 0.0001480193851f;
  VF big = with_sign(1.0f - expv(-c * c) * q, x);
  return sel(a < 1.0f, x * p, sel(x != x, x, big));
}
AI VF sinv(VF x) { VF r; for (int i = 0; i < W; i++) r[i] = (float)__builtin_sin((double)x[i]); return r; }
AI VF cosv(VF x) { VF r; for (int i = 0; i < W; i++) r[i] = (float)__builtin_cos((double)x[i]); return r; }
#define SCALAR(name) AI float name(float x) { return name(vf(x))[0]; }
SCALAR(floorv) SCALAR(exp2v) SCALAR(expv) SCALAR(logv) SCALAR(log2v) SCALAR(tanhv) SCALAR(erfv)
AI float sinv(float x) { return (float)__builtin_sin((double)x); }
AI float cosv(float x) { return (float)__builtin_cos((double)x); }
AI float sqrtv(float x) { return __builtin_sqrtf(x); }
AI float rsqrtv(float x) { return 1.0f / __builtin_sqrtf(x); }
AI float recipv(float x) { return 1.0f / x; }
AI u32 mulhiv(u32 a, u32 b) { return (u32)(((unsigned long)a * b) >> 32); }
AI VU mulhiv(VU a, VU b) { VU r; for (int i = 0; i < W; i++) r[i] = mulhiv(a[i], b[i]); return r; }
AI i64 fdivv(i64 a, i64 b) { return fdiv(a, b); }
AI i32 fdivv(i32 a, i32 b) { return (i32)fdiv(a, b); }
AI u32 fdivv(u32 a, u32 b) { return a / b; }
// Lanes beyond a tail may hold a zero divisor: it must not trap.
AI VU fdivv(VU a, VU b) { b = b == 0 ? b + 1 : b; return a / b; }
AI VI fdivv(VI a, VI b) { b = b == 0 ? b + 1 : b; VI q = a / b; return q + (((a - q * b) != 0) & ((a < 0) != (b < 0))); }
AI VL fdivv(VL a, VL b) { b = b == 0 ? b + 1 : b; VL q = a / b; return q + (((a - q * b) != 0) & ((a < 0) != (b < 0))); }
template <class T> AI T fmodv(T a, T b) { return a - fdivv(a, b) * b; }
// Sum, largest and smallest over the lanes, in a fixed order: halves are added until one is left.
template <class S, class V> AI S tree_sum(V v) {
  typedef S S4 __attribute__((vector_size(4 * sizeof(S))));
  S4 q[W / 4];
  __builtin_memcpy(q, &v, sizeof v);
  for (int h = W / 8; h > 0; h /= 2)
    for (int i = 0; i < h; i++) q[i] += q[i + h];
  return (q[0][0] + q[0][2]) + (q[0][1] + q[0][3]);
}
AI float hsum(VF v) { return tree_sum<float>(v); }
AI i32 hsum(VI v) { return tree_sum<i32>(v); }
AI u32 hsum(VU v) { return tree_sum<u32>(v); }
AI i64 hsum(VL v) { return tree_sum<i64>(v); }
#define FOLD(NAME, V, S, OP) AI S NAME(V v) { \
  typedef S S4 __attribute__((vector_size(4 * sizeof(S)))); \
  S4 q[W / 4]; __builtin_memcpy(q, &v, sizeof v); \
  for (int h = W / 8; h > 0; h /= 2) for (int i = 0; i < h; i++) { const S4 a = q[i], b = q[i + h]; q[i] = OP ? b : a; } \
  S r = q[0][0]; for (int i = 1; i < 4; i++) { const S a = r, b = q[0][i]; r = OP ? b : a; } \
  return r; }
#define LARGER ((a < b) | (b != b))
#define SMALLER ((b < a) | (b != b))
FOLD(hmax, VI, i32, LARGER) FOLD(hmin, VI, i32, SMALLER)
FOLD(hmax, VU, u32, LARGER) FOLD(hmin, VU, u32, SMALLER)
FOLD(hmax, VL, i64, LARGER) FOLD(hmin, VL, i64, SMALLER)
// Position of the largest element: ties to the smallest position, NaN above everything.
AI void argmax_step(VF v, VI at, VF& best, VI& best_at) {
  VI gt = (v > best) | ((v != v) & (best == best)), tie = (v == best) | ((v != v) & (best != best));
  VI m = gt | (tie & (at < best_at));
  best = sel(m, v, best);
  best_at = sel(m, at, best_at);
}
AI void argmax_step(VI v, VI at, VI& best, VI& best_at) {
  VI m = (v > best) | ((v == best) & (at < best_at));
  best = sel(m, v, best);
  best_at = sel(m, at, best_at);
}
template <class V> AI i32 argmax_lanes(V best, VI best_at) {
  int k = 0;
  for (int i = 1; i < W; i++) {
    bool gt = best[i] > best[k] || (best[i] != best[i] && best[k] == best[k]);
    bool tie = best[i] == best[k] || (best[i] != best[i] && best[k] != best[k]);
    if (gt || (tie && best_at[i] < best_at[k])) k = i;
  }
  return best_at[k];
}
AI VI lanes() { VI r; for (int i = 0; i < W; i++) r[i] = i; return r; }
// Philox4x32-10 (Salmon et al. 2011): first word of the block; counter (c lo, c hi, offset lo, offset hi), key = seed.
AI u32 philoxv(i64 c, i64 seed, i64 offset) {
  u32 c0 = (u32)c, c1 = (u32)(c >> 32), c2 = (u32)offset, c3 = (u32)(offset >> 32);
  u32 k0 = (u32)seed, k1 = (u32)(seed >> 32);
  for (int r = 0; r < 10; r++) {
    unsigned long p0 = 0xD2511F53ul * c0, p1 = 0xCD9E8D57ul * c2;
    u32 n0 = (u32)(p1 >> 32) ^ c1 ^ k0, n2 = (u32)(p0 >> 32) ^ c3 ^ k1;
    c1 = (u32)p1; c3 = (u32)p0; c0 = n0; c2 = n2;
    k0 += 0x9E3779B9u; k1 += 0xBB67AE85u;
  }
  return c0;
}
AI VU philoxv(VL c, i64 seed, i64 offset) { VU r; for (int i = 0; i < W; i++) r[i] = philoxv(c[i], seed, offset); return r; }
AI VU philoxv(VI c, i64 seed, i64 offset) { return philoxv(CONV(c, VL), seed, offset); }
AI i32 sat_i8(float x) { x = x != x ? 0.0f : x < -128.0f ? -128.0f : x > 127.0f ? 127.0f : x; return (i32)__builtin_rintf(x); }
AI VI sat_i8(VF x) { x = sel(x != x, vf(0.0f), clampv(x, -128.0f, 127.0f)); return CONV(round_fast(x), VI); }
AI VI sat_u8(VF x) { x = sel(x != x, vf(0.0f), clampv(x, 0.0f, 255.0f)); return CONV(round_fast(x), VI); }
AI i32 sat_u8(float x) { x = x != x ? 0.0f : x < 0.0f ? 0.0f : x > 255.0f ? 255.0f : x; return (i32)__builtin_rintf(x); }
)";

constexpr const char* kPlainFolds =
    "FOLD(hmax, VF, float, LARGER) FOLD(hmin, VF, float, SMALLER)\n";
// Halves against each other; a NaN is looked for apart, by a branch that is never taken and nothing
// waits for.
constexpr const char* kAvx512Folds = R"(
#define FOLD_HALVES(OP) \
  unsigned short none; asm("vcmpunordps %1,%1,%0" : "=Yk"(none) : "v"(v)); \
  if (__builtin_expect(none != 0, 0)) return __builtin_nanf(""); \
  VF o = __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7); \
  asm(OP "ps %1,%0,%0" : "+v"(v) : "v"(o)); \
  o = __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11); \
  asm(OP "ps %1,%0,%0" : "+v"(v) : "v"(o)); \
  o = __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13); \
  asm(OP "ps %1,%0,%0" : "+v"(v) : "v"(o)); \
  o = __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14); \
  asm(OP "ps %1,%0,%0" : "+v"(v) : "v"(o)); \
  return v[0];
AI float hmax(VF v) { FOLD_HALVES("vmax") }
AI float hmin(VF v) { FOLD_HALVES("vmin") }
)";

// Rounding to bf16 by integer arithmetic: to nearest even; a NaN stays one.
constexpr const char* kPlainBf16 = R"(
AI VH narrow_bf16(VF v) {
  VU u = (VU)v, r = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
  return CONV((VU)((v != v) ? (VI)((u >> 16) | 0x40) : (VI)r), VH);
}
)";
constexpr const char* kAvx512Bf16 = R"(
// the instruction flushes denormals; they are below 2^-126, where a bf16 result rounds them anyway
AI VH narrow_bf16(VF v) {
  VH r;
  asm("vcvtneps2bf16 %1,%0" : "=v"(r) : "v"(v));
  return r;
}
AI VI narrow2_bf16(VF a, VF b) { VI r; asm("vcvtne2ps2bf16 %2,%1,%0" : "=v"(r) : "v"(b), "v"(a)); return r; }
)";
// The tail of exp: p * 2^n, and what keeps its argument in range.
constexpr const char* kPlainScale = R"(
AI VF nmax(VF a, VF b) { return ((a < b) | (b != b)) ? b : a; }  // a NaN wins
AI VF nmin(VF a, VF b) { return ((b < a) | (b != b)) ? b : a; }
AI float nmax(float a, float b) { return (a < b) | (b != b) ? b : a; }
AI float nmin(float a, float b) { return (b < a) | (b != b) ? b : a; }
AI VF round_fast(VF x) { return (x + 12582912.0f) - 12582912.0f; }  // |x| < 2^22
AI VF clampv(VF x, float lo, float hi) { x = x < lo ? vf(lo) : x; return x > hi ? vf(hi) : x; }
// p * 2^n, |n| <= 300, two steps so that results below the normal range are right
AI VF scale_by(VF p, VF n) {
  VI k = CONV(n, VI), h = k >> 1;
  return p * (VF)((h + 127) << 23) * (VF)((k - h + 127) << 23);
}
AI VF exp2v(VF x) {
  x = clampv(x, -160.0f, 160.0f);
  VF n = round_fast(x), f = x - n;
  VF p = 0.0001534581723f * f + 0.001339993116f;
  p = p * f + 0.009618488938f;
  p = p * f + 0.05550328777f;
  p = p * f + 0.2402264689f;
  p = p * f + 0.6931472057f;
  p = p * f + 1.0f;
  return scale_by(p, n);
}
)";
constexpr const char* kAvx512Scale = R"(
// A NaN wins. The instructions return their second source where either is a NaN: here `a`. Lanes where
// `b` is one are not written. What depends on `a`, a running maximum, is one instruction.
#define KEEP_NAN(T, OP, S) unsigned short k; T r = b; asm("vcmpord" S " %1,%1,%0" : "=Yk"(k) : "v"(b)); \
  asm(OP S " %3,%2,%0%{%1%}" : "+v"(r) : "Yk"(k), "v"(b), "v"(a)); return r;
AI VF nmax(VF a, VF b) { KEEP_NAN(VF, "vmax", "ps") }
AI VF nmin(VF a, VF b) { KEEP_NAN(VF, "vmin", "ps") }
AI float nmax(float a, float b) { KEEP_NAN(float, "vmax", "ss") }
AI float nmin(float a, float b) { KEEP_NAN(float, "vmin", "ss") }
AI VF round_fast(VF x) { VF r; asm("vrndscaleps $0,%1,%0" : "=v"(r) : "v"(x)); return r; }
AI VF clampv(VF x, float lo, float hi) {  // a NaN stays: the instructions return their second source
  VF r;
  asm("vmaxps %1,%2,%0" : "=v"(r) : "v"(x), "v"(vf(lo)));
  asm("vminps %1,%2,%0" : "=v"(r) : "v"(r), "v"(vf(hi)));
  return r;
}
AI VF scale_by(VF p, VF n) { VF r; asm("vscalefps %2,%1,%0" : "=v"(r) : "v"(p), "v"(n)); return r; }
AI VF exp2v(VF x) {  // fraction in [0, 1) and 2^floor(x) by one instruction each; infinities and NaN come out right
  VF f;
  asm("vreduceps $1,%1,%0" : "=v"(f) : "v"(x));
  VF p = 0.0002170226285f * f + 0.001243968553f;
  p = p * f + 0.009678841265f;
  p = p * f + 0.05548334184f;
  p = p * f + 0.2402298363f;
  p = p * f + 0.6931469838f;
  p = p * f + 1.0f;
  return scale_by(p, x);
}
)";

constexpr const char* kGeneric = R"(
AI VU widen_u16(const u16* p) { return CONV(*(const VHu*)p, VU); }
AI VI widen_u8(const u8* p) { return CONV(*(const VB2u*)p, VI); }
AI VB2 narrow_u8(VI v) { return CONV(v, VB2); }
AI VF widen_f16(VH h) {
  VU u = CONV(h, VU), m = (u & 0x7fff) << 13, s = (u & 0x8000) << 16;
  VF scaled = (VF)m * 5.192296858534828e+33f;  // 2^112 moves the exponent; denormals come out right
  VU r = (VU)((m >= 0x0f800000u) ? (VI)(m | 0x7f800000u) : (VI)scaled);
  return (VF)(r | s);
}
AI VH narrow_f16(VF v) {
  VU u = (VU)v, s = (u >> 16) & 0x8000, a = u & 0x7fffffff;
  VI n = (VI)((a - 0x38000000u + 0xfff + ((a >> 13) & 1)) >> 13);
  VI d = (VI)((VU)((VF)a + 0.5f) - 0x3f000000u);  // results below 2^-14: the adder rounds
  VI r = (a < 0x38800000u) ? d : n;
  r = (a >= 0x477ff000u) ? (VI){} + 0x7c00 : r;  // from 65520 on: infinity
  r = (a > 0x7f800000u) ? (VI){} + 0x7e00 : r;
  return CONV((VU)r | s, VH);
}
AI VF sqrtv(VF x) { VF r; for (int i = 0; i < W; i++) r[i] = __builtin_sqrtf(x[i]); return r; }
AI void fence_nt() {}
)";
// Two neighbouring vectors; "nt" past the caches.
constexpr const char* kStorePairs = R"(
template <class T, class V> AI void st2(T* p, V a, V b) { st(p, a); st(p + W, b); }
)";
constexpr const char* kGenericNt = R"(
template <class T, class V> AI void stnt2(T* p, V a, V b) { st(p, a); st(p + W, b); }
)";
constexpr const char* kAvx2 = R"(
AI VU widen_u16(const u16* p) { VU r; asm("vpmovzxwd %1,%0" : "=x"(r) : "m"(*(const VHu*)p)); return r; }
AI VI widen_u8(const u8* p) { VI r; asm("vpmovzxbd %1,%0" : "=x"(r) : "m"(*(const VB2u*)p)); return r; }
AI VB2 narrow_u8(VI v) { return CONV(v, VB2); }
typedef float X4 __attribute__((vector_size(16)));
AI VF widen_f16(VH h) { VF r; asm("vcvtph2ps %1,%0" : "=x"(r) : "x"(h)); return r; }
AI VH narrow_f16(VF v) { VH r; asm("vcvtps2ph $0,%1,%0" : "=x"(r) : "x"(v)); return r; }
AI VF sqrtv(VF x) { VF r; asm("vsqrtps %1,%0" : "=x"(r) : "x"(x)); return r; }
AI void fence_nt() { asm volatile("sfence" ::: "memory"); }
)";
constexpr const char* kAvx2Nt = R"(
AI void nt32(void* p, VF v) { asm volatile("vmovntps %1,%0" : "=m"(*(VF*)p) : "x"(v)); }
AI VF pair(VH a, VH b) { VF r; __builtin_memcpy(&r, &a, 16); __builtin_memcpy((char*)&r + 16, &b, 16); return r; }
AI void stnt2(float* p, VF a, VF b) { nt32(p, a); nt32(p + W, b); }
AI void stnt2(i32* p, VI a, VI b) { nt32(p, (VF)a); nt32(p + W, (VF)b); }
AI void stnt2(bf16* p, VF a, VF b) { nt32(p, pair(narrow_bf16(a), narrow_bf16(b))); }
AI void stnt2(f16* p, VF a, VF b) { nt32(p, pair(narrow_f16(a), narrow_f16(b))); }
template <class T, class V> AI void stnt2(T* p, V a, V b) { st(p, a); st(p + W, b); }
)";
constexpr const char* kAvx512 = R"(
AI VU widen_u16(const u16* p) { VU r; asm("vpmovzxwd %1,%0" : "=v"(r) : "m"(*(const VHu*)p)); return r; }  // g++ 12 splits it
AI VI widen_u8(const u8* p) { VI r; asm("vpmovzxbd %1,%0" : "=v"(r) : "m"(*(const VB2u*)p)); return r; }
AI VB2 narrow_u8(VI v) { VB2 r; asm("vpmovdb %1,%0" : "=v"(r) : "v"(v)); return r; }
// One vector of the 2 W elements at `line`, the FIRST element in lane 0: a word permutation puts each into
// the high half of its lane, where widening and shifting take two instructions.
template <int FIRST> AI VF ld_line(const bf16* line) {
  typedef u16 VLine __attribute__((vector_size(64), aligned(1), may_alias));
  VU at;
  for (int i = 0; i < W; i++) at[i] = (u32)(i + FIRST) << 16;
  VF r;
  asm("vpermw %1,%2,%0%{%3%}%{z%}" : "=v"(r) : "m"(*(const VLine*)line), "v"(at), "Yk"(0xaaaaaaaau));
  return r;
}
AI VF widen_f16(VH h) { VF r; asm("vcvtph2ps %1,%0" : "=v"(r) : "v"(h)); return r; }
AI VH narrow_f16(VF v) { VH r; asm("vcvtps2ph $0,%1,%0" : "=v"(r) : "v"(v)); return r; }
AI VF sqrtv(VF x) { VF r; asm("vsqrtps %1,%0" : "=v"(r) : "v"(x)); return r; }
AI void fence_nt() { asm volatile("sfence" ::: "memory"); }
)";
constexpr const char* kAvx512Nt = R"(
AI void nt64(void* p, VI v) { asm volatile("vmovntdq %1,%0" : "=m"(*(VI*)p) : "v"(v)); }
AI void st2(bf16* p, VF a, VF b) { *(VIu*)p = narrow2_bf16(a, b); }
AI VI pair(VH a, VH b) { return (VI)__builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31); }
AI void stnt2(float* p, VF a, VF b) { nt64(p, (VI)a); nt64(p + W, (VI)b); }
AI void stnt2(i32* p, VI a, VI b) { nt64(p, a); nt64(p + W, b); }
AI void stnt2(bf16* p, VF a, VF b) { nt64(p, narrow2_bf16(a, b)); }
AI void stnt2(f16* p, VF a, VF b) { nt64(p, pair(narrow_f16(a), narrow_f16(b))); }
template <class T, class V> AI void stnt2(T* p, V a, V b) { st(p, a); st(p + W, b); }
)";

}  // namespace

std::string cpu_prelude(const TargetInfo& target) {
  const bool avx512 = target.isa == "avx512", avx2 = target.isa == "avx2";
  std::string text = "#define W " + std::to_string(target.lanes_f32()) + "\n";
  text += kTypes;
  text += avx512 ? kAvx512 : avx2 ? kAvx2 : kGeneric;
  text += avx512 && target.avx512_bf16 ? kAvx512Bf16 : kPlainBf16;
  text += avx512 ? kAvx512Scale : kPlainScale;
  text += kF8;
  text += kMemory;
  if (avx512 && !target.avx512_bf16) text += "AI VI narrow2_bf16(VF a, VF b);\n";
  text += kStorePairs;
  text += avx512 ? kAvx512Nt : avx2 ? kAvx2Nt : kGenericNt;
  if (avx512 && !target.avx512_bf16)
    text += "AI VI narrow2_bf16(VF a, VF b) { return pair(narrow_bf16(a), narrow_bf16(b)); }\n";
  text += kMath;
  text += avx512 ? kAvx512Folds : kPlainFolds;
  return text;
}

}  // namespace rooftile::codegen
