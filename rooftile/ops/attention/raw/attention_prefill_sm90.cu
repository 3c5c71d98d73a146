// SPDX-License-Identifier: Apache-2.0
// Exact attention of one sequence, bf16 with sums in f32: O = softmax(scale Q K^T) V.
//
// Persistent. One thread chooses tiles (64 RT_GROUPS query rows of a head), publishes them and
// starts every copy; each group of 128 threads owns 64 rows. The product with V runs beside the
// exponentials of the next block. Scores are in units of log2.
//
// The reference that exponents are taken against is speculative. Softmax does not depend on it; the
// running maximum only guards against overflow, and f32 and bf16 both reach 2^127. So a block
// without a mask is exponentiated against an earlier maximum of the row, and its sums, which are
// needed anyway, show whether a score has grown past the reference by GROWTH: then the true maxima
// are taken and the block is done again from the scores, which are still there. The first block and
// every masked one take their maxima, so a row's reference is a score it has met and nothing
// underflows. Exact for |V| below 2^(96 - log2 Tk).
//
// Numbers: RT_D 64 or 128, RT_CAUSAL, RT_HAS_LSE, and of the schedule RT_GROUPS, RT_BN keys a
// block, RT_STAGES of the rings of K and V, RT_CARRY (the next tile's first product is issued with
// this tile's last), RT_ORDER (groups take turns issuing products), RT_COUNTER (tiles are handed
// out by a counter, else by stride), RT_REGS_FEED, RT_REGS_MMA.

constexpr int D = RT_D, NG = RT_GROUPS, BM = 64 * NG, BN = RT_BN, STAGES = RT_STAGES;
constexpr int QB = RT_CARRY ? 2 : 1;  // buffers of Q
constexpr u32 Q_BYTES = BM * D * 2, KV_BYTES = BN * D * 2;
constexpr u32 Q_AT = 0, K_AT = Q_AT + QB * Q_BYTES, V_AT = K_AT + STAGES * KV_BYTES;
constexpr u32 TILE_AT = V_AT + STAGES * KV_BYTES;
// Full and empty barriers of Q, K, V and of the published tile.
constexpr u32 QF = TILE_AT + 32, QE = QF + 8 * QB, KF = QE + 8 * QB, KE = KF + 8 * STAGES;
constexpr u32 VF = KE + 8 * STAGES, VE = VF + 8 * STAGES, TF = VE + 8 * STAGES, TE = TF + 16;
constexpr int ARRIVALS = 4 * NG;  // one a warp of the computing groups
constexpr float GROWTH = 0x1p32f;

struct Problem {
  u16* o;
  float* lse;
  u32* counter;  // two words, zero between launches
  i64 o_row, o_head, lse_head;
  int heads, group, rows, keys;  // group: query heads that share a KV head
  int section;                   // heads walked together, so that their K and V stay in L2
  float scale_log2;

  // Query tiles of a head, and how many of them, the first ones, see no key. Computed anew where
  // they are wanted: the thread that copies has few registers.
  __device__ __forceinline__ int tiles_m() const { return (rows + BM - 1) / BM; }
  __device__ __forceinline__ int dead_m() const {
    return RT_CAUSAL && rows > keys ? (rows - keys) / BM : 0;
  }
};

struct Tile {
  int m, head;       // m < 0: there are no more
  int blocks, full;  // blocks of keys; the first ones, which need no mask
};

// ---- one block of scores ------------------------------------------------------------------------
// A thread holds rows r and r + 8, columns 8 t + {0, 1} of its quarter.

// 128-byte swizzle, groups of 8 rows 1024 bytes apart.
RT_DEVICE u64 descriptor(u32 address, u32 leading_bytes) {
  return (u64)((address & 0x3FFFF) >> 4) | ((u64)(leading_bytes >> 4) << 16) |
         ((u64)(1024 >> 4) << 32) | ((u64)1 << 62);
}

// S = Q K^T for 64 rows and one block of keys.
RT_DEVICE void issue_qk(float (&s)[BN / 2], u64 q, u64 k) {
  Wgmma<BN>::first(s, q, k);
#pragma unroll
  for (int i = 1; i < D / 16; ++i)
    Wgmma<BN>::add(s, q + (i / 4) * (BM * 128 >> 4) + (i % 4) * 2,
                   k + (i / 4) * (BN * 128 >> 4) + (i % 4) * 2);
  wgmma_commit();
}

