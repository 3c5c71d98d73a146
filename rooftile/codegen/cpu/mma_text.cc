// SPDX-License-Identifier: Apache-2.0
#include "rooftile/codegen/cpu/mma_text.h"

#include <vector>

namespace rooftile::codegen {
namespace {

constexpr MmaUnitInfo kUnits[] = {
    {MmaUnit::kAmxBf16, "amx_bf16", DType::kBf16, 2, false, true},
    {MmaUnit::kAmxInt8, "amx_int8", DType::kI8, 4, true, true},
    {MmaUnit::kDotBf16, "dot_bf16", DType::kBf16, 2, false, false},
    {MmaUnit::kDotInt8, "dot_int8", DType::kI8, 4, true, false},
    {MmaUnit::kFmaF32, "fma_f32", DType::kF32, 1, false, false},
    {MmaUnit::kFmaBf16, "fma_bf16", DType::kBf16, 2, false, false},
    {MmaUnit::kMulInt8, "mul_int8", DType::kI8, 4, true, false},
};

// Packing. A word group that sticks out of K is completed with zeros, columns beyond N are zero.
constexpr const char* kPacking = R"(
AI i64 up(i64 x, i64 to) { return (x + to - 1) / to * to; }
// One row of A: n elements, zeros up to the next 64 bytes.
template <class D, class S> AI void copy_row(D* d, const S* s, i64 n, i64 stride) {
  const i64 padded = up(n * (i64)sizeof(D), 64) / (i64)sizeof(D);
  i64 i = 0;
  if constexpr (__is_same(D, S)) {
    if (stride == 1) { __builtin_memcpy(d, s, (unsigned long)n * sizeof(D)); i = n; }
  } else if (stride == 1) {
    for (; i + W <= n; i += W) st(d + i, ld(s + i));
  }
  for (; i < n; i++) {
    if constexpr (__is_same(D, S)) d[i] = s[i * stride]; else st1(d + i, ld1(s + i * stride));
  }
  __builtin_memset((void*)(d + n), 0, (unsigned long)(padded - n) * sizeof(D));
}
template <class D> AI void pad_row(D* d, i64 n) {
  const i64 gap = up(n * (i64)sizeof(D), 64) - n * (i64)sizeof(D);
  if (gap) __builtin_memset((void*)(d + n), 0, (unsigned long)gap);
}
template <class D, class S> AI u32 word_of(const S* s, i64 k, i64 kn, i64 stride) {
  constexpr int G = 4 / sizeof(D);
  D w[G] = {};
  for (int g = 0; g < G && k + g < kn; g++) {
    if constexpr (__is_same(D, S)) w[g] = s[(k + g) * stride]; else st1(w + g, ld1(s + (k + g) * stride));
  }
  u32 u;
  __builtin_memcpy(&u, w, 4);
  return u;
}
AI void prefetch_row(const void* p, i64 bytes) {
  for (i64 i = 0; i < bytes; i += 64) __builtin_prefetch((const char*)p + i, 0, 2);
}
#define SHUF __builtin_shufflevector
#if W == 16
// 16x16 transpose of 32-bit words: four rounds of two-source shuffles.
AI void transpose16(VI* v) {
#define ROUND(d, A0, A1, A2, A3, A4, A5, A6, A7, A8, A9, A10, A11, A12, A13, A14, A15, B0, B1, B2, B3, B4, B5, B6, B7, B8, B9, B10, B11, B12, B13, B14, B15) \
  _Pragma("GCC unroll 16") for (int i = 0; i < 16; i++) if (!(i & d)) { const VI x = v[i], y = v[i + d]; \
    v[i] = SHUF(x, y, A0, A1, A2, A3, A4, A5, A6, A7, A8, A9, A10, A11, A12, A13, A14, A15); \
    v[i + d] = SHUF(x, y, B0, B1, B2, B3, B4, B5, B6, B7, B8, B9, B10, B11, B12, B13, B14, B15); }
  ROUND(1, 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30, 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31)
  ROUND(2, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31)
  ROUND(4, 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27, 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31)
  ROUND(8, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31)
#undef ROUND
}
#endif
// Up to 16 rows of a logical [N, K] operand into columns [c, c + 16) of a panel whose rows are K words.
template <class D, class S> AI void pack_columns(i32* panel, const S* const* rows, i64 nrows, i64 kn, i64 stride) {
  constexpr int G = 4 / sizeof(D);
  const i64 kw = up((kn + G - 1) / G, 16);
  i64 k = 0;
#if W == 16
  if constexpr (__is_same(D, S)) if (stride == 1)
    for (; (k + 16) * G <= kn; k += 16) {
      VI v[16];
      _Pragma("GCC unroll 16") for (int r = 0; r < 16; r++) v[r] = r < nrows ? *(const VIu*)(rows[r] + k * G) : (VI){};
      transpose16(v);
      _Pragma("GCC unroll 16") for (int i = 0; i < 16; i++) *(VIu*)(panel + (k + i) * 32) = v[i];
    }
#endif
  for (; k < kw; k++)
    for (i64 r = 0; r < 16; r++) panel[k * 32 + r] = r < nrows && k * G < kn ? (i32)word_of<D>(rows[r], k * G, kn, stride) : 0;
}
// G rows of a logical [K, N] operand into one word row of every panel, `pp` words apart.
template <class D, class S> AI void pack_word_row(i32* out, i64 pp, const S* const* rows, i64 nrows, i64 n, i64 stride) {
  constexpr int G = 4 / sizeof(D);
  for (i64 c0 = 0; c0 < n; c0 += 32, out += pp) {
    const i64 cn = imin(32, n - c0);
    i64 c = 0;
    if constexpr (G == 2 && __is_same(D, S)) if (stride == 1 && cn == 32 && nrows == 2) {
#if W == 16
    {
      typedef u16 H32 __attribute__((vector_size(64)));
      typedef H32 H32u __attribute__((aligned(1), may_alias));
      const H32 x = *(const H32u*)(rows[0] + c0), y = *(const H32u*)(rows[1] + c0);
      *(H32u*)out = SHUF(x, y, 0, 32, 1, 33, 2, 34, 3, 35, 4, 36, 5, 37, 6, 38, 7, 39, 8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47);
      *(H32u*)(out + 16) = SHUF(x, y, 16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53, 22, 54, 23, 55, 24, 56, 25, 57, 26, 58, 27, 59, 28, 60, 29, 61, 30, 62, 31, 63);
      c = 32;
    }
#endif
      for (; c < 32; c += W) {
        const VU lo = CONV(*(const VHu*)(rows[0] + c0 + c), VU), hi = CONV(*(const VHu*)(rows[1] + c0 + c), VU);
        *(VUu*)(out + c) = lo | (hi << 16);
      }
    }
    if constexpr (G == 1) if (stride == 1 && nrows == 1)
      for (; c + W <= cn; c += W) st((float*)out + c, ld(rows[0] + c0 + c));
    for (; c < 32; c++) {
      D w[G] = {};
      if (c < cn) for (i64 g = 0; g < nrows; g++) {
        if constexpr (__is_same(D, S)) w[g] = rows[g][(c0 + c) * stride]; else st1(w + g, ld1(rows[g] + (c0 + c) * stride));
      }
      __builtin_memcpy(out + c, w, 4);
    }
  }
}
)";

std::string num(int64_t v) { return std::to_string(v); }

// AMX: 32 rows x 32 columns with four accumulators; 16 rows x 64 columns for the last few rows or a
// small M.
std::string amx_text(const MmaUnitInfo& info, int prefetch_bytes) {
  const char* dp = info.unit == MmaUnit::kAmxBf16 ? "tdpbf16ps" : "tdpbssd";
  auto tile = [](const char* op, int t, const std::string& addr, const std::string& stride) {
    return "    asm volatile(\"" + std::string(op) + " (%0,%1,1), %%tmm" + num(t) + "\" :: \"r\"(" +
           addr + "), \"r\"(" + stride + ") : \"memory\");\n";
  };
  auto store = [](int t, const std::string& addr, const std::string& stride) {
    return "    asm volatile(\"tilestored %%tmm" + num(t) + ", (%0,%1,1)\" :: \"r\"(" + addr +
           "), \"r\"(" + stride + ") : \"memory\");\n";
  };
  auto zero = [](int t) { return "    asm volatile(\"tilezero %%tmm" + num(t) + "\" ::);\n"; };
  auto mul = [dp](int c, int a, int b) {
    return "      asm volatile(\"" + std::string(dp) + " %%tmm" + num(b) + ", %%tmm" + num(a) +
           ", %%tmm" + num(c) + "\" ::);\n";
  };
  const std::string acc = info.int_acc ? "i32" : "float";
  std::string s;
  s += "// Accumulators tmm0..3, A tmm4..5, B tmm6..7; every tile is 16 rows of 64 bytes.\n";
  // 2 x 2: one panel, 32 rows
  s += "static __attribute__((noinline)) void mm_" + std::string(info.name) +
       "_22(const char* a, i64 pa, const char* b, " + acc +
       "* c, i64 ldc, i64 kw, int first, const char* next, i64 ahead) {\n";
  if (prefetch_bytes <= 0) s += "    (void)next, (void)ahead;\n";
  s += "    const i64 cs = ldc * 4;\n    " + acc +
       "* c2 = c + 16 * ldc;\n    const char* a2 = a + 16 * pa;\n";
  s += "    if (first) {\n" + zero(0) + zero(1) + zero(2) + zero(3) + "    } else {\n";
  s += tile("tileloadd", 0, "c", "cs") + tile("tileloadd", 1, "c + 16", "cs") +
       tile("tileloadd", 2, "c2", "cs") + tile("tileloadd", 3, "c2 + 16", "cs") + "    }\n";
  s += "    for (i64 k = 0; k < kw; k += 16) {\n";
  s += tile("tileloadd", 6, "b", "128l") + tile("tileloadd", 4, "a", "pa");
  s += mul(0, 4, 6) + tile("tileloadd", 7, "b + 64", "128l") + mul(1, 4, 7) +
       tile("tileloadd", 5, "a2", "pa") + mul(2, 5, 6) + mul(3, 5, 7);
  if (prefetch_bytes > 0)
    s += "      if (ahead-- > 0) {\n"
         "        for (int i = 0; i < 2048; i += 64) __builtin_prefetch(next + i, 0, 2);\n"
         "        next += 2048;\n      }\n";
  s += "      a += 64; a2 += 64; b += 2048;\n    }\n";
  s += store(0, "c", "cs") + store(1, "c + 16", "cs") + store(2, "c2", "cs") +
       store(3, "c2 + 16", "cs") + "}\n";
  // 1 x 4: two panels, 16 rows; 1 x 2: one panel
  for (int panels : {2, 1}) {
    s += "static __attribute__((noinline)) void mm_" + std::string(info.name) + "_1" +
         num(2 * panels) + "(const char* a, i64 pa, const char* b, i64 pb, " + acc +
         "* c, i64 ldc, i64 kw, int first) {\n";
    s += "    const i64 cs = ldc * 4;\n";
    if (panels == 2)
      s += "    const char* q = b + pb;\n";
    else
      s += "    (void)pb;\n";
    s += "    if (first) {\n";
    for (int t = 0; t < 2 * panels; ++t) s += zero(t);
    s += "    } else {\n";
    for (int t = 0; t < 2 * panels; ++t) s += tile("tileloadd", t, "c + " + num(16 * t), "cs");
    s += "    }\n    for (i64 k = 0; k < kw; k += 16) {\n";
    s += tile("tileloadd", 4, "a", "pa") + tile("tileloadd", 6, "b", "128l") + mul(0, 4, 6) +
         tile("tileloadd", 7, "b + 64", "128l") + mul(1, 4, 7);
    if (panels == 2)
      s += tile("tileloadd", 6, "q", "128l") + mul(2, 4, 6) +
           tile("tileloadd", 7, "q + 64", "128l") + mul(3, 4, 7);
    if (prefetch_bytes > 0) {
      s += "      for (int i = 0; i < 2048; i += 64) {\n        __builtin_prefetch(b + " +
           num(prefetch_bytes) + " + i, 0, 3);\n";
      if (panels == 2)
        s += "        __builtin_prefetch(q + " + num(prefetch_bytes) + " + i, 0, 3);\n";
      s += "      }\n";
    }
    s += "      a += 64; b += 2048;";
    s += panels == 2 ? " q += 2048;\n    }\n" : "\n    }\n";
    for (int t = 0; t < 2 * panels; ++t) s += store(t, "c + " + num(16 * t), "cs");
    s += "}\n";
  }
  const std::string fn = "mm_" + std::string(info.name);
  s += "static void " + fn + "(const char* a, i64 pa, const i32* bw, i64 pbw, " + acc +
       "* c, i64 ldc, i64 m, i64 n, i64 kw, int first) {\n"
       "  const char* b = (const char*)bw;\n  const i64 pb = pbw * 4, panels = (n + 31) / 32;\n  "
       "kw = up(kw, 16);\n"
       "  if (m <= 16) {\n    i64 p = 0;\n"
       "    for (; p + 2 <= panels; p += 2) " +
       fn +
       "_14(a, pa, b + p * pb, pb, c + p * 32, ldc, kw, first);\n"
       "    for (; p < panels; p++) " +
       fn +
       "_12(a, pa, b + p * pb, pb, c + p * 32, ldc, kw, first);\n    return;\n  }\n"
       "  const i64 tiles = m / 32 + (m % 32 > 16);\n"
       "  for (i64 p = 0; p < panels; p++) {  // the panel stays in L1, A streams from L2; the "
       "next panel comes meanwhile\n"
       "    i64 i = 0;\n    const i64 steps = kw / 16, share = p + 1 < panels ? (steps + tiles - "
       "1) / tiles : 0;\n"
       "    for (; i * 32 + 16 < m; i++)\n"
       "      " +
       fn +
       "_22(a + i * 32 * pa, pa, b + p * pb, c + i * 32 * ldc + p * 32, ldc, kw, first, b + (p + "
       "1) * pb + i * share * 2048, imin(share, steps - i * share));\n"
       "    if (i * 32 < m) " +
       fn +
       "_12(a + i * 32 * pa, pa, b + p * pb, pb, c + i * 32 * ldc + p * 32, ldc, kw, first);\n"
       "  }\n}\n";
  return s;
}

// Register tile of `rows` x 32 columns with named accumulators: A is broadcast a word at a time.
std::string lanes_kernel(const MmaUnitInfo& info, int lanes, int rows, int panels) {
  const int per_panel = kPanelColumns / lanes, vecs = per_panel * panels;
  const std::string acc_t = info.int_acc ? "VI" : "VF", elem = info.int_acc ? "i32" : "float";
  const std::string load = info.int_acc ? "VIu" : "VFu";
  // vpdpbusd wants unsigned A: a + 128, undone by `fix`
  const bool biased = info.unit == MmaUnit::kDotInt8;
  auto c = [](int r, int v) { return "c" + num(r) + "_" + num(v); };
  auto c_at = [&](int r, int v) { return "c + " + num(r) + " * ldc + " + num(v * lanes); };
  std::string s = "static __attribute__((noinline)) void mm_" + std::string(info.name) + "_r" +
                  num(rows) + "p" + num(panels) + "(const char* a, i64 pa, const i32* b, i64 pb, " +
                  elem + "* c, i64 ldc, i64 kw, int first, i64 ahead) {\n  (void)pb;\n";
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < vecs; ++v)
      s += "  " + acc_t + " " + c(r, v) + " = first ? (" + acc_t + "){} : *(const " + load + "*)(" +
           c_at(r, v) + ");\n";
  if (biased)
    for (int v = 0; v < vecs; ++v) s += "  VI fix" + num(v) + " = {};\n";
  s += "  _Pragma(\"GCC unroll 2\") for (i64 k = 0; k < kw; k++) {\n";
  for (int v = 0; v < vecs; ++v)
    s += "    const VI b" + num(v) + " = *(const VIu*)(b + " + num(v / per_panel) + " * pb + " +
         num(v % per_panel * lanes) + ");\n";
  for (int p = 0; p < panels; ++p)
    for (int line = 0; line < 2; ++line)
      s += "    __builtin_prefetch((const char*)(b + " + num(p) + " * pb) + ahead + " +
           num(64 * line) + ", 0, 3);\n";
  if (info.unit == MmaUnit::kFmaBf16)
    for (int v = 0; v < vecs; ++v)
      s += "    const VF e" + num(v) + " = (VF)(b" + num(v) + " << 16), o" + num(v) + " = (VF)(b" +
           num(v) + " & (i32)0xffff0000);\n";
  if (info.unit == MmaUnit::kMulInt8)
    for (int v = 0; v < vecs; ++v)
      for (int g = 0; g < 4; ++g)
        s += "    const VI q" + num(v) + num(g) + " = (b" + num(v) + " << " + num(24 - 8 * g) +
             ") >> 24;\n";
  if (biased)
    for (int v = 0; v < vecs; ++v)
      s += "    fix" + num(v) + " = dot8(fix" + num(v) + ", vi((i32)0x80808080), b" + num(v) +
           ");\n";
  for (int r = 0; r < rows; ++r) {
    const std::string word = "*(const i32u*)(a + " + num(r) + " * pa)";
    s += "    {\n";
    switch (info.unit) {
      case MmaUnit::kFmaF32:
        s += "      const VF x = (VF)vi(" + word + ");\n";
        for (int v = 0; v < vecs; ++v) s += "      " + c(r, v) + " += x * (VF)b" + num(v) + ";\n";
        break;
      case MmaUnit::kDotBf16:
        s += "      const VI x = vi(" + word + ");\n";
        for (int v = 0; v < vecs; ++v)
          s += "      " + c(r, v) + " = dot2(" + c(r, v) + ", x, b" + num(v) + ");\n";
        break;
      case MmaUnit::kDotInt8:
        s += "      const VI x = vi(" + word + " ^ (i32)0x80808080);\n";
        for (int v = 0; v < vecs; ++v)
          s += "      " + c(r, v) + " = dot8(" + c(r, v) + ", x, b" + num(v) + ");\n";
        break;
      case MmaUnit::kFmaBf16:
        s += "      const VI w = vi(" + word +
             ");\n      const VF x = (VF)(w << 16), y = (VF)(w & (i32)0xffff0000);\n";
        for (int v = 0; v < vecs; ++v) {
          s += "      " + c(r, v) + " += x * e" + num(v) + ";\n";
          s += "      " + c(r, v) + " += y * o" + num(v) + ";\n";
        }
        break;
      default:  // kMulInt8
        s += "      const i32 w = " + word + ";\n";
        for (int v = 0; v < vecs; ++v)
          for (int g = 0; g < 4; ++g)
            s += "      " + c(r, v) + " += vi((w << " + num(24 - 8 * g) + ") >> 24) * q" + num(v) +
                 num(g) + ";\n";
    }
    s += "    }\n";
  }
  s += "    a += 4; b += 32;\n  }\n";
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < vecs; ++v)
      s += "  *(" + load + "*)(" + c_at(r, v) + ") = " + c(r, v) +
           (biased ? " - fix" + num(v) : "") + ";\n";
  return s + "}\n";
}

