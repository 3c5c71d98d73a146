// SPDX-License-Identifier: Apache-2.0
// D = alpha A B^T for few rows: bf16 with sums in f32, all operands K-major. The operands change
// places: weights (B) take the 64-row side of the product, tokens (A) the narrow one, and D^T is
// transposed on its way out.
//
// One warp copies and starts with the weights at once. A cluster can split K: partial sums travel
// as register images, 16 bytes a lane, counted on the receiver's barrier, so that no fence and no
// workspace is needed; their owner adds them in the order of the ranks, so the result does not
// depend on timing. Edges of M and K are clipped by the copy engine; N is a multiple of 8.
//
// Numbers of the schedule:
//   RT_TN      tokens of a tile
//   RT_WG      groups of 64 weights of a tile
//   RT_STAGES  of the ring, of RT_KB steps of 64 along K each
//   RT_SPLIT   CTAs of a cluster, which share one tile, each with its part of K

constexpr int TN = RT_TN, WG = RT_WG, STAGES = RT_STAGES, KB = RT_KB, SPLIT = RT_SPLIT;
constexpr int TW = 64 * WG, THREADS = 128 * WG + 32;
constexpr u32 W_BYTES = TW * 128, X_BYTES = TN * 128;  // one step
constexpr u32 STAGE = KB * (W_BYTES + X_BYTES);
constexpr int SHARE = 4 * WG / SPLIT;  // warps whose rows one CTA owns
constexpr u32 SLOT = TN * 16 * 4;      // sums of one warp
constexpr u32 SUM_BYTES = SPLIT == 1 ? TN * TW * 2 : (SPLIT - 1) * SHARE * SLOT;

// Tile of 128-byte rows, 128-byte swizzle: groups of 8 rows are 1024 bytes apart.
RT_DEVICE u64 descriptor(u32 low) {
  u64 d;
  asm("mov.b64 %0, {%1, %2};" : "=l"(d) : "r"(low), "r"(0x40000040u));
  return d;
}

RT_DEVICE void store_matrix2_transposed(u32 address, u32 a, u32 b) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(address),
               "r"(a), "r"(b)
               : "memory");
}

// One warp: its 16 weights times TN tokens through its own slot into rows of D.
RT_DEVICE void store_tile(u32 slot, const float (&acc)[TN / 2], float alpha, u16* d, i64 d_s0,
                          int m0, int n0, int M, int N, u32 lane) {
  const u32 to = slot + (lane & 7) * 32 + ((((lane >> 3) & 1) ^ ((lane >> 2) & 1)) << 4);
#pragma unroll
  for (int j = 0; j < TN / 8; ++j)
    store_matrix2_transposed(to + j * 256, pack_bf16(acc[4 * j] * alpha, acc[4 * j + 1] * alpha),
                             pack_bf16(acc[4 * j + 2] * alpha, acc[4 * j + 3] * alpha));
  __syncwarp();
#pragma unroll
  for (int i = 0; i < (TN * 2 + 31) / 32; ++i) {
    const int e = i * 32 + lane, m = e >> 1, half = e & 1, n = n0 + half * 8;
    if (e >= TN * 2 || m0 + m >= M || n >= N) continue;
    u32 x, y, z, w;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x), "=r"(y), "=r"(z), "=r"(w)
                 : "r"(slot + m * 32 + ((half ^ ((m >> 2) & 1)) << 4))
                 : "memory");
    store_global4(d + (m0 + m) * d_s0 + n, x, y, z, w);
  }
  __syncwarp();
}