// O += P V: the accumulator fragment of S is the left operand's fragment of P.
RT_DEVICE void issue_pv(float (&o)[D / 2], const u32 (&p)[BN / 4], u64 v) {
#pragma unroll
  for (int i = 0; i < BN / 16; ++i) Wgmma<D>::add_regs(o, p + 4 * i, v + i * (2048 >> 4));
  wgmma_commit();
}

// Columns at or past the row's limit become -inf.
RT_DEVICE void apply_mask(float (&s)[BN / 2], int limit0, int limit1) {
#pragma unroll
  for (int t = 0; t < BN / 8; ++t) {
    s[4 * t + 0] = 8 * t + 0 < limit0 ? s[4 * t + 0] : RT_NEG_INF;
    s[4 * t + 1] = 8 * t + 1 < limit0 ? s[4 * t + 1] : RT_NEG_INF;
    s[4 * t + 2] = 8 * t + 0 < limit1 ? s[4 * t + 2] : RT_NEG_INF;
    s[4 * t + 3] = 8 * t + 1 < limit1 ? s[4 * t + 3] : RT_NEG_INF;
  }
}

RT_DEVICE float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(RT_EVERY_LANE, x, 1));
  return fmaxf(x, __shfl_xor_sync(RT_EVERY_LANE, x, 2));
}

RT_DEVICE void row_max(const float (&s)[BN / 2], float c, float& x0, float& x1) {
  float a0 = s[0], b0 = s[1], a1 = s[2], b1 = s[3];
#pragma unroll
  for (int t = 1; t < BN / 8; ++t) {
    a0 = fmaxf(a0, s[4 * t + 0]), b0 = fmaxf(b0, s[4 * t + 1]);
    a1 = fmaxf(a1, s[4 * t + 2]), b1 = fmaxf(b1, s[4 * t + 3]);
  }
  x0 = quad_max(fmaxf(a0, b0)) * c, x1 = quad_max(fmaxf(a1, b1)) * c;
}

// What exponents are taken against, so that -inf - -inf never occurs.
RT_DEVICE float finite(float m) { return m == RT_NEG_INF ? 0.f : m; }

// s <- 2^(s c - r), and this thread's share of the row sums.
RT_DEVICE void exp_rows(float (&s)[BN / 2], float c, float r0, float r1, float& l0, float& l1) {
  float a0 = 0.f, b0 = 0.f, a1 = 0.f, b1 = 0.f;
#pragma unroll
  for (int t = 0; t < BN / 8; ++t) {
    s[4 * t + 0] = exp2_fast(fmaf(s[4 * t + 0], c, -r0));
    s[4 * t + 1] = exp2_fast(fmaf(s[4 * t + 1], c, -r0));
    s[4 * t + 2] = exp2_fast(fmaf(s[4 * t + 2], c, -r1));
    s[4 * t + 3] = exp2_fast(fmaf(s[4 * t + 3], c, -r1));
    a0 += s[4 * t], b0 += s[4 * t + 1], a1 += s[4 * t + 2], b1 += s[4 * t + 3];
  }
  l0 = a0 + b0, l1 = a1 + b1;
}

RT_DEVICE void to_bf16(u32 (&p)[BN / 4], const float (&s)[BN / 2]) {
#pragma unroll
  for (int i = 0; i < BN / 4; ++i) p[i] = pack_bf16(s[2 * i], s[2 * i + 1]);
}

// Both at once, with s left as it is.
RT_DEVICE void exp_pack(const float (&s)[BN / 2], u32 (&p)[BN / 4], float c, float r0, float r1,
                        float& l0, float& l1) {
  float a0 = 0.f, b0 = 0.f, a1 = 0.f, b1 = 0.f;
#pragma unroll
  for (int t = 0; t < BN / 8; ++t) {
    const float e0 = exp2_fast(fmaf(s[4 * t + 0], c, -r0));
    const float e1 = exp2_fast(fmaf(s[4 * t + 1], c, -r0));
    const float e2 = exp2_fast(fmaf(s[4 * t + 2], c, -r1));
    const float e3 = exp2_fast(fmaf(s[4 * t + 3], c, -r1));
    p[2 * t] = pack_bf16(e0, e1), p[2 * t + 1] = pack_bf16(e2, e3);
    a0 += e0, b0 += e1, a1 += e2, b1 += e3;
  }
  l0 = a0 + b0, l1 = a1 + b1;
}

