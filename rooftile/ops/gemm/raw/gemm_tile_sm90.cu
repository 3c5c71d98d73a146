// SPDX-License-Identifier: Apache-2.0
// D = alpha A B^T for many rows: bf16 with sums in f32, all operands K-major.
//
// Persistent and warp-specialised: one thread copies, RT_WG groups of 128 threads multiply;
// clusters share what they load by multicast; tiles are walked in bands so that those in flight
// share rows and columns in L2. Results leave through swizzled staging, by the copy engine, under
// the next tile. Edges on every side are clipped by the copy engine, which fills what it reads
// outside with zeros and writes whole units of 16 bytes: N is a multiple of 8.
//
// Numbers of the schedule:
//   RT_BM x RT_BN  tile of one CTA; a step of K is 64, one swizzled row of 128 bytes
//   RT_STAGES      of the ring
//   RT_CM          CTAs of a cluster along M, which share B
//   RT_SK          2: a cluster of two shares one tile, each CTA with half of K (then RT_CM is 1)
//   RT_PP          0: the groups split a tile by rows; 1: each takes whole tiles in turn
//   RT_CB          staging buffers (RT_ER rows of 64 columns) of one storing unit
//   RT_ER          rows of one store: 64, a group stores together; or 16, each warp alone
//   RT_BAND        rows of tiles that are walked together

constexpr int BM = RT_BM, BN = RT_BN, STAGES = RT_STAGES, CM = RT_CM, SK = RT_SK, WG = RT_WG;
constexpr int CB = RT_CB, ER = RT_ER;
constexpr bool PP = RT_PP;
constexpr int CL = CM * SK;                        // CTAs of a cluster
constexpr int MB = PP ? BM / 64 : BM / (64 * WG);  // blocks of 64 rows of a group
constexpr u32 A_BYTES = BM * 128, B_BYTES = BN * 128, C_BYTES = ER * 128;
constexpr int UNITS = WG * 64 / ER;     // that store: groups or warps
constexpr int CONSUMERS = PP ? 1 : WG;  // arrivals of one CTA on an empty barrier
constexpr u32 SUM_BYTES = BN * 256;     // sums of one group (SK = 2: MB is 1)

struct Walk {
  int rows, columns;  // tiles, along M those of a whole cluster
};

// Bands of RT_BAND rows of tiles, each walked along the columns.
RT_DEVICE void tile_at(const Walk& walk, int t, int& row, int& column) {
  const int band = t / (RT_BAND * walk.columns), first = band * RT_BAND;
  const int in_band = t - first * walk.columns, width = min(RT_BAND, walk.rows - first);
  column = in_band / width;
  row = first + in_band - column * width;
}

// Tile of 128-byte rows, 128-byte swizzle: groups of 8 rows are 1024 bytes apart.
RT_DEVICE u64 descriptor(u32 low) {
  u64 d;
  asm("mov.b64 %0, {%1, %2};" : "=l"(d) : "r"(low), "r"(0x40000040u));
  return d;
}

RT_DEVICE void store_matrix4(u32 address, u32 a, u32 b, u32 c, u32 d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
               "r"(a), "r"(b), "r"(c), "r"(d)
               : "memory");
}

