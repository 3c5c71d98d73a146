// SPDX-License-Identifier: Apache-2.0
// One token a row of bf16 logits: temperature, min-p, top-k, top-p, draw. Nothing is sorted,
// nothing rejected, and the result does not depend on the order of any sum.
//
// A cluster of two CTAs a row. bf16 has 65536 values, so a histogram over them loses nothing:
// 16-bit counters for all of them fit the shared memory of each CTA, which counts its half of the
// row. Counters are indexed by the bits as they are (no work an element); the order of values is
// applied a counter at a time: place d in descending order is bits 0x7fff - d for the positive
// half, bits d for the negative one, and -0 is counted with +0. CTA r owns places [32768 r, 32768
// (r + 1)), each thread 32 of them.
//
// Masses are integers, 2^40 exp((x - max) / temperature), so sums are exact in any order. Top-k and
// top-p are look-ups in one prefix sum over the places; each leaves a threshold value and how many
// elements equal to it are kept, the first ones by index. The draw walks the elements by index: the
// first at which the running mass of what is kept exceeds u times all of it.
//
// Numbers: RT_HAS_TOP_K, RT_HAS_TOP_P, RT_HAS_MIN_P. V is a multiple of 8 and below 131057, so that
// no counter overflows.

constexpr int THREADS = 1024, WARPS = 32, VECTORS = 8;  // 16-byte vectors a thread
constexpr u32 KEY_NAN = 0xffffu, KEY_INF = 0xff80u, KEY_NEG_INF = 0x007fu;
constexpr u32 TWO_NEG_INF = 0xff80ff80u;

// ---- instructions -------------------------------------------------------------------------------

RT_DEVICE void load16(u32 (&r)[4], const u16* p) {
  asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "l"(p));
}

RT_DEVICE u32 max2(u32 a, u32 b) {
  u32 r;
  asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  return r;
}

RT_DEVICE u32 load_shared(u32 at) {
  u32 r;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(r) : "r"(at) : "memory");
  return r;
}

RT_DEVICE void load_shared_words(u32 (&r)[4], u32 at) {
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(at)
               : "memory");
}

RT_DEVICE u32 load_peer(u32 at) {
  u32 r;
  asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(r) : "r"(at) : "memory");
  return r;
}

RT_DEVICE void load_peer_words(u32 (&r)[4], u32 at) {
  asm volatile("ld.shared::cluster.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(at)
               : "memory");
}

RT_DEVICE void add_shared(u32 at, u32 value) {
  asm volatile("red.shared.add.u32 [%0], %1;" ::"r"(at), "r"(value) : "memory");
}

// To both CTAs of the pair.
RT_DEVICE void store_both(u32 at, u64 value) {
#pragma unroll
  for (int cta = 0; cta < 2; ++cta)
    asm volatile("st.shared::cluster.u64 [%0], %1;" ::"r"(peer_address(at, cta)), "l"(value)
                 : "memory");
}

RT_DEVICE u64 shuffle_up(u64 v, int d) {
  const u32 low = __shfl_up_sync(RT_EVERY_LANE, (u32)v, d);
  const u32 high = __shfl_up_sync(RT_EVERY_LANE, (u32)(v >> 32), d);
  return ((u64)high << 32) | low;
}

RT_DEVICE u64 shuffle(u64 v, int lane) {
  const u32 low = __shfl_sync(RT_EVERY_LANE, (u32)v, lane);
  const u32 high = __shfl_sync(RT_EVERY_LANE, (u32)(v >> 32), lane);
  return ((u64)high << 32) | low;
}

// A mass and a number of elements, summed together.
struct Sum {
  u64 mass;
  u32 count;
};

// Over lanes 0 .. this one.
RT_DEVICE Sum inclusive(Sum s, int lane) {
#pragma unroll
  for (int d = 1; d < 32; d <<= 1) {
    const u64 mass = shuffle_up(s.mass, d);
    const u32 count = __shfl_up_sync(RT_EVERY_LANE, s.count, d);
    if (lane >= d) s.mass += mass, s.count += count;
  }
  return s;
}

// Of the warp, for masses below 2^48 a lane: three sums of 16 bits, each one instruction.
RT_DEVICE Sum warp_total(const Sum& s) {
  const u32 low = __reduce_add_sync(RT_EVERY_LANE, (u32)s.mass & 0xffffu);
  const u32 middle = __reduce_add_sync(RT_EVERY_LANE, (u32)(s.mass >> 16) & 0xffffu);
  const u32 high = __reduce_add_sync(RT_EVERY_LANE, (u32)(s.mass >> 32));
  return {((u64)high << 32) + ((u64)middle << 16) + low, __reduce_add_sync(RT_EVERY_LANE, s.count)};
}

// ---- values -------------------------------------------------------------------------------------