RT_KERNEL {
  extern __shared__ __align__(1024) u8 shared[];
  const u32 ring = shared_address(shared), sums = ring + STAGES * STAGE;
  const u32 full = sums + SUM_BYTES, empty = full + 8 * STAGES;
  const u32 sum_full = empty + 8 * STAGES, sum_free = sum_full + 8;

  const u32 warp = __shfl_sync(RT_EVERY_LANE, threadIdx.x >> 5, 0), lane = threadIdx.x & 31;
  const u32 rank = SPLIT > 1 ? cluster_rank() : 0;  // which part of K

  const int x_tiles = (M + TN - 1) / TN, tiles = (N + TW - 1) / TW * x_tiles;
  const int k_blocks = (K + 64 * KB - 1) / (64 * KB);
  const int k_begin = (int)(k_blocks * rank / SPLIT), k_end = (int)(k_blocks * (rank + 1) / SPLIT);
  const int first = blockIdx.x / SPLIT, step = gridDim.x / SPLIT;

  if (warp == 4 * WG) {
    // ---- sets the barriers up, and copies
    if (elect_one()) {
      map_prefetch(map_w);
      map_prefetch(map_x);
      for (int s = 0; s < STAGES; ++s) {
        barrier_init(full + 8 * s, 1);
        barrier_init(empty + 8 * s, WG);
      }
      barrier_init(sum_full, 1);
      barrier_init(sum_free, SPLIT);
      barrier_init_fence();
    }
    __syncwarp();
    if (SPLIT > 1) cluster_arrive();
    named_arrive(15, THREADS);
    if (elect_one()) {
      u32 stage = 0, phase = 0;
      for (int t = first; t < tiles; t += step) {
        const int n0 = t / x_tiles * TW, m0 = t % x_tiles * TN;
        for (int k = k_begin; k < k_end; ++k) {
          const u32 bar = full + 8 * stage, at = ring + stage * STAGE;
          barrier_wait(empty + 8 * stage, phase ^ 1);
          barrier_expect(bar, STAGE);
          for (int j = 0; j < KB; ++j)
            tma_load(at + j * W_BYTES, map_w, bar, (k * KB + j) * 64, n0, RT_L2_EVICT_FIRST);
          for (int j = 0; j < KB; ++j)
            tma_load(at + KB * W_BYTES + j * X_BYTES, map_x, bar, (k * KB + j) * 64, m0,
                     RT_L2_EVICT_LAST);
          if (++stage == STAGES) stage = 0, phase ^= 1;
        }
      }
    }
    __syncwarp();
    if (SPLIT > 1) cluster_wait();
    return;
  }

  const u32 group = warp >> 2, warp_in = warp & 3, owner = warp / SHARE;
  const u32 w_low = ((ring + group * 8192) >> 4) | 0x10000u;
  const u32 x_low = ((ring + KB * W_BYTES) >> 4) | 0x10000u;
  auto release = [&](u32 stage) {
    if (warp_in == 0 && lane == 0) barrier_arrive(empty + 8 * stage);
  };
  u32 stage = 0, phase = 0, round = 0;
  float acc[TN / 2];
  if (SPLIT > 1) cluster_arrive();
  named_sync(15, THREADS);

  for (int t = first; t < tiles; t += step, ++round) {
    const int n0 = t / x_tiles * TW, m0 = t % x_tiles * TN;
    if (SPLIT > 1 && threadIdx.x == 0) barrier_expect(sum_full, SUM_BYTES);
#pragma unroll
    for (int i = 0; i < TN / 2; ++i) acc[i] = 0.f;
    pin(acc);
    u32 previous = 0;
#pragma unroll 1
    for (int k = k_begin; k < k_end; ++k) {
      barrier_wait(full + 8 * stage, phase);
      wgmma_fence();
      const u32 w = w_low + stage * (STAGE >> 4), x = x_low + stage * (STAGE >> 4);
#pragma unroll
      for (int j = 0; j < KB; ++j)
#pragma unroll
        for (int kk = 0; kk < 4; ++kk)
          Wgmma<TN>::add(acc, descriptor(w + j * (W_BYTES >> 4) + kk * 2),
                         descriptor(x + j * (X_BYTES >> 4) + kk * 2));
      wgmma_commit();
      wgmma_wait<1>();
      if (k > k_begin) release(previous);
      previous = stage;
      if (++stage == STAGES) stage = 0, phase ^= 1;
    }
    wgmma_wait<0>();
    pin(acc);
    if (k_end > k_begin) release(previous);

    // ---- partial sums go to the CTA that owns this warp's rows
    if (SPLIT > 1) {
      if (round == 0) cluster_wait();
      if (round > 0) barrier_wait_cluster(sum_free, (round - 1) & 1);
      if (owner != rank) {
        const u32 slot = rank < owner ? rank : rank - 1;
        const u32 to = peer_address(sums + (slot * SHARE + warp % SHARE) * SLOT + lane * 16, owner);
        const u32 bar = peer_address(sum_full, owner);
#pragma unroll
        for (int i = 0; i < TN / 8; ++i)
          store_async4(to + i * 512, bar, acc[4 * i], acc[4 * i + 1], acc[4 * i + 2],
                       acc[4 * i + 3]);
      }
    }
    if (owner == rank) {
      const u32 mine = sums + (warp % SHARE) * (SPLIT == 1 ? TN * 32 : SLOT);
      if (SPLIT > 1) {
        barrier_wait_cluster(sum_full, round & 1);
        float own[TN / 2];
#pragma unroll
        for (int i = 0; i < TN / 2; ++i) own[i] = acc[i], acc[i] = 0.f;
#pragma unroll
        for (int r = 0; r < SPLIT; ++r) {
          const int slot = r < (int)rank ? r : r - 1;
#pragma unroll
          for (int i = 0; i < TN / 8; ++i) {
            float4 v = {own[4 * i], own[4 * i + 1], own[4 * i + 2], own[4 * i + 3]};
            if (r != (int)rank)
              v = load_shared4(mine + slot * (SHARE * SLOT) + lane * 16 + i * 512);
            acc[4 * i] += v.x, acc[4 * i + 1] += v.y, acc[4 * i + 2] += v.z, acc[4 * i + 3] += v.w;
          }
        }
        __syncwarp();
      }
      store_tile(mine, acc, alpha, d, d_s0, m0, n0 + warp * 16, M, N, lane);
    }
    // Peers may send the next partial sums once every owner here has read these.
    if (SPLIT > 1 && t + step < tiles) {
      named_sync(14, 128 * WG);
      if (warp == 0 && lane < SPLIT) barrier_arrive_remote_release(sum_free, lane);
    }
  }
  if (SPLIT > 1 && round == 0) cluster_wait();
}