std::string lanes_text(const MmaUnitInfo& info, const TargetInfo& target, int prefetch_bytes) {
  const int lanes = target.lanes_f32();
  std::vector<int> heights =
      lanes == 16 ? std::vector<int>{12, 8, 6, 4, 2, 1} : std::vector<int>{3, 2, 1};
  if (info.unit == MmaUnit::kMulInt8) heights = {2, 1};
  const std::string fn = "mm_" + std::string(info.name);
  std::string s;
  if (info.unit == MmaUnit::kDotBf16)
    s += "#if defined(__clang__) || __GNUC__ < 13\n"
         "typedef short DH __attribute__((vector_size(64)));\n"
         "#else\n"
         "typedef __bf16 DH __attribute__((vector_size(64)));\n"
         "#endif\n"
         "#if defined(__clang__)\n"
         "AI VF dot2(VF c, VI x, VI b) { asm(\"vdpbf16ps %2,%1,%0\" : \"+v\"(c) : \"v\"(x), "
         "\"v\"(b)); return c; }\n"
         "#else  // with asm, g++ 12 spills accumulators around it; with the builtin it does not\n"
         "AI VF dot2(VF c, VI x, VI b) { return __builtin_ia32_dpbf16ps_v16sf(c, (DH)x, (DH)b); "
         "}\n#endif\n";
  if (info.unit == MmaUnit::kDotInt8)
    s +=
        "#if defined(__clang__)\n"
        "AI VI dot8(VI c, VI x, VI b) { asm(\"vpdpbusd %2,%1,%0\" : \"+v\"(c) : \"v\"(x), "
        "\"v\"(b)); return c; }\n#else\n"
        "AI VI dot8(VI c, VI x, VI b) { return __builtin_ia32_vpdpbusd_v16si(c, x, b); }\n#endif\n";
  for (int rows : heights) s += lanes_kernel(info, lanes, rows, 1);
  // few rows leave registers free: several panels side by side, several streams
  const bool wide = lanes == 16;
  if (wide)
    for (auto [rows, panels] : {std::pair{1, 4}, {2, 4}, {4, 2}})
      s += lanes_kernel(info, lanes, rows, panels);
  auto call = [&](int rows, int panels, const std::string& args) {
    return fn + "_r" + num(rows) + "p" + num(panels) + "(" + args + ");\n";
  };
  const std::string elem = info.int_acc ? "i32" : "float", pf = num(prefetch_bytes);
  s += "static void " + fn + "(const char* a, i64 pa, const i32* b, i64 pb, " + elem +
       "* c, i64 ldc, i64 m, i64 n, i64 kw, int first) {\n"
       "  const i64 panels = (n + 31) / 32;\n  i64 p = 0;\n";
  if (wide) {
    const std::string stream = "a, pa, b + p * pb, pb, c + p * 32, ldc, kw, first, " + pf;
    s += "  if (m <= 4 && m != 3) {\n    const i64 side = m <= 2 ? 4 : 2;\n"
         "    for (; p + side <= panels; p += side) {\n"
         "      if (m == 1) " +
         call(1, 4, stream) + "      else if (m == 2) " + call(2, 4, stream) + "      else " +
         call(4, 2, stream) + "    }\n  }\n";
  }
  // A piece of the panel stays in L1 for all row tiles; the first of them fetches the next piece.
  s += "  for (; p < panels; p++)\n"
       "    for (i64 k0 = 0; k0 == 0 || k0 < kw; k0 += 256) {\n"
       "      const i64 kc = imin(256, kw - k0);\n"
       "      const i32* bp = b + p * pb + k0 * 32;\n"
       "      const char* ap = a + k0 * 4;\n      " +
       elem +
       "* cp = c + p * 32;\n"
       "      const int from_zero = first && k0 == 0;\n"
       "      i64 i = 0, ahead = m <= " +
       num(heights[0]) + " ? " + pf +
       " : 256 * 128;\n"
       "      while (i < m) {\n        const i64 left = m - i;\n";
  const std::string args = "ap + i * pa, pa, bp, pb, cp + i * ldc, ldc, kc, from_zero, ahead";
  for (size_t h = 0; h < heights.size(); ++h) {
    // 13 to 16 rows are two tiles of about 8, not 12 and a thin one.
    const std::string unless = h == 0 && heights[0] == 12 ? " && (left < 13 || left > 16)" : "";
    s += std::string("        ") + (h ? "else " : "") + "if (left >= " + num(heights[h]) + unless +
         ") { " + call(heights[h], 1, args);
    s.pop_back();
    s += " i += " + num(heights[h]) + "; }\n";
  }
  return s + "        ahead = 0;\n      }\n    }\n}\n";
}

}  // namespace