// Order of bf16 values as integers: NaN above everything whatever its sign, -0 equal to +0.
RT_DEVICE u32 key_of(u32 bits) {
  const u32 magnitude = bits & 0x7fffu;
  if (magnitude > 0x7f80u) return KEY_NAN;
  if (magnitude == 0) return 0x8000u;
  return bits & 0x8000u ? bits ^ 0xffffu : bits | 0x8000u;
}

RT_DEVICE u32 bits_of(u32 key) { return key & 0x8000u ? key & 0x7fffu : key ^ 0xffffu; }

RT_DEVICE u32 larger_key(u32 pair) {
  const u32 a = key_of(pair & 0xffffu), b = key_of(pair >> 16);
  return a > b ? a : b;
}

RT_DEVICE u32 element(const u32 (&v)[4], int i) { return (v[i >> 1] >> (16 * (i & 1))) & 0xffffu; }

// First word of Philox4x32-10 (Salmon, Moraes, Dror and Shaw 2011).
RT_DEVICE u32 philox(u32 counter, u64 seed, u64 offset) {
  u32 c0 = counter, c1 = 0, c2 = (u32)offset, c3 = (u32)(offset >> 32);
  u32 k0 = (u32)seed, k1 = (u32)(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const u64 a = (u64)0xD2511F53u * c0, b = (u64)0xCD9E8D57u * c2;
    c0 = (u32)(b >> 32) ^ c1 ^ k0, c1 = (u32)b;
    c2 = (u32)(a >> 32) ^ c3 ^ k1, c3 = (u32)a;
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
  return c0;
}

// floor(a b / 2^SHIFT) for a result below 2^64.
template <int SHIFT>
RT_DEVICE u64 multiply_shift(u64 a, u64 b) {
  return (__umul64hi(a, b) << (64 - SHIFT)) | ((a * b) >> SHIFT);
}

// ---- the kernel ---------------------------------------------------------------------------------

RT_KERNEL {
  extern __shared__ __align__(16) u8 shared[];  // 65536 16-bit counters
  __shared__ Sum warp_sums[WARPS];
  __shared__ u64 halves[2][2];  // [CTA][mass, count]: of its places, later of its elements
  __shared__ u64 found[2][3];   // answers of top-k and top-p: mass kept, key and ties
  __shared__ u32 largest[2];
  // Of the elements that a warp holds in one round; entry e is the e-th by index. Where it lies is
  // such that a lane reads VECTORS of them in order without bank conflicts.
  __shared__ Sum entries[VECTORS * WARPS];
  auto entry = [&](int e) -> Sum& { return entries[e % VECTORS * WARPS + e / VECTORS]; };
  const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
  const u32 rank = cluster_rank();
  const int row = blockIdx.x >> 1, vectors = V >> 3, per = (vectors + 1) >> 1;
  const int begin = rank * per, held = min(vectors - begin, per);
  const u32 counters = shared_address(shared), largest_at = shared_address(largest);
  const u32 halves_at = shared_address(halves), found_at = shared_address(found);
  const u16* const x = logits + row * logits_s0 + begin * 8;

  // ---- count
  u32 v[VECTORS][4];
#pragma unroll
  for (int j = 0; j < VECTORS; ++j)
    if (j * THREADS + tid < held) load16(v[j], x + (j * THREADS + tid) * 8);
#pragma unroll
  for (int i = 0; i < 8; ++i)
    store_shared4(counters + (i * THREADS + tid) * 16, 0.f, 0.f, 0.f, 0.f);
  if (tid < 2) largest[tid] = 0;
  __syncthreads();
  cluster_arrive_release();  // the peer writes its maximum here, over the zero
  u32 best = TWO_NEG_INF;
#pragma unroll
  for (int j = 0; j < VECTORS; ++j) {
    if (j * THREADS + tid >= held) continue;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const u32 w = v[j][i];
      add_shared(counters + ((w & 0xfffeu) << 1), 1u << ((w & 1) << 4));
      add_shared(counters + ((w >> 15) & 0x1fffcu), 1u << ((w >> 12) & 16));
      best = max2(best, w);
    }
  }
  const u32 warp_largest = __reduce_max_sync(RT_EVERY_LANE, held > tid ? larger_key(best) : 0u);
  if (lane == 0) atomicMax(&largest[rank], warp_largest);
  __syncthreads();
  cluster_wait();
  if (tid == 0)
    asm volatile(
        "st.shared::cluster.u32 [%0], %1;" ::"r"(peer_address(largest_at + rank * 4, rank ^ 1)),
        "r"(largest[rank])
        : "memory");
  cluster_sync();  // both histograms and both maxima are complete
  const u32 top = max(load_shared(largest_at), load_shared(largest_at + 4));

  // ---- parameters. Below 1e-5 the largest logit is taken: the first of one.
  float t = temperature[row];
  // NaN, infinity, nothing but -inf, or no temperature: flagged, and both CTAs agree.
  if (top >= KEY_INF || top <= KEY_NEG_INF || t != t) {
    if (rank == 0 && tid == 0) out[row] = -1;
    cluster_sync();
    return;
  }
  int k = V;
  float least = 0.f;
#if RT_HAS_TOP_K
  k = top_k[row];
  if (k <= 0 || k > V) k = V;
#endif
#if RT_HAS_MIN_P
  least = fminf(min_p[row], 1.f);
#endif
  if (t < 1e-5f) t = 1.f, k = 1;
  const float scale = 1.4426950408889634f / t, max_value = __uint_as_float(bits_of(top) << 16);
  auto mass_of = [&](u32 bits) -> u64 {
    const float value = __uint_as_float(bits << 16);
    const float e = value == max_value ? 1.f : exp2_fast((value - max_value) * scale);
    return e < least ? 0 : (u64)(e * 1099511627776.f);
  };

  // ---- prefix sums over the places
  const u32 other = peer_address(counters, rank ^ 1);
  auto count_of = [&](u32 bits) {  // over the pair; the sum of two counters may pass 16 bits
    const u32 a = load_shared(counters + (bits >> 1) * 4), b = load_peer(other + (bits >> 1) * 4);
    return bits & 1 ? (a >> 16) + (b >> 16) : (a & 0xffffu) + (b & 0xffffu);
  };
  // A thread's 32 places are one aligned block of bits.
  const u32 block = rank ? 32768 + tid * 32 : 0x7fe0 - tid * 32;
  Sum mine = {0, 0};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    u32 a[4], b[4];
    load_shared_words(a, counters + block * 2 + i * 16);
    load_peer_words(b, other + block * 2 + i * 16);
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      const u32 bits = block + (i * 4 + q) * 2;
      u32 even = (a[q] & 0xffffu) + (b[q] & 0xffffu);
      const u32 odd = (a[q] >> 16) + (b[q] >> 16);
      if (i == 0 && q == 0) {
        if (bits == 0x8000u) even = 0;
        if (bits == 0) even += count_of(0x8000u);
      }
      if (even != 0) mine.mass += even * mass_of(bits), mine.count += even;
      if (odd != 0) mine.mass += odd * mass_of(bits + 1), mine.count += odd;
    }
  }
  const Sum through = inclusive(mine, lane);
  if (lane == 31) warp_sums[warp] = through;
  __syncthreads();
  Sum before = {0, 0}, all = {0, 0};