RT_DEVICE void scale_rows(float (&o)[D / 2], float a0, float a1) {
#pragma unroll
  for (int t = 0; t < D / 8; ++t) {
    o[4 * t] *= a0, o[4 * t + 1] *= a0;
    o[4 * t + 2] *= a1, o[4 * t + 3] *= a1;
  }
}

// ---- results ------------------------------------------------------------------------------------

// 4 x 4 transpose of words in each quad of lanes, so that a lane owns 16 bytes in a row.
RT_DEVICE void quad_transpose(u32 (&x)[4], int q) {
  u32 sent, got;
  sent = q & 1 ? x[0] : x[1], got = __shfl_xor_sync(RT_EVERY_LANE, sent, 1);
  if (q & 1)
    x[0] = got;
  else
    x[1] = got;
  sent = q & 1 ? x[2] : x[3], got = __shfl_xor_sync(RT_EVERY_LANE, sent, 1);
  if (q & 1)
    x[2] = got;
  else
    x[3] = got;
  sent = q & 2 ? x[0] : x[2], got = __shfl_xor_sync(RT_EVERY_LANE, sent, 2);
  if (q & 2)
    x[0] = got;
  else
    x[2] = got;
  sent = q & 2 ? x[1] : x[3], got = __shfl_xor_sync(RT_EVERY_LANE, sent, 2);
  if (q & 2)
    x[1] = got;
  else
    x[3] = got;
}

// Divides by the sums l and stores rows `row` and `row + 8`; m is the reference. l = 0: no key was
// seen. A NaN sum gives NaN.
RT_DEVICE void store_tile(const Problem& a, int row, int head, int q, const float (&o)[D / 2],
                          float l0, float l1, float m0, float m1) {
  l0 += __shfl_xor_sync(RT_EVERY_LANE, l0, 1), l1 += __shfl_xor_sync(RT_EVERY_LANE, l1, 1);
  l0 += __shfl_xor_sync(RT_EVERY_LANE, l0, 2), l1 += __shfl_xor_sync(RT_EVERY_LANE, l1, 2);
  const float i0 = l0 == 0.f ? 0.f : reciprocal_fast(l0);
  const float i1 = l1 == 0.f ? 0.f : reciprocal_fast(l1);
#if RT_HAS_LSE
  if (q == 0) {
    constexpr float ln2 = 0.69314718056f;
    float* lse = a.lse + head * a.lse_head + row;
    if (row < a.rows) lse[0] = l0 == 0.f ? RT_NEG_INF : (m0 + log2_fast(l0)) * ln2;
    if (row + 8 < a.rows) lse[8] = l1 == 0.f ? RT_NEG_INF : (m1 + log2_fast(l1)) * ln2;
  }
#endif
  u16* dst = a.o + head * a.o_head + row * a.o_row + q * 8;
#pragma unroll
  for (int k = 0; k < D / 32; ++k) {
    u32 x[4], y[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      x[e] = pack_bf16(o[16 * k + 4 * e] * i0, o[16 * k + 4 * e + 1] * i0);
      y[e] = pack_bf16(o[16 * k + 4 * e + 2] * i1, o[16 * k + 4 * e + 3] * i1);
    }
    quad_transpose(x, q), quad_transpose(y, q);
    if (row < a.rows) store_global4(dst + 32 * k, x[0], x[1], x[2], x[3]);
    if (row + 8 < a.rows) store_global4(dst + 32 * k + 8 * a.o_row, y[0], y[1], y[2], y[3]);
  }
}

