// SPDX-License-Identifier: Apache-2.0
// Attention of one new query a sequence over its cache, dense or paged: bf16, head dimension 128,
// up to 8 query heads a KV head, in one launch.
//
// Work is a flat list of units of 16 tokens, ordered (sequence, KV head, unit). Every CTA takes an
// equal piece, so that splits follow from the lengths, which are read here: nothing is frozen by
// graph capture, and ragged batches run at the rate of even ones. Units of a piece go round the
// warps. A warp needs no barrier and no shared memory in its loop:
//   K  memory -> registers as the left operand of S' = K Q'  (m16 = tokens, n8 = heads): 16-byte
//   loads
//      fit because the index of the contraction may be permuted, if Q's is alike.
//   V  memory -> registers as the left operand of O' = V' P' (m16 = elements of a head): byte
//   permutes
//      pair neighbouring tokens, and each lane ends with 8 elements in a row.
//   P  goes from accumulator to right operand by movmatrix.
// A unit's registers of K are refilled as soon as S' is issued, those of V as soon as O' is, one
// unit ahead; page numbers are fetched two units ahead. A (sequence, head) that lies in one CTA is
// written at once; of the others partial results go to a workspace, and the CTA that arrives last
// adds them, in the order of the pieces, and rewinds the ticket. No load touches a token at or
// beyond a length.
//
// Numbers: RT_KV_LAYOUT (1: paged, and then RT_S tokens a page, a multiple of 16), RT_HAS_LSE, and
// of the schedule RT_WARPS, RT_CTAS a multiprocessor, RT_HEADS (4 or 8: the most query heads a KV
// head), RT_MAX_B sequences, RT_NO_L1 (loads of the cache pass L1 by: pays where everything fits
// L2).

constexpr int WARPS = RT_WARPS, HEADS = RT_HEADS, THREADS = 32 * WARPS, DEPTH = 128, UNIT = 16;
constexpr int SLOT_O = HEADS * DEPTH * 4, SLOT_ML = HEADS * 8;  // bytes of a warp's state
constexpr int SLOT = WARPS * (SLOT_O + SLOT_ML);
constexpr int PART = HEADS * (DEPTH + 2);  // floats of a partial result: O, then (m, l) a head
constexpr int AT_ONCE = 16;                // partial results that are in flight together

// ---- instructions -------------------------------------------------------------------------------

RT_DEVICE void load16(u32 (&r)[4], const u16* p) {
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "l"(p));
}

RT_DEVICE void load16_cache(u32 (&r)[4], const u16* p) {
#if RT_NO_L1
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "l"(p));
#else
  load16(r, p);
#endif
}

RT_DEVICE float butterfly(float v, int mask) { return __shfl_xor_sync(RT_EVERY_LANE, v, mask); }

RT_DEVICE u32 transpose8(u32 a) {
  u32 r;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r) : "r"(a));
  return r;
}

RT_DEVICE void mma(float (&c)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

RT_DEVICE float load_shared(u32 address) {
  float r;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(r) : "r"(address) : "memory");
  return r;
}

RT_DEVICE int load_shared_int(u32 address) {
  int r;
  asm volatile("ld.shared.s32 %0, [%1];" : "=r"(r) : "r"(address) : "memory");
  return r;
}