#pragma unroll 8
  for (int w = 0; w < WARPS; ++w) {
    if (w == warp) before = all;
    all.mass += warp_sums[w].mass, all.count += warp_sums[w].count;
  }
  if (tid == 0)
    store_both(halves_at + rank * 16, all.mass), store_both(halves_at + rank * 16 + 8, all.count);
  cluster_sync();
  u64 kept = halves[0][0] + halves[1][0];
  if (rank != 0) before.mass += halves[0][0], before.count += (u32)halves[0][1];
  before.mass += through.mass - mine.mass, before.count += through.count - mine.count;

  // A look-up: the warp of the thread whose places hold the answer spreads them over its lanes, one
  // each. answer(bits, elements there, mass of one, what lies before) in every lane.
  auto look_up = [&](bool owner, auto answer) {
    const u32 owners = __ballot_sync(RT_EVERY_LANE, owner);
    if (owners == 0) return;
    const int from = 31 - __clz(owners);
    const u32 place = rank * 32768 + (warp * 32 + from) * 32 + lane;
    const u32 bits = rank ? place : 0x7fffu - place;
    const u64 mass_before = shuffle(before.mass, from);
    const u32 count_before = __shfl_sync(RT_EVERY_LANE, before.count, from);
    const u32 count = bits == 0x8000u ? 0
                      : bits == 0     ? count_of(0) + count_of(0x8000u)
                                      : count_of(bits);
    const u64 each = count != 0 ? mass_of(bits) : 0;
    const Sum s = inclusive({each * count, count}, lane);
    answer(bits, count, each,
           Sum{mass_before + s.mass - each * count, count_before + s.count - count});
  };
  auto publish = [&](int slot, u64 mass, u32 bits, u64 ties) {
    store_both(found_at + slot * 24, mass);
    store_both(found_at + slot * 24 + 8, key_of(bits));
    store_both(found_at + slot * 24 + 16, ties);
  };
  u32 threshold = 0;  // elements above it are kept, and of those equal to it
  u64 ties = 0;       // so many
  if (k < V) {
    look_up(before.count < (u32)k && (u32)k <= before.count + mine.count,
            [&](u32 bits, u32 count, u64 each, Sum b) {
              if (b.count < (u32)k && (u32)k <= b.count + count)
                publish(0, b.mass + each * ((u32)k - b.count), bits, (u32)k - b.count);
            });
    cluster_sync();
    kept = found[0][0], threshold = (u32)found[0][1], ties = found[0][2];
  }