// Rows of whole tiles that see no key, one a warp and turn.
RT_DEVICE void store_dead(const Problem& a, int first, int step, int lane) {
  const i64 rows = (i64)a.dead_m() * BM;
#pragma unroll 1
  for (i64 i = first; i < rows * a.heads; i += step) {
    const i64 head = i / rows, row = i - head * rows;
#if RT_HAS_LSE
    if (lane == 0) a.lse[head * a.lse_head + row] = RT_NEG_INF;
#endif
    if (lane < D / 8) store_global4(a.o + head * a.o_head + row * a.o_row + lane * 8, 0, 0, 0, 0);
  }
}

// ---- tiles --------------------------------------------------------------------------------------

RT_DEVICE Problem problem_of(u16* o, float* lse, u32* counter, i64 o_row, i64 o_head, i64 lse_head,
                             int rows, int keys, int heads, int kv_heads, float scale) {
  Problem a;
  a.o = o, a.lse = lse, a.counter = counter;
  a.o_row = o_row, a.o_head = o_head, a.lse_head = lse_head;
  a.heads = heads, a.group = heads / kv_heads, a.rows = rows, a.keys = keys;
  // K and V of a section stay in half of L2 (25 MB of it are local to a multiprocessor's side).
  const i64 fit = (32 << 20) / ((i64)keys * D * 4);
  i64 section = 1;
  while (section * 2 <= fit) section *= 2;
  section *= a.group;
  a.section = section < heads ? (int)section : heads;
  a.scale_log2 = scale * 1.4426950408889634f;
  return a;
}

RT_DEVICE Tile tile_at(const Problem& a, int t) {
  Tile tile = {-1, 0, 0, 0};
  const int tiles_m = a.tiles_m(), live_m = tiles_m - a.dead_m();
  if (t >= live_m * a.heads) return tile;
#if RT_CAUSAL
  // The tiles with the most keys of a section first.
  const int each = a.section * live_m, s = t / each, r = t - s * each;
  const int width = min(a.section, a.heads - s * a.section);
  tile.m = r / width;
  tile.head = s * a.section + r - tile.m * width;
  tile.m = tiles_m - 1 - tile.m;
  // Keys that the first and the last row see.
  const int low = min(a.keys, tile.m * BM + a.keys - a.rows + 1);
  const int high = min(a.keys, (tile.m + 1) * BM + a.keys - a.rows);
  tile.blocks = (high + BN - 1) / BN;
  tile.full = low > 0 ? (low - 1) / BN : 0;  // every row meets a key in a masked block
#else
  tile.head = t / tiles_m;
  tile.m = t - tile.head * tiles_m;
  tile.blocks = (a.keys + BN - 1) / BN;
  tile.full = a.keys / BN;
#endif
  return tile;
}

RT_DEVICE void store_words(u32 at, const Tile& t) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(t.m), "r"(t.head),
               "r"(t.blocks), "r"(t.full)
               : "memory");
}

RT_DEVICE Tile load_words(u32 at) {
  Tile t;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(t.m), "=r"(t.head), "=r"(t.blocks), "=r"(t.full)
               : "r"(at)
               : "memory");
  return t;
}

// ---- the thread that copies ---------------------------------------------------------------------

struct Slot {
  int at;
  u32 parity;
  template <int COUNT>
  __device__ __forceinline__ void next() {
    if (++at == COUNT) at = 0, parity ^= 1;
  }
};

// `rows` rows of one head, whole, as atoms of 64 columns.
RT_DEVICE void load_rows(u32 dst, const TensorMap& map, u32 bar, int rows, int head, int row,
                         u64 policy) {
#pragma unroll
  for (int atom = 0; atom < D / 64; ++atom)
    tma_load(dst + atom * rows * 128, map, bar, atom * 64, head, row, policy);
}