RT_DEVICE void store_shared_int(u32 address, int value) {
  asm volatile("st.shared.s32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}

// What exponents are taken against, so that -inf - -inf never occurs.
RT_DEVICE float finite(float m) { return m == RT_NEG_INF ? 0.f : m; }

// ---- lengths ------------------------------------------------------------------------------------

// One warp: units[b] = units of a KV head before sequence b, units[B] all of them, and whether the
// sequences are of one length.
RT_DEVICE void count_units(u32 units, u32 total, u32 even, const int* lengths, int B, int lane) {
  int run = 0, least = 0x7fffffff, most = 0;
  for (int b = 0; b < B; b += 32) {
    const bool in = b + lane < B;
    const int n = in ? (lengths[b + lane] + UNIT - 1) / UNIT : 0;
    int s = n;
#pragma unroll
    for (int d = 1; d < 32; d <<= 1) {
      const int below = __shfl_up_sync(RT_EVERY_LANE, s, d);
      if (lane >= d) s += below;
    }
    if (in) {
      store_shared_int(units + (b + lane) * 4, run + s - n);
      least = min(least, n), most = max(most, n);
    }
    run += __shfl_sync(RT_EVERY_LANE, s, 31);
  }
  least = __reduce_min_sync(RT_EVERY_LANE, least);
  most = __reduce_max_sync(RT_EVERY_LANE, most);
  if (lane != 0) return;
  store_shared_int(units + B * 4, run);
  store_shared_int(total, run);
  store_shared_int(even, least == most);
}

// How many pieces. With equal lengths, a number that divides the (sequence, head) pairs or is
// divided by them cuts fewer of them; a few idle multiprocessors cost less than a merge, as long as
// nine tenths of them work.
RT_DEVICE u32 pieces_of(u32 work, u32 pairs, u32 ctas, bool even_lengths) {
  const u32 most = work < ctas ? work : ctas;
  if (!even_lengths || work == 0) return most;
  u32 even = pairs <= most ? most / pairs * pairs : most;
  if (pairs > most)
    while (pairs % even != 0 && even * 10 >= most * 9) --even;
  return even * 10 >= most * 9 && (pairs % even == 0 || even % pairs == 0) ? even : most;
}

// ---- the kernel ---------------------------------------------------------------------------------

RT_KERNEL {
#if !RT_HAS_LSE
  float* const lse = nullptr;
  const i64 lse_s0 = 0;
#endif
  extern __shared__ __align__(16) u8 shared[];  // states of the warps, twice; then counts
  const u32 base = shared_address(shared), total_at = base + 2 * SLOT, even_at = total_at + 4;
  const u32 units_at = total_at + 8;
  const int tid = threadIdx.x, lane = tid & 31, g = lane >> 2, quad = lane & 3;
  const int warp = __shfl_sync(RT_EVERY_LANE, tid >> 5, 0);
  const int H = Hkv, group = Hq / Hkv;
  const u16* const keys = k;
  const u16* const values = v;
  u32* const tickets = (u32*)raw_tickets;

#if RT_KV_LAYOUT == 1
  // The block table is wanted one dependent miss after the lengths: ask L2 for all of it now.
  const int lines = (MP + 31) / 32;
  for (i64 i = blockIdx.x + (i64)gridDim.x * tid; i < (i64)B * lines;
       i += (i64)gridDim.x * THREADS) {
    const i64 row = i / lines;
    asm volatile("prefetch.global.L2 [%0];" ::"l"(block_table + row * block_table_s0 +
                                                  (i - row * lines) * 32));
  }
#endif
  if (warp == 0) count_units(units_at, total_at, even_at, lengths, B, lane);
  // Empty sequences own no unit: O = 0, LSE = -inf.
  for (int b = blockIdx.x; b < B; b += gridDim.x)
    if (lengths[b] <= 0)
      for (int i = tid; i < Hq * (DEPTH / 8); i += THREADS) {
        const int head = i / (DEPTH / 8), at = i % (DEPTH / 8) * 8;
        store_global4(o + b * o_s0 + head * o_s1 + at, 0, 0, 0, 0);
        if (RT_HAS_LSE && at == 0) lse[head * lse_s0 + b] = RT_NEG_INF;
      }
  __syncthreads();
  const u32 work = (u32)load_shared_int(total_at) * H;
  const u32 pieces = pieces_of(work, B * H, gridDim.x, load_shared_int(even_at) != 0);
  if (blockIdx.x >= pieces) return;
  auto cut = [&](u32 piece) { return (u32)((u64)work * piece / pieces); };
  auto holder = [&](u32 unit) { return (u32)(((u64)(unit + 1) * pieces - 1) / work); };
  auto units_before = [&](int b) { return load_shared_int(units_at + b * 4); };
  const u32 u0 = cut(blockIdx.x), u1 = cut(blockIdx.x + 1);

  // Sequence and head of the piece's first unit: the last b with H units_before(b) <= u0.
  int b0 = 0;
  for (int top = B; top - b0 > 1;) {
    const int mid = (b0 + top) >> 1;
    if ((u32)units_before(mid) * H <= u0)
      b0 = mid;
    else
      top = mid;
  }
  const int first_units = units_before(b0), n0 = units_before(b0 + 1) - first_units;
  const int h0 = (u0 - (u32)first_units * H) / n0;

  // ---- fetching: the unit whose page number is on its way, and the one whose K and V are
  int next_b = b0, next_h = h0, next_n = n0;
  u32 next_s = (u32)first_units * H + h0 * n0, next_u = u0 + warp;
  int page = 0, next_count = 0, next_slot = 0, head_of_next = 0;
  auto aim = [&]() {
    next_count = 0;
    if (next_u >= u1) return;
    while (next_u >= next_s + next_n) {
      next_s += next_n;
      if (++next_h == H) {
        next_h = 0;
        do {
          ++next_b;
          next_n = units_before(next_b + 1) - units_before(next_b);
        } while (next_n == 0);
      }
    }
    const int t = (next_u - next_s) * UNIT;
    next_count = min(lengths[next_b] - t, UNIT);
    head_of_next = next_h;
#if RT_KV_LAYOUT == 1
    page = block_table[next_b * block_table_s0 + t / RT_S];
    next_slot = t % RT_S;
#else
    page = next_b;
    next_slot = t;
#endif
    next_u += WARPS;
  };
  u32 kr[2][4][4], vr[4][2][4];
  int have = 0;
  const u16 *k_at = keys, *v_at = values;
  auto take = [&]() {
    have = next_count;
    k_at = keys + page * k_s0 + next_slot * k_s1 + head_of_next * k_s2;
    v_at = values + page * v_s0 + next_slot * v_s1 + head_of_next * v_s2;
  };
  // Rows past the end repeat the last one; their weights are zero.
  auto load_k = [&]() {
    if (have == 0) return;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const u16* p = k_at + min(g + 8 * r, have - 1) * k_s1 + quad * 8;
#pragma unroll
      for (int i = 0; i < 4; ++i) load16_cache(kr[r][i], p + i * 32);
    }
  };
  auto load_v = [&]() {
    if (have == 0) return;
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const u16* p = v_at + min(2 * quad + (r & 1) + (r >> 1) * 8, have - 1) * v_s1 + g * 8;
      load16_cache(vr[r][0], p), load16_cache(vr[r][1], p + 64);
    }
  };
  aim();
  take();
  load_k(), load_v();
  aim();

  int b = b0, h = h0, n = n0, buffer = 0;
  u32 s = (u32)first_units * H + h0 * n0, u = u0 + warp;
  const float c2 = scale * 1.4426950408889634f;
  u32 q_next[4][4];  // of the pair to come, one pair ahead
  auto load_q = [&](int of_b, int of_h) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      q_next[i][0] = q_next[i][1] = q_next[i][2] = q_next[i][3] = 0;
      if (g < group)
        load16(q_next[i], q + of_b * q_s0 + (of_h * group + g) * q_s1 + i * 32 + quad * 8);
    }
  };
  load_q(b, h);
  while (true) {  // one (sequence, head), or the part of it in this piece
    const u32 low = s > u0 ? s : u0, high = s + n < u1 ? s + n : u1;
    u32 qf[4][4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int e = 0; e < 4; ++e) qf[i][e] = q_next[i][e];
    int bn = b, hn = h + 1, nn = n;  // the next one
    if (high != u1) {
      if (hn == H) {
        hn = 0;
        do {
          ++bn;
          nn = units_before(bn + 1) - units_before(bn);
        } while (nn == 0);
      }
      load_q(bn, hn);
    }
    float acc[8][4], m0 = RT_NEG_INF, m1 = RT_NEG_INF, l0 = 0.f, l1 = 0.f;
#pragma unroll
    for (int j = 0; j < 8; ++j) acc[j][0] = acc[j][1] = acc[j][2] = acc[j][3] = 0.f;
    while (u < high) {
      float c[4] = {0.f, 0.f, 0.f, 0.f}, e[4] = {0.f, 0.f, 0.f, 0.f};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        mma(c, kr[0][i][0], kr[1][i][0], kr[0][i][1], kr[1][i][1], qf[i][0], qf[i][1]);
        mma(e, kr[0][i][2], kr[1][i][2], kr[0][i][3], kr[1][i][3], qf[i][2], qf[i][3]);
      }
      const int now = have;
      take();
      load_k();  // leaves while this unit is in its softmax
#pragma unroll
      for (int i = 0; i < 4; ++i) c[i] = (c[i] + e[i]) * c2;
      if (g >= now) c[0] = c[1] = RT_NEG_INF;
      if (g + 8 >= now) c[2] = c[3] = RT_NEG_INF;
      float x0 = fmaxf(c[0], c[2]), x1 = fmaxf(c[1], c[3]);
#pragma unroll
      for (int d = 4; d < 32; d <<= 1) {
        x0 = fmaxf(x0, butterfly(x0, d));
        x1 = fmaxf(x1, butterfly(x1, d));
      }
      // The running maximum settles after a few units.
      if (__any_sync(RT_EVERY_LANE, x0 > m0 || x1 > m1)) {
        const float y0 = fmaxf(m0, x0), y1 = fmaxf(m1, x1);
        const float f0 = exp2_fast(m0 - finite(y0)), f1 = exp2_fast(m1 - finite(y1));
        m0 = y0, m1 = y1, l0 *= f0, l1 *= f1;
#pragma unroll
        for (int j = 0; j < 8; ++j)
          acc[j][0] *= f0, acc[j][2] *= f0, acc[j][1] *= f1, acc[j][3] *= f1;
      }
      const float p0 = exp2_fast(c[0] - finite(m0)), p1 = exp2_fast(c[1] - finite(m1));
      const float p2 = exp2_fast(c[2] - finite(m0)), p3 = exp2_fast(c[3] - finite(m1));
      l0 += p0 + p2, l1 += p1 + p3;
      const u32 b_low = transpose8(pack_bf16(p0, p1)), b_high = transpose8(pack_bf16(p2, p3));
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const u32 halves = j & 1 ? 0x7632u : 0x5410u;
        mma(acc[j], __byte_perm(vr[0][0][j / 2], vr[1][0][j / 2], halves),
            __byte_perm(vr[0][1][j / 2], vr[1][1][j / 2], halves),
            __byte_perm(vr[2][0][j / 2], vr[3][0][j / 2], halves),
            __byte_perm(vr[2][1][j / 2], vr[3][1][j / 2], halves), b_low, b_high);
      }
      load_v();
      aim();
      u += WARPS;
    }

    // ---- the warps' states meet in shared memory, in two slots by turns: one barrier a pair
