// SPDX-License-Identifier: Apache-2.0
// Products whose right operand is multiplied as it lies in memory, with AMX, bf16. Nothing is
// packed: that pays where the operand is read once, as a KV cache is.
//
// [N, K] rows (a transposed operand) are *left* tiles of C^T = B A^T; the few rows of A are packed.
// [K, N] rows are right tiles although their words hold two neighbouring columns, not two
// neighbours along K: A is spread to one element a word, once in the low half, once in the high
// half, which yields the even columns and the odd ones. That doubles the multiplications, of which
// a product of at most eight rows has plenty to spare.
//
// Rows that are not evenly spaced, or fewer than a tile, are staged in a tile of zeros. Nothing
// outside the operand is touched.
#include "rooftile/codegen/cpu/mma_text.h"

namespace rooftile::codegen {

std::string mma_direct_text() {
  return R"text(
// The rows that come next, asked for a few at a time while this block is multiplied. Members of a
// gang share the work: what lies side by side in memory is asked for in that order.
template <class Row> struct Ahead {
  Row row;           // address of a row of the next block, first member
  i64 at, end;       // next row, their number
  i64 who, members;  // next member
  i64 apart, bytes;  // from one member to the next; of a row
  i64 left;          // rows of this member's share
  const char* base;  // of row `at`, once known
  __attribute__((always_inline)) void ask(i64 n) {
    for (; n > 0 && left > 0 && at < end; left--, n--) {
      if (!base) base = row(at);
      prefetch_row(base + who * apart, bytes);
      if (++who == members) who = 0, at++, base = 0;
    }
  }
};
template <class Row> AI Ahead<Row> ahead_of(Row row, i64 end, i64 who, i64 members, i64 apart, i64 bytes, i64 rows) {
  const i64 first = who * rows;
  return {row, first / members, end, first % members, members, apart, bytes, rows, 0};
}
struct NothingAhead { void ask(i64) {} };
// Sixteen indices that differ by one step.
AI bool in_equal_steps(const i32* p) {
  const VI off = *(const VIu*)p - (vi(p[0]) + lanes() * vi(p[1] - p[0]));
  i32 any;
  asm("vptestmd %1,%1,%%k1\n\tkmovw %%k1,%0" : "=r"(any) : "v"(off) : "k1");
  return any == 0;
}
// Rows that are gathered: `even` sees at once that the sixteen from a row on are evenly spaced.
template <class Row, class Even> struct GatheredRows {
  Row row;
  Even even;
  __attribute__((always_inline)) const char* operator()(i64 r) const { return row(r); }
};
template <class Row, class Even> AI GatheredRows<Row, Even> gathered_rows(Row row, Even even) { return {row, even}; }
template <class Row> AI bool seen_even(const Row&, i64) { return false; }
template <class Row, class Even> AI bool seen_even(const GatheredRows<Row, Even>& rows, i64 c) { return rows.even(c); }
// Sixteen rows from `c` on as one tile: their address and distance, or 0 if they must be staged.
template <class Row> AI const char* tile_rows(const Row& row, i64 c, i64 n, i64 stride, i64* step) {
  if (c + 16 > n) return 0;
  const char* const p = row(c);
  *step = stride;
  if (stride) return p;
  *step = row(c + 1) - p;
  if (seen_even(row, c)) return p;
  for (i64 i = 2; i < 16; i++) if (row(c + i) - p != i * *step) return 0;
  return p;
}
// Bytes [at, at + 64) of up to 16 rows, zeros where there are none.
template <class Row> static void stage_tile(char* tile, const Row& row, i64 c, i64 n, i64 at, i64 bytes) {
  __builtin_memset(tile, 0, 1024);
  for (i64 i = 0; i < 16 && c + i < n; i++)
    __builtin_memcpy(tile + 64 * i, row(c + i) + at, (unsigned long)imin(64, bytes - at));
}
#define TILE_ZERO(T) asm volatile("tilezero %%tmm" #T ::)
#define TILE_LOAD(T, P, S) asm volatile("tileloadd (%0,%1,1), %%tmm" #T :: "r"(P), "r"((i64)(S)) : "memory")
#define TILE_STORE(T, P) asm volatile("tilestored %%tmm" #T ", (%0,%1,1)" :: "r"(P), "r"(64l) : "memory")
#define TILE_MUL(C, A, B) asm volatile("tdpbf16ps %%tmm" #B ", %%tmm" #A ", %%tmm" #C ::)
// Columns [0, m) of a 16 x 16 tile into m rows of C, `ldc` apart.
AI void store_transposed(float* c, i64 ldc, const float* tile, i64 m) {
  if (m <= 4) {  // lane group l of vector i holds row 4 l + i
    VF v[4];
    for (int i = 0; i < 4; i++) for (int l = 0; l < 4; l++) __builtin_memcpy((char*)&v[i] + 16 * l, tile + 16 * (4 * l + i), 16);
    const VF a = SHUF(v[0], v[1], 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
    const VF b = SHUF(v[0], v[1], 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
    const VF d = SHUF(v[2], v[3], 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
    const VF e = SHUF(v[2], v[3], 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
    const VF out[4] = {SHUF(a, d, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29),
                       SHUF(a, d, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31),
                       SHUF(b, e, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29),
                       SHUF(b, e, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31)};
    for (i64 i = 0; i < m; i++) *(VFu*)(c + i * ldc) = out[i];
    return;
  }
  VI v[16];
  for (int i = 0; i < 16; i++) v[i] = *(const VIu*)(tile + 16 * i);
  transpose16(v);
  for (i64 i = 0; i < m; i++) *(VIu*)(c + i * ldc) = v[i];
}
// C [m, n] = A [m, K] B^T; A packed into panels, B the rows `row(0 .. n - 1)` of `bytes` bytes.
template <class Row, class Next> AI void mm_amx_bf16_rows_t(const i32* a, i64 pa, const Row& row, i64 stride, i64 bytes, float* c, i64 ldc, i64 m, i64 n, Next next) {
  alignas(64) float tile[256];
  alignas(64) char staged[1024];
  const i64 steps = (bytes + 63) / 64, share = (16 + steps - 1) / steps;
  for (i64 m0 = 0; m0 < m; m0 += 16) {
    const i32* const panel = a + m0 / 32 * pa + m0 % 32;
    for (i64 r = 0; r < n; r += 16) {
      i64 step = 0;
      const char* const p = bytes % 64 ? 0 : tile_rows(row, r, n, stride, &step);
      TILE_ZERO(0);
      // Neighbouring steps use different tiles: a load need not wait for the multiplication before.
#define STEP(B, A) { \
        TILE_LOAD(A, panel + k * 512, 128); \
        if (p) { TILE_LOAD(B, p + 64 * k, step); } \
        else { stage_tile(staged, row, r, n, 64 * k, bytes); TILE_LOAD(B, staged, 64); } \
        TILE_MUL(0, B, A); next.ask(share); k++; }
      for (i64 k = 0; k < steps;) {
        STEP(4, 6)
        if (k < steps) STEP(5, 7)
      }
#undef STEP
      TILE_STORE(0, tile);
      store_transposed(c + m0 * ldc + r, ldc, tile, imin(16, m - m0));
    }
  }
}
// C [m, n] (+)= A [m, K] B; A rows of bf16 padded to 64 bytes, `pa` bytes apart, B the rows
// `row(0 .. kn - 1)` of `bytes` bytes.
template <class Row, class Next> AI void mm_amx_bf16_rows_n(const char* a, i64 pa, const Row& row, i64 stride, i64 bytes, float* c, i64 ldc, i64 m, i64 kn, int first, Next next) {
  alignas(64) u32 spread[16][256];  // [even columns 8, odd columns 8][K]; rows beyond m: not set, not used
  alignas(64) float tile[4][16][16];
  alignas(64) char staged[1024];
  for (i64 m0 = 0; m0 < m; m0 += 8) {
    const i64 rows = imin(8, m - m0);
    for (i64 k0 = 0; k0 < kn; k0 += 256) {
      const i64 kc = imin(256, kn - k0);
      for (i64 i = 0; i < rows; i++)
        for (i64 k = 0; k < kc; k += 16) {
          const VU x = widen_u16((const u16*)(a + (m0 + i) * pa) + k0 + k);
          *(VU*)&spread[i][k] = x;
          *(VU*)&spread[8 + i][k] = x << 16;
        }
      for (i64 at = 0; at < bytes; at += 256) {  // four tiles: 128 columns
        const i64 tiles = imin(4, (bytes - at + 63) / 64), share = (16 + tiles - 1) / tiles;
        TILE_ZERO(0); TILE_ZERO(1); TILE_ZERO(2); TILE_ZERO(3);
        for (i64 k = 0; k < kc; k += 16) {
          i64 step = 0;
          const char* const p = bytes % 64 ? 0 : tile_rows(row, k0 + k, kn, stride, &step);
          TILE_LOAD(4, &spread[0][k], 1024);
#define COLUMNS(T, B) if (T < tiles) { \
            if (p) { TILE_LOAD(B, p + at + 64 * T, step); } \
            else { stage_tile(staged, row, k0 + k, kn, at + 64 * T, bytes); TILE_LOAD(B, staged, 64); } \
            TILE_MUL(T, 4, B); next.ask(share); }
          COLUMNS(0, 5) COLUMNS(1, 6) COLUMNS(2, 7) COLUMNS(3, 5)
#undef COLUMNS
        }
        TILE_STORE(0, tile[0]); TILE_STORE(1, tile[1]); TILE_STORE(2, tile[2]); TILE_STORE(3, tile[3]);
        for (i64 i = 0; i < rows; i++)
          for (i64 t = 0; t < tiles; t++) {
            const VF x = *(const VF*)tile[t][i], y = *(const VF*)tile[t][8 + i];
            float* const out = c + (m0 + i) * ldc + at / 2 + 32 * t;
            VF lo = SHUF(x, y, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23), hi = SHUF(x, y, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
            if (!first || k0) lo += *(const VFu*)out, hi += *(const VFu*)(out + 16);
            *(VFu*)out = lo;
            *(VFu*)(out + 16) = hi;
          }
      }
    }
  }
}
)text";
}

}  // namespace rooftile::codegen