RT_DEVICE void feed(const Problem& a, u32 smem, const TensorMap& map_q, const TensorMap& map_k,
                    const TensorMap& map_v) {
  Slot k = {0, 1}, v = {0, 1}, q = {0, 1};
  int published = 0, t = blockIdx.x;
  Tile tile;
  auto publish = [&]() {
    tile = tile_at(a, t);
    barrier_wait(smem + TE + 8 * (published & 1), ((published >> 1) & 1) ^ 1);
    store_words(smem + TILE_AT + 16 * (published & 1), tile);
    barrier_arrive(smem + TF + 8 * (published & 1));
    ++published;
  };
  auto advance = [&]() {
#if RT_COUNTER
    t = atomicAdd(a.counter, 1u) + gridDim.x;
#else
    t += gridDim.x;
#endif
    publish();
  };
  publish();
  while (tile.m >= 0) {
    const int n = tile.blocks, kv_head = tile.head / a.group;
    barrier_wait(smem + QE + 8 * q.at, q.parity);
    barrier_expect(smem + QF + 8 * q.at, Q_BYTES);
    load_rows(smem + Q_AT + q.at * Q_BYTES, map_q, smem + QF + 8 * q.at, BM, tile.head, tile.m * BM,
              RT_L2_EVICT_FIRST);
    q.next<QB>();
    auto load_k = [&](int j) {
      barrier_wait(smem + KE + 8 * k.at, k.parity);
      barrier_expect(smem + KF + 8 * k.at, KV_BYTES);
      load_rows(smem + K_AT + k.at * KV_BYTES, map_k, smem + KF + 8 * k.at, BN, kv_head, j * BN,
                RT_L2_EVICT_LAST);
      k.next<STAGES>();
    };
    auto load_v = [&](int j) {
      barrier_wait(smem + VE + 8 * v.at, v.parity);
      barrier_expect(smem + VF + 8 * v.at, KV_BYTES);
      load_rows(smem + V_AT + v.at * KV_BYTES, map_v, smem + VF + 8 * v.at, BN, kv_head, j * BN,
                RT_L2_EVICT_LAST);
      v.next<STAGES>();
    };
    load_k(n - 1);
    // The next tile is bound late, but before the groups ask for it.
    const int choose = min(n - 1, 3);
    if (choose == 0) advance();
#pragma unroll 1
    for (int j = n - 1; j > 0; --j) {
      load_k(j - 1);
      load_v(j);
      if (j == choose) advance();
    }
    load_v(0);
  }
#if RT_COUNTER
  // The last one out leaves the counters as they were found.
  if (atomicAdd(a.counter + 1, 1u) == gridDim.x - 1) a.counter[0] = 0, a.counter[1] = 0;
#endif
}

// ---- the groups that compute --------------------------------------------------------------------
// Macros, not functions: ptxas must see both products of a step in one block of straight code, and
// S, P and O in registers throughout.

#define RELEASE_K           \
  {                         \
    release(KE + 8 * k.at); \
    k.next<STAGES>();       \
  }

// The first block of a tile, with nothing to overlap it.
#define FIRST_BLOCK                                                       \
  {                                                                       \
    barrier_wait(smem + QF + 8 * q.at, q.parity);                         \
    barrier_wait(smem + KF + 8 * k.at, k.parity);                         \
    wgmma_fence();                                                        \
    issue_qk(s, q0 + q.at * (Q_BYTES >> 4), k0 + k.at * (KV_BYTES >> 4)); \
    wgmma_wait<0>();                                                      \
    pin(s);                                                               \
    RELEASE_K                                                             \
    first_softmax(m0, m1, l0, l1);                                        \
    to_bf16(p, s);                                                        \
    clear();                                                              \
    barrier_wait(smem + VF + 8 * v.at, v.parity);                         \
  }

// Issues both products of a step. Then S is complete and P V is in flight from slot v_done.
#define PRODUCTS(P)                                                     \
  barrier_wait(smem + KF + 8 * k.at, k.parity);                         \
  if (RT_ORDER) named_sync(me, 256);                                    \
  pin(P);                                                               \
  pin(o);                                                               \
  wgmma_fence();                                                        \
  issue_qk(s, q0 + q.at * (Q_BYTES >> 4), k0 + k.at * (KV_BYTES >> 4)); \
  issue_pv(o, P, v0 + v.at * (KV_BYTES >> 4));                          \
  if (RT_ORDER) named_arrive(next, 256);                                \
  const int v_done = v.at;                                              \
  v.next<STAGES>();                                                     \
  wgmma_wait<1>();                                                      \
  pin(s);                                                               \
  RELEASE_K

// The wait for the next slot of V comes first: it is a branch, and ptxas does not move the wait for
// the product over it, up above the exponentials.
#define PV_DONE                                 \
  barrier_wait(smem + VF + 8 * v.at, v.parity); \
  wgmma_wait<0>();                              \
  pin(o);                                       \
  release(VE + 8 * v_done);