#pragma unroll
    for (int d = 4; d < 32; d <<= 1) l0 += butterfly(l0, d), l1 += butterfly(l1, d);
    const u32 slot = base + buffer * SLOT, ml = slot + WARPS * SLOT_O;
    if (quad < HEADS / 2) {
      const u32 w0 = slot + (warp * HEADS + 2 * quad) * (DEPTH * 4) + g * 32, w1 = w0 + DEPTH * 4;
      store_shared4(w0, acc[0][0], acc[1][0], acc[2][0], acc[3][0]);
      store_shared4(w0 + 16, acc[4][0], acc[5][0], acc[6][0], acc[7][0]);
      store_shared4(w0 + 256, acc[0][2], acc[1][2], acc[2][2], acc[3][2]);
      store_shared4(w0 + 272, acc[4][2], acc[5][2], acc[6][2], acc[7][2]);
      store_shared4(w1, acc[0][1], acc[1][1], acc[2][1], acc[3][1]);
      store_shared4(w1 + 16, acc[4][1], acc[5][1], acc[6][1], acc[7][1]);
      store_shared4(w1 + 256, acc[0][3], acc[1][3], acc[2][3], acc[3][3]);
      store_shared4(w1 + 272, acc[4][3], acc[5][3], acc[6][3], acc[7][3]);
      if (g == 0) store_shared4(ml + warp * SLOT_ML + quad * 16, m0, l0, m1, l1);
    }
    __syncthreads();
