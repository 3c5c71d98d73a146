// SPDX-License-Identifier: Apache-2.0
// Cross-entropy of rows of bf16 logits: one CTA streams a row once, each thread with a maximum and
// a sum of exponentials of its own, which meet at the end.
//
// A group of vectors is loaded before the maximum is looked at, so that its loads are in flight
// together; the maximum settles after a few groups. Differences are taken before they are scaled:
// logits far from zero keep their digits. Without a label smoothing; V is a multiple of 8.
//
// Numbers: RT_HAS_LSE, and of the schedule RT_THREADS and RT_VECTORS a group and thread.

constexpr int THREADS = RT_THREADS, VECTORS = RT_VECTORS, WARPS = THREADS / 32;
constexpr u32 TWO_NEG_INF = 0xff80ff80u;
constexpr float LOG2_E = 1.4426950408889634f, LN_2 = 0.6931471805599453f;

RT_DEVICE void load16(u32 (&r)[4], const u16* p) {
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "l"(p));
}

RT_DEVICE u32 max2(u32 a, u32 b) {
  u32 r;
  asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  return r;
}

RT_DEVICE float low(u32 pair) { return __uint_as_float(pair << 16); }
RT_DEVICE float high(u32 pair) { return __uint_as_float(pair & 0xffff0000u); }

// What is subtracted from a logit, so that -inf - -inf never occurs.
RT_DEVICE float finite(float m) { return m == RT_NEG_INF ? 0.f : m; }

// The largest logit, and the sum of exp(x - finite(m)) for each half of a pair.
struct Running {
  float m = RT_NEG_INF, s0 = 0.f, s1 = 0.f;
};

RT_DEVICE void add(Running& r, const u32 (&v)[VECTORS][4]) {
  u32 pair = TWO_NEG_INF;
#pragma unroll
  for (int j = 0; j < VECTORS; ++j)
    pair = max2(pair, max2(max2(v[j][0], v[j][1]), max2(v[j][2], v[j][3])));
  const float largest = fmaxf(low(pair), high(pair));
  if (largest > r.m) {
    const float shrink = exp2_fast((r.m - largest) * LOG2_E);
    r.m = largest, r.s0 *= shrink, r.s1 *= shrink;
  }
  const float base = finite(r.m);
#pragma unroll
  for (int j = 0; j < VECTORS; ++j)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      r.s0 += exp2_fast((low(v[j][i]) - base) * LOG2_E);
      r.s1 += exp2_fast((high(v[j][i]) - base) * LOG2_E);
    }
}

// (m, s) of all lanes.
RT_DEVICE void join_warp(float& m, float& s) {
  float largest = m;
#pragma unroll
  for (int d = 1; d < 32; d <<= 1)
    largest = fmaxf(largest, __shfl_xor_sync(RT_EVERY_LANE, largest, d));
  s *= exp2_fast((m - finite(largest)) * LOG2_E);
#pragma unroll
  for (int d = 1; d < 32; d <<= 1) s += __shfl_xor_sync(RT_EVERY_LANE, s, d);
  m = largest;
}

RT_KERNEL {
  __shared__ float maxima[WARPS], sums[WARPS];
  const int tid = threadIdx.x, row = blockIdx.x, vectors = V >> 3;
  const int target = targets[row];
  if (!RT_HAS_LSE && target == ignore_index) {
    if (tid == 0) loss[row] = 0.f;
    return;
  }
  const u16* const x = logits + row * logits_s0;
  Running r;
  for (int at = tid; at < vectors; at += THREADS * VECTORS) {
    u32 v[VECTORS][4];
#pragma unroll
    for (int j = 0; j < VECTORS; ++j) {
      v[j][0] = v[j][1] = v[j][2] = v[j][3] = TWO_NEG_INF;
      if (at + j * THREADS < vectors) load16(v[j], x + (i64)(at + j * THREADS) * 8);
    }
    add(r, v);
  }
  float m = r.m, s = r.s0 + r.s1;
  join_warp(m, s);
  if ((tid & 31) == 0) maxima[tid >> 5] = m, sums[tid >> 5] = s;
  __syncthreads();
  if (tid >= 32) return;
  m = tid < WARPS ? maxima[tid] : RT_NEG_INF, s = tid < WARPS ? sums[tid] : 0.f;
  join_warp(m, s);
  if (tid != 0) return;
  const float log_sum = log2_fast(s) * LN_2, log_sum_exp = m + log_sum;
#if RT_HAS_LSE
  lse[row] = log_sum_exp;
#endif
  if (target == ignore_index) {
    loss[row] = 0.f;
    return;
  }
  const float hard = log_sum - (__uint_as_float((u32)x[target] << 16) - m);
  loss[row] = hard + (z_loss > 0.f ? z_loss * (log_sum_exp * log_sum_exp) : 0.f);
}