// A block with a mask: the maxima are taken.
#define MASKED_STEP(J)                                                           \
  {                                                                              \
    PRODUCTS(p)                                                                  \
    mask(J);                                                                     \
    float x0, x1;                                                                \
    row_max(s, c, x0, x1);                                                       \
    const bool grew = __any_sync(RT_EVERY_LANE, x0 > m0 + 8.f || x1 > m1 + 8.f); \
    if (grew) rebase(x0, x1);                                                    \
    float a0, a1;                                                                \
    exp_rows(s, c, finite(m0), finite(m1), a0, a1);                              \
    l0 += a0, l1 += a1;                                                          \
    pin(s);                                                                      \
    PV_DONE                                                                      \
    if (grew) scale_rows(o, shrink0, shrink1);                                   \
    to_bf16(p, s);                                                               \
  }

// A block without one: against the reference there is, and again if it has been outgrown.
#define STEP(P, P_NEXT)                                                         \
  {                                                                             \
    PRODUCTS(P)                                                                 \
    float a0, a1;                                                               \
    exp_pack(s, P_NEXT, c, m0, m1, a0, a1);                                     \
    const bool grew = __any_sync(RT_EVERY_LANE, !(a0 < GROWTH && a1 < GROWTH)); \
    if (__builtin_expect(grew, 0)) {                                            \
      float x0, x1;                                                             \
      row_max(s, c, x0, x1);                                                    \
      rebase(x0, x1);                                                           \
      exp_pack(s, P_NEXT, c, finite(m0), finite(m1), a0, a1);                   \
    }                                                                           \
    l0 += a0, l1 += a1;                                                         \
    pin(P_NEXT);                                                                \
    PV_DONE                                                                     \
    if (__builtin_expect(grew, 0)) scale_rows(o, shrink0, shrink1);             \
  }

RT_DEVICE void attend(const Problem& a, u32 smem, int warp, int lane) {
  const int g = (warp >> 2) - 1, quad = lane & 3;
  const int row_in = g * 64 + (warp & 3) * 16 + (lane >> 2);
  const int me = 1 + g, next = 1 + (g + 1) % NG;
  const float c = a.scale_log2;
  const u64 q0 = descriptor(smem + Q_AT + g * 8192, 16), k0 = descriptor(smem + K_AT, 16);
  const u64 v0 = descriptor(smem + V_AT, BN * 128);
  Slot k = {0, 0}, v = {0, 0}, q = {0, 0};
  int taken = 0;
  Tile tile;
  float o[D / 2], s[BN / 2];
  u32 p[BN / 4];
  float m0, m1, l0, l1;    // reference, and this thread's part of the sums
  float shrink0, shrink1;  // what a change of reference does to them

  auto release = [&](u32 bar) {
    if (lane == 0) barrier_arrive(smem + bar);
  };
  auto next_tile = [&]() -> bool {
    barrier_wait(smem + TF + 8 * (taken & 1), (taken >> 1) & 1);
    tile = load_words(smem + TILE_AT + 16 * (taken & 1));
    __syncwarp();
    release(TE + 8 * (taken & 1));
    ++taken;
    return tile.m >= 0;
  };
  auto mask = [&](int j) {
    const int base = j * BN + 2 * quad, row = a.keys - a.rows + 1 + tile.m * BM + row_in;
    if (RT_CAUSAL)
      apply_mask(s, min(a.keys, row) - base, min(a.keys, row + 8) - base);
    else
      apply_mask(s, a.keys - base, a.keys - base);
  };
  auto first_softmax = [&](float& n0, float& n1, float& k_sum0, float& k_sum1) {
    if (RT_CAUSAL || tile.blocks * BN > a.keys) mask(tile.blocks - 1);
    row_max(s, c, n0, n1);
    exp_rows(s, c, finite(n0), finite(n1), k_sum0, k_sum1);
  };
  auto rebase = [&](float x0, float x1) {
    const float n0 = fmaxf(m0, x0), n1 = fmaxf(m1, x1);
    shrink0 = exp2_fast(m0 - finite(n0)), shrink1 = exp2_fast(m1 - finite(n1));
    m0 = n0, m1 = n1, l0 *= shrink0, l1 *= shrink1;
  };
  auto clear = [&]() {
#pragma unroll
    for (int i = 0; i < D / 2; ++i) o[i] = 0.f;
  };

  if (RT_ORDER && g == NG - 1) named_arrive(1, 256);
  bool live = next_tile();
  if (live) FIRST_BLOCK
  while (live) {
    int j = tile.blocks - 2;
    // Steps without a mask come in pairs, so that P ends in the buffer where it began.
    const int full = min(tile.full, tile.blocks - 1) & ~1;
#pragma unroll 1
    for (; j >= full && j >= 0; --j) MASKED_STEP(j)
    u32 p2[BN / 4];
#pragma unroll 1
    for (; j >= 0; j -= 2) {
      STEP(p, p2)
      STEP(p2, p)
    }
    release(QE + 8 * q.at);
    q.next<QB>();
    const int row = tile.m * BM + row_in, head = tile.head;
#if RT_CARRY
    float n0 = 0.f, n1 = 0.f, sum0 = 0.f, sum1 = 0.f;
    const float o0 = m0, o1 = m1;
    live = next_tile();
    if (live) {
      barrier_wait(smem + QF + 8 * q.at, q.parity);
      PRODUCTS(p)
      first_softmax(n0, n1, sum0, sum1);
      pin(s);
      PV_DONE
      to_bf16(p, s);
    } else {
      pin(p);
      pin(o);
      wgmma_fence();
      issue_pv(o, p, v0 + v.at * (KV_BYTES >> 4));
      wgmma_wait<0>();
      pin(o);
    }
    store_tile(a, row, head, quad, o, l0, l1, o0, o1);
    clear();
    m0 = n0, m1 = n1, l0 = sum0, l1 = sum1;
#else
    pin(p);
    pin(o);
    wgmma_fence();
    issue_pv(o, p, v0 + v.at * (KV_BYTES >> 4));
    wgmma_wait<0>();
    pin(o);
    release(VE + 8 * v.at);
    v.next<STAGES>();
    store_tile(a, row, head, quad, o, l0, l1, m0, m1);
    live = next_tile();
    if (live) FIRST_BLOCK
#endif
  }
}