#pragma unroll 1
    for (int head = warp; head < HEADS; head += WARPS) {  // lane: 4 elements in a row
      float M = RT_NEG_INF, L = 0.f, sum[4] = {0.f, 0.f, 0.f, 0.f};
#pragma unroll
      for (int w = 0; w < WARPS; ++w) M = fmaxf(M, load_shared(ml + w * SLOT_ML + head * 8));
#pragma unroll
      for (int w = 0; w < WARPS; ++w) {
        const float mw = load_shared(ml + w * SLOT_ML + head * 8);
        const float f = exp2_fast(mw - finite(M));
        const float4 x = load_shared4(slot + (w * HEADS + head) * (DEPTH * 4) + lane * 16);
        L = fmaf(f, load_shared(ml + w * SLOT_ML + head * 8 + 4), L);
        sum[0] = fmaf(f, x.x, sum[0]), sum[1] = fmaf(f, x.y, sum[1]);
        sum[2] = fmaf(f, x.z, sum[2]), sum[3] = fmaf(f, x.w, sum[3]);
      }
      bool finish = true;
      if (low != s || high != s + n) {  // shared with other pieces
        const u32 first = holder(s), last = holder(s + n - 1);
        auto part_of = [&](u32 piece) {  // a piece has at most two: one begun before it, one not
          return raw_partials + (u64)(piece * 2 + (cut(piece) < s ? 0 : 1)) * PART;
        };
        float* mine = raw_partials + (u64)(blockIdx.x * 2 + (u0 < s ? 0 : 1)) * PART;
        asm volatile(
            "st.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(mine + head * DEPTH + lane * 4),
            "f"(sum[0]), "f"(sum[1]), "f"(sum[2]), "f"(sum[3])
            : "memory");
        if (lane == 0)
          asm volatile("st.global.v2.f32 [%0], {%1, %2};" ::"l"(mine + HEADS * DEPTH + head * 2),
                       "f"(M), "f"(L)
                       : "memory");
        // One ticket a query head: its warps are all that has to agree.
        __syncwarp();
        u32 seen = 0;
        u32* ticket = tickets + ((u64)b * H + h) * HEADS + head;
        if (lane == 0)
          asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;"
                       : "=r"(seen)
                       : "l"(ticket)
                       : "memory");
        seen = __shfl_sync(RT_EVERY_LANE, seen, 0);
        finish = seen == last - first;
        if (finish) {
          if (lane == 0) asm volatile("st.global.u32 [%0], 0;" ::"l"(ticket) : "memory");
          __syncwarp();
          asm volatile("fence.acq_rel.gpu;" ::: "memory");
          M = RT_NEG_INF, L = 0.f, sum[0] = sum[1] = sum[2] = sum[3] = 0.f;
          for (u32 piece = first; piece <= last; piece += AT_ONCE) {
            const int count = min((int)(last - piece + 1), AT_ONCE);
            float x[AT_ONCE][4], mc = RT_NEG_INF, lc = 0.f;
            if (lane < count)  // lane i: (m, l) of partial i
              asm volatile("ld.global.cg.v2.f32 {%0, %1}, [%2];"
                           : "=f"(mc), "=f"(lc)
                           : "l"(part_of(piece + lane) + HEADS * DEPTH + head * 2)
                           : "memory");
#pragma unroll
            for (int i = 0; i < AT_ONCE; ++i) {
              x[i][0] = x[i][1] = x[i][2] = x[i][3] = 0.f;
              if (i < count)
                asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];"
                             : "=f"(x[i][0]), "=f"(x[i][1]), "=f"(x[i][2]), "=f"(x[i][3])
                             : "l"(part_of(piece + i) + head * DEPTH + lane * 4)
                             : "memory");
            }
            float largest = mc;
#pragma unroll
            for (int d = 1; d < 32; d <<= 1) largest = fmaxf(largest, butterfly(largest, d));
            largest = fmaxf(largest, M);
            const float keep = exp2_fast(M - finite(largest)), f = exp2_fast(mc - finite(largest));
            float l_sum = f * lc;
#pragma unroll
            for (int d = 1; d < 32; d <<= 1) l_sum += butterfly(l_sum, d);
            L = L * keep + l_sum, M = largest;
#pragma unroll
            for (int e = 0; e < 4; ++e) sum[e] *= keep;
#pragma unroll
            for (int i = 0; i < AT_ONCE; ++i) {
              const float fi = __shfl_sync(RT_EVERY_LANE, f, i);
#pragma unroll
              for (int e = 0; e < 4; ++e) sum[e] = fmaf(fi, x[i][e], sum[e]);
            }
          }
        }
      }
      if (finish && head < group) {
        const float inverse = L == 0.f ? 0.f : 1.f / L;
        const int row = h * group + head;
        const u32 low_pair = pack_bf16(sum[0] * inverse, sum[1] * inverse);
        const u32 high_pair = pack_bf16(sum[2] * inverse, sum[3] * inverse);
        asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(o + b * o_s0 + row * o_s1 + lane * 4),
                     "r"(low_pair), "r"(high_pair)
                     : "memory");
        if (RT_HAS_LSE && lane == 0)
          lse[row * lse_s0 + b] = L == 0.f ? RT_NEG_INF : (M + log2_fast(L)) * 0.6931471805599453f;
      }
    }
    if (high == u1) break;
    s += n, b = bn, h = hn, n = nn;
    buffer ^= 1;
  }
}