RT_KERNEL {
  extern __shared__ __align__(1024) u8 shared[];
  const u32 a_at = shared_address(shared), b_at = a_at + STAGES * A_BYTES;
  const u32 c_at = b_at + STAGES * B_BYTES;
  const u32 full = c_at + UNITS * CB * C_BYTES, empty = full + 8 * STAGES;
  const u32 turn = empty + 8 * STAGES;  // PP: whose turn it is to multiply
  const u32 clear = turn + 16;          // SK: the peer's ring may be overwritten
  const u32 sum_full = clear + 8;       // SK: the peer's half has arrived
  const u32 ring_back = sum_full + 8;   // SK: the ring belongs to the copying thread again

  const u32 warp = __shfl_sync(RT_EVERY_LANE, threadIdx.x >> 5, 0), lane = threadIdx.x & 31;
  const u32 group = warp >> 2, rank = CL > 1 ? cluster_rank() : 0, rank_m = rank % CM;

  const Walk walk = {(M + BM * CM - 1) / (BM * CM), (N + BN - 1) / BN};
  const int tiles = walk.rows * walk.columns, k_blocks = (K + 63) >> 6;
  const int k_begin = SK > 1 ? (int)(k_blocks * rank / SK) : 0;
  const int k_end = SK > 1 ? (int)(k_blocks * (rank + 1) / SK) : k_blocks;
  const int first = blockIdx.x / CL, step = gridDim.x / CL;

  // The copying warp sets the barriers up. Loads that stay inside this CTA start at once; only
  // those by multicast wait until the peers' barriers exist.
  const int ahead = CL > 1 && first < tiles ? min(STAGES, k_end - k_begin) : 0;
  if (warp == 4 * WG) {
    if (elect_one()) {
      map_prefetch(map_a);
      map_prefetch(map_b);
      map_prefetch(map_d);
      for (int s = 0; s < STAGES; ++s) {
        barrier_init(full + 8 * s, 1);
        barrier_init(empty + 8 * s, CONSUMERS * CM);
      }
      barrier_init(turn, 1);
      barrier_init(turn + 8, 1);
      barrier_init(clear, WG);
      barrier_init(sum_full, 1);
      barrier_init(ring_back, 4);
      barrier_init_fence();
    }
    __syncwarp();
    if (CL > 1) cluster_arrive();
    if (CL > 1 && elect_one()) {
      int row, column;
      tile_at(walk, first, row, column);
      for (int s = 0; s < ahead; ++s) {
        barrier_expect(full + 8 * s, A_BYTES + B_BYTES);
        tma_load(a_at + s * A_BYTES, map_a, full + 8 * s, (k_begin + s) * 64,
                 (row * CM + rank_m) * BM, RT_L2_NORMAL);
        if (CM == 1)
          tma_load(b_at + s * B_BYTES, map_b, full + 8 * s, (k_begin + s) * 64, column * BN,
                   RT_L2_NORMAL);
      }
    }
    __syncwarp();
    if (CL == 1) named_arrive(15, 128 * WG + 32);
  } else {
    if (CL > 1) cluster_arrive();
    if (CL == 1 && group < WG) named_sync(15, 128 * WG + 32);
  }
  if (CL > 1) cluster_wait();

  if (group == WG) {
    // ---- one thread feeds the ring
    if (WG == 2) regs_shrink<40>();
    if (warp == 4 * WG && elect_one()) {
      u32 stage = 0, phase = 0, round = 0;
      for (int t = first; t < tiles; t += step, ++round) {
        int row, column;
        tile_at(walk, t, row, column);
        const int m0 = (row * CM + rank_m) * BM, n0 = column * BN;
        if (SK > 1 && round > 0) barrier_wait(ring_back, (round - 1) & 1);
        for (int k = k_begin; k < k_end; ++k) {
          const u32 bar = full + 8 * stage;
          const bool begun = CL > 1 && t == first && k - k_begin < ahead;
          if (!begun) {
            barrier_wait(empty + 8 * stage, phase ^ 1);
            barrier_expect(bar, A_BYTES + B_BYTES);
            tma_load(a_at + stage * A_BYTES, map_a, bar, k * 64, m0, RT_L2_NORMAL);
          }
          if (CM > 1)
            tma_load_multicast(b_at + stage * B_BYTES + rank_m * (B_BYTES / CM), map_b, bar, k * 64,
                               n0 + rank_m * (BN / CM), (1u << CM) - 1, RT_L2_NORMAL);
          else if (!begun)
            tma_load(b_at + stage * B_BYTES, map_b, bar, k * 64, n0, RT_L2_NORMAL);
          if (++stage == STAGES) stage = 0, phase ^= 1;
        }
      }
      // Every arrival that a peer still owes lands before this CTA's shared memory goes away.
      if (CM > 1)
        for (int s = 0; s < STAGES; ++s) {
          barrier_wait(empty + 8 * stage, phase ^ 1);
          if (++stage == STAGES) stage = 0, phase ^= 1;
        }
    }
    return;
  }

  // ---- a group that multiplies
  if (WG == 2) regs_grow<232>();
  const u32 warp_in = warp & 3, group_row = PP ? 0 : group * (MB * 64);
  const u32 a_low = ((a_at + group_row * 128) >> 4) | 0x10000u, b_low = (b_at >> 4) | 0x10000u;

  // Where this lane stages: row (lane % 16) of its warp's 16, 16-byte column by lane / 16.
  const u32 unit = ER == 64 ? group : warp, c_base = c_at + unit * (CB * C_BYTES);
  const u32 c_row = ((ER == 64 ? warp_in * 16 : 0) + (lane & 15)) * 128;
  const u32 c_xor = ((lane >> 4) ^ (lane & 7)) << 4;
  const bool leader = warp_in == 0 && lane == 0;
  const bool storer = lane == 0 && (ER == 16 || warp_in == 0);
  auto release = [&](u32 stage) {
    if (CM == 1) {
      if (leader) barrier_arrive(empty + 8 * stage);
    } else if (warp_in == 0 && lane < CL) {
      barrier_arrive_remote(empty + 8 * stage, lane);
    }
  };

  u32 c_buffer = 0, stage = 0, phase = 0, round = 0;
  int steps = 0, mine = 0;
  float acc[MB][BN / 2];
  for (int t = first, i = 0; t < tiles; t += step, ++i) {
    if (PP) {
      if ((i & 1) != group) {
        steps += k_blocks;
        continue;
      }
      stage = steps % STAGES;
      phase = (steps / STAGES) & 1;
      steps += k_blocks;
      if (group == 1) barrier_wait(turn + 8, mine & 1);
      if (group == 0 && mine > 0) barrier_wait(turn, (mine - 1) & 1);
      ++mine;
    }
    int row, column;
    tile_at(walk, t, row, column);
    const int m0 = (row * CM + rank_m) * BM + group_row, n0 = column * BN;
    if (SK > 1) {
      if (group == rank && leader) barrier_expect(sum_full, SUM_BYTES);
      if (k_begin == k_end) {
#pragma unroll
        for (int j = 0; j < BN / 2; ++j) acc[0][j] = 0.f;
      }
    }

    u32 previous = 0;
#pragma unroll
    for (int b = 0; b < MB; ++b) pin(acc[b]);
#pragma unroll 1
    for (int k = k_begin; k < k_end; ++k) {
      barrier_wait(full + 8 * stage, phase);
      wgmma_fence();
      const u32 a = a_low + stage * (A_BYTES >> 4), b = b_low + stage * (B_BYTES >> 4);
#pragma unroll
      for (int kk = 0; kk < 4; ++kk)
#pragma unroll
        for (int block = 0; block < MB; ++block)
          Wgmma<BN>::keep(acc[block], descriptor(a + block * 512 + kk * 2), descriptor(b + kk * 2),
                          kk == 0 ? (u32)(k != k_begin) : 1u);
      wgmma_commit();
      // The other group may start to issue: its work queues behind what is already in flight.
      if (PP && k + 1 == k_end && leader) barrier_arrive(turn + 8 * (group ^ 1));
      wgmma_wait<1>();
      if (k > k_begin) release(previous);
      previous = stage;
      if (++stage == STAGES) stage = 0, phase ^= 1;
    }
    wgmma_wait<0>();
#pragma unroll
    for (int b = 0; b < MB; ++b) pin(acc[b]);
    if (k_end > k_begin) release(previous);

    // ---- split K: group r of both CTAs meets in CTA r, as register images over the idle ring
    if (SK > 1) {
      const u32 at = a_at + (threadIdx.x & 127) * 16;
      if (leader) barrier_arrive_remote(clear, rank ^ 1);
      if (group != rank) {
        barrier_wait(clear, round & 1);
        const u32 to = peer_address(at, rank ^ 1), bar = peer_address(sum_full, rank ^ 1);
#pragma unroll
        for (int j = 0; j < BN / 8; ++j)
          store_async4(to + j * 2048, bar, acc[0][4 * j], acc[0][4 * j + 1], acc[0][4 * j + 2],
                       acc[0][4 * j + 3]);
        ++round;
        continue;
      }
      barrier_wait_cluster(sum_full, round & 1);
      ++round;
#pragma unroll
      for (int j = 0; j < BN / 8; ++j) {
        const float4 v = load_shared4(at + j * 2048);
        acc[0][4 * j] += v.x, acc[0][4 * j + 1] += v.y;
        acc[0][4 * j + 2] += v.z, acc[0][4 * j + 3] += v.w;
      }
      __syncwarp();
      if (lane == 0) barrier_arrive(ring_back);
    }

    // ---- registers -> staging -> store, drained during the next tile. A width that is no multiple
    // of 64 ends with a chunk that repeats some columns, with the same values.
#pragma unroll
    for (int b = 0; b < MB; ++b)
#pragma unroll
      for (int c = 0; c < (BN + 63) / 64; ++c) {
        const int c0 = c * 64 + 64 <= BN ? c * 64 : BN - 64;
        if (storer) bulk_wait_read<CB - 1>();
        if (ER == 64)
          named_sync(1 + group, 128);
        else
          __syncwarp();
        const u32 buffer = c_base + c_buffer * C_BYTES;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          float d[8];
#pragma unroll
          for (int e = 0; e < 8; ++e) d[e] = acc[b][c0 / 2 + j * 8 + e] * alpha;
          store_matrix4(buffer + c_row + (c_xor ^ (j << 5)), pack_bf16(d[0], d[1]),
                        pack_bf16(d[2], d[3]), pack_bf16(d[4], d[5]), pack_bf16(d[6], d[7]));
        }
        async_proxy_fence();
        if (ER == 64)
          named_sync(1 + group, 128);
        else
          __syncwarp();
        if (storer) {
          tma_store(map_d, buffer, n0 + c0, m0 + b * 64 + (ER == 64 ? 0 : warp_in * 16),
                    RT_L2_NORMAL);
          bulk_commit();
        }
        if (CB > 1) c_buffer = c_buffer + 1 == CB ? 0 : c_buffer + 1;
      }
  }
  if (storer) bulk_wait_read<0>();  // the end of the grid completes the writes
}