RT_KERNEL {
  extern __shared__ __align__(1024) u8 shared[];
  const u32 smem = (shared_address(shared) + 1023u) & ~1023u;
  const int warp = __shfl_sync(RT_EVERY_LANE, threadIdx.x >> 5, 0), lane = threadIdx.x & 31;
#if !RT_HAS_LSE
  float* const lse = nullptr;
  const i64 lse_s0 = 0;
#endif
#if RT_COUNTER
  u32* const counters = (u32*)raw_counters;
#else
  u32* const counters = nullptr;
#endif
  const Problem a = problem_of(o, lse, counters, o_s0, o_s1, lse_s0, Tq, Tk, Hq, Hkv, scale);

  if (threadIdx.x == 0) {
    map_prefetch(map_q);
    map_prefetch(map_k);
    map_prefetch(map_v);
    for (int i = 0; i < QB; ++i) {
      barrier_init(smem + QF + 8 * i, 1);
      barrier_init(smem + QE + 8 * i, ARRIVALS);
    }
    for (int i = 0; i < STAGES; ++i) {
      barrier_init(smem + KF + 8 * i, 1);
      barrier_init(smem + KE + 8 * i, ARRIVALS);
      barrier_init(smem + VF + 8 * i, 1);
      barrier_init(smem + VE + 8 * i, ARRIVALS);
    }
    for (int i = 0; i < 2; ++i) {
      barrier_init(smem + TF + 8 * i, 1);
      barrier_init(smem + TE + 8 * i, ARRIVALS);
    }
    barrier_init_fence();
  }
  __syncthreads();

  if (warp < 4) {
    regs_shrink<RT_REGS_FEED>();
    if (threadIdx.x == 0)
      feed(a, smem, map_q, map_k, map_v);
    else if (RT_CAUSAL && warp > 0)  // warps that would idle
      store_dead(a, blockIdx.x * 3 + warp - 1, gridDim.x * 3, lane);
  } else {
    regs_grow<RT_REGS_MMA>();
    attend(a, smem, warp, lane);
  }
}