const MmaUnitInfo& unit_info(MmaUnit unit) { return kUnits[static_cast<size_t>(unit)]; }

bool choose_unit(DType dtype, MmaMechanism wish, const TargetInfo& target, MmaUnit* unit) {
  const bool avx512 = target.isa == "avx512";
  if (dtype == DType::kBf16) {
    if (avx512 && target.amx_bf16 && wish != MmaMechanism::kLanes)
      *unit = MmaUnit::kAmxBf16;
    else if (wish == MmaMechanism::kAmx)
      return false;
    else
      *unit = avx512 && target.avx512_bf16 ? MmaUnit::kDotBf16 : MmaUnit::kFmaBf16;
    return true;
  }
  if (dtype == DType::kI8) {
    if (avx512 && target.amx_int8 && wish != MmaMechanism::kLanes)
      *unit = MmaUnit::kAmxInt8;
    else if (wish == MmaMechanism::kAmx)
      return false;
    else
      *unit = avx512 && target.avx512_vnni ? MmaUnit::kDotInt8 : MmaUnit::kMulInt8;
    return true;
  }
  if (wish == MmaMechanism::kAmx || (dtype != DType::kF32 && dtype != DType::kF16)) return false;
  *unit = MmaUnit::kFmaF32;
  return true;
}

std::string amx_setup_text() {
  return R"(
// Eight tiles of 16 rows x 64 bytes. The kernel grants AMX state to a process once (arch_prctl 0x1023, feature 18).
struct alignas(64) TileConfig { u8 palette, start, zero[14]; u16 bytes[16]; u8 rows[16]; };
static bool amx_permission() {
  long r;
  asm volatile("syscall" : "=a"(r) : "0"(158l), "D"(0x1023l), "S"(18l) : "rcx", "r11", "memory");
  return r == 0;
}
AI void amx_enter() {
  static const bool granted = amx_permission();
  (void)granted;
  TileConfig c = {};
  c.palette = 1;
  for (int i = 0; i < 8; i++) { c.bytes[i] = 64; c.rows[i] = 16; }
  asm volatile("ldtilecfg %0" :: "m"(c));
}
AI void amx_leave() { asm volatile("tilerelease" ::); }
)";
}

std::string packing_text() { return kPacking; }

std::string mma_text(MmaUnit unit, const TargetInfo& target, int prefetch_bytes) {
  const MmaUnitInfo& info = unit_info(unit);
  return info.amx ? amx_text(info, prefetch_bytes) : lanes_text(info, target, prefetch_bytes);
}

}  // namespace rooftile::codegen