#if RT_HAS_TOP_P
  if (top_p[row] < 1.f) {
    // The shortest prefix whose mass reaches this share of what is left.
    const float p = fmaxf(top_p[row], 0.f);
    const u64 goal = max(multiply_shift<30>(kept, (u64)(p * 1073741824.f)), (u64)1);
    look_up(before.mass < goal && goal <= before.mass + mine.mass,
            [&](u32 bits, u32 count, u64 each, Sum b) {
              if (b.mass >= goal || goal > b.mass + each * count) return;
              const u64 wanted = (goal - b.mass + each - 1) / each;
              publish(1, b.mass + wanted * each, bits, wanted);
            });
    cluster_sync();
    kept = found[1][0], threshold = (u32)found[1][1], ties = found[1][2];
  }
#endif

  // ---- the draw, over the elements by index. They are read again (from L2): kept in registers
  // until now they would crowd out the scan.
  const u64 high = philox(0, seed[row], offset[row]) >> 2,
            low = philox(1, seed[row], offset[row]) >> 2;
  const u64 target = multiply_shift<60>(kept, high << 30 | low);
  const u64 tie_mass = threshold != 0 ? mass_of(bits_of(threshold)) : 0;
  auto running = [&](const Sum& s) {  // mass of the kept ones among elements with this sum
    return s.mass + tie_mass * (s.count < ties ? s.count : ties);
  };
  auto sum_of = [&](const u32(&w)[4]) {  // mass above the threshold, elements equal to it
    Sum s = {0, 0};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const u32 bits = element(w, i), key = key_of(bits);
      if (key > threshold) s.mass += mass_of(bits);
      s.count += key == threshold;
    }
    return s;
  };
#pragma unroll 1
  for (int j0 = 0; j0 < VECTORS; j0 += 4) {
    u32 w[4][4];
#pragma unroll
    for (int j = 0; j < 4; ++j)
      if ((j0 + j) * THREADS + tid < held) load16(w[j], x + ((j0 + j) * THREADS + tid) * 8);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      Sum s = {0, 0};
      if ((j0 + j) * THREADS + tid < held) s = sum_of(w[j]);
      s = warp_total(s);
      if (lane == 0) entry((j0 + j) * WARPS + warp) = s;
    }
  }
  __syncthreads();
  // Every warp scans the entries, VECTORS a lane.
  Sum lane_sum = {0, 0};
#pragma unroll
  for (int i = 0; i < VECTORS; ++i) {
    const Sum e = entry(lane * VECTORS + i);
    lane_sum.mass += e.mass, lane_sum.count += e.count;
  }
  Sum at = inclusive(lane_sum, lane);
  if (tid == 31)
    store_both(halves_at + rank * 16, at.mass), store_both(halves_at + rank * 16 + 8, at.count);
  cluster_sync();
  at.mass -= lane_sum.mass, at.count -= lane_sum.count;
  if (rank != 0) at.mass += halves[0][0], at.count += (u32)halves[0][1];
  int hit = -1;
  Sum hit_at = {0, 0};
#pragma unroll
  for (int i = 0; i < VECTORS; ++i) {
    const Sum e = entry(lane * VECTORS + i), next = {at.mass + e.mass, at.count + e.count};
    if (running(at) <= target && target < running(next)) hit = lane * VECTORS + i, hit_at = at;
    at = next;
  }
  const u32 who = __ballot_sync(RT_EVERY_LANE, hit >= 0);
  if (who != 0) {  // in one CTA of the pair
    const int from = 31 - __clz(who);
    hit = __shfl_sync(RT_EVERY_LANE, hit, from);
    hit_at = {shuffle(hit_at.mass, from), __shfl_sync(RT_EVERY_LANE, hit_at.count, from)};
    if (hit % WARPS == warp) {
      const int vector = hit / WARPS * THREADS + tid;
      const bool in = vector < held;
      u32 w[4];
      if (in) load16(w, x + vector * 8);
      const Sum own = in ? sum_of(w) : Sum{0, 0};
      Sum run = inclusive(own, lane);
      run.mass += hit_at.mass - own.mass, run.count += hit_at.count - own.count;
      u64 reached = running(run);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const u32 bits = element(w, i), key = key_of(bits);
        if (key > threshold) run.mass += mass_of(bits);
        run.count += key == threshold;
        const u64 next = running(run);
        if (in && reached <= target && target < next) out[row] = (begin + vector) * 8 + i;
        reached = next;
      }
    }
  }
  cluster_sync();  // shared memory stays until the peer has read it
}
