// SPDX-License-Identifier: Apache-2.0
// What hand-written texts for sm_90a have in common: one function an instruction. Put before each
// text by the compiler, behind types, numbers and products (ops/raw_kernel.h). No includes.

#define RT_DEVICE static __device__ __forceinline__
#define RT_NEG_INF __int_as_float(0xff800000)
#define RT_EVERY_LANE 0xffffffffu

// ---- addresses, elections, roles ----------------------------------------------------------------

RT_DEVICE u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }

// True in one lane of a converged warp. Unlike `lane == 0` it tells ptxas that a single thread runs
// the branch, so that TMA operands go to uniform registers without a loop around each copy.
RT_DEVICE bool elect_one() {
  u32 p;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(p));
  return p != 0;
}

template <int N>
RT_DEVICE void regs_grow() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}

template <int N>
RT_DEVICE void regs_shrink() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}

// ---- barriers -----------------------------------------------------------------------------------

RT_DEVICE void barrier_init(u32 bar, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(arrivals) : "memory");
}

RT_DEVICE void barrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

RT_DEVICE void barrier_expect(u32 bar, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes)
               : "memory");
}

RT_DEVICE void barrier_arrive(u32 bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}

RT_DEVICE void barrier_wait(u32 bar, u32 parity) {
  asm volatile(
      "{\n.reg .pred p;\n"
      "WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
      "@p bra DONE;\nbra WAIT;\nDONE:\n}" ::"r"(bar),
      "r"(parity)
      : "memory");
}

RT_DEVICE void named_sync(u32 id, u32 threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

RT_DEVICE void named_arrive(u32 id, u32 threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// ---- clusters -----------------------------------------------------------------------------------

// Arrives on the barrier at the same offset in CTA `cta` of the cluster. Relaxed on purpose: it
// says "these reads are over" and publishes no data. The release.cluster form costs a
// MEMBAR.ALL.GPU in every step of a product, a quarter of the speed of the whole kernel (measured:
// H200, 8192^3).
RT_DEVICE void barrier_arrive_remote(u32 bar, u32 cta) {
  asm volatile(
      "{\n.reg .b32 r;\nmapa.shared::cluster.u32 r, %0, %1;\n"
      "mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [r];\n}" ::"r"(bar),
      "r"(cta)
      : "memory");
}

// The same with release: whatever this thread saw or wrote before is ordered before the arrival.
RT_DEVICE void barrier_arrive_remote_release(u32 bar, u32 cta) {
  asm volatile(
      "{\n.reg .b32 r;\nmapa.shared::cluster.u32 r, %0, %1;\n"
      "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [r];\n}" ::"r"(bar),
      "r"(cta)
      : "memory");
}

RT_DEVICE void barrier_wait_cluster(u32 bar, u32 parity) {
  asm volatile(
      "{\n.reg .pred p;\n"
      "WAIT:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], %1;\n"
      "@p bra DONE;\nbra WAIT;\nDONE:\n}" ::"r"(bar),
      "r"(parity)
      : "memory");
}

// Relaxed: fence.mbarrier_init has already published the barriers to the cluster.
RT_DEVICE void cluster_arrive() { asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory"); }
// What the CTA wrote before (its other threads behind a __syncthreads) is seen by who waits.
RT_DEVICE void cluster_arrive_release() {
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
}
RT_DEVICE void cluster_wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }

RT_DEVICE void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::
                   : "memory");
}

RT_DEVICE u32 cluster_rank() {
  u32 r;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
  return r;
}

// The address of the same place in another CTA of the cluster.
RT_DEVICE u32 peer_address(u32 address, u32 cta) {
  u32 r;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(address), "r"(cta));
  return r;
}

// Sends 16 bytes to a peer's shared memory; they count towards the peer's barrier, which orders
// them for whoever waits on it. No fence is needed on either side.
RT_DEVICE void store_async4(u32 address, u32 bar, float a, float b, float c, float d) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%2, %3, %4, %5}, "
      "[%1];" ::"r"(address),
      "r"(bar), "f"(a), "f"(b), "f"(c), "f"(d)
      : "memory");
}

// ---- the copy engine ----------------------------------------------------------------------------

// L2 policies: what createpolicy.fractional.L2 returns for fraction 1.
#define RT_L2_EVICT_FIRST 0x12F0000000000000ull
#define RT_L2_EVICT_LAST 0x14F0000000000000ull
#define RT_L2_NORMAL 0x1000000000000000ull

RT_DEVICE void map_prefetch(const TensorMap& m) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&m) : "memory");
}

// Coordinates innermost first.
RT_DEVICE void tma_load(u32 dst, const TensorMap& m, u32 bar, int x, int y, u64 policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".L2::cache_hint [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(dst),
      "l"(&m), "r"(bar), "r"(x), "r"(y), "l"(policy)
      : "memory");
}

RT_DEVICE void tma_load(u32 dst, const TensorMap& m, u32 bar, int x, int y, int z, u64 policy) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".L2::cache_hint [%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(dst),
      "l"(&m), "r"(bar), "r"(x), "r"(y), "r"(z), "l"(policy)
      : "memory");
}

RT_DEVICE void tma_load_multicast(u32 dst, const TensorMap& m, u32 bar, int x, int y, u32 mask,
                                  u64 policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".multicast::cluster.L2::cache_hint [%0], [%1, {%3, %4}], [%2], %5, %6;" ::"r"(dst),
      "l"(&m), "r"(bar), "r"(x), "r"(y), "h"((u16)mask), "l"(policy)
      : "memory");
}

RT_DEVICE void tma_store(const TensorMap& m, u32 src, int x, int y, u64 policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group.L2::cache_hint"
      " [%0, {%2, %3}], [%1], %4;" ::"l"(&m),
      "r"(src), "r"(x), "r"(y), "l"(policy)
      : "memory");
}

RT_DEVICE void bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

template <int N>
RT_DEVICE void bulk_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
}

RT_DEVICE void async_proxy_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// ---- tensor cores -------------------------------------------------------------------------------

RT_DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
RT_DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

template <int N>
RT_DEVICE void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

// Ties registers to this point of the program: what computes or reads them may not cross it.
template <int N>
RT_DEVICE void pin(float (&r)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+f"(r[i])::"memory");
}
template <int N>
RT_DEVICE void pin(u32 (&r)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+r"(r[i])::"memory");
}

// ---- arithmetic ---------------------------------------------------------------------------------

RT_DEVICE float exp2_fast(float x) {  // subnormal results are 0; 2 ulp
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

RT_DEVICE float log2_fast(float x) {
  float y;
  asm("lg2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

RT_DEVICE float reciprocal_fast(float x) {  // 1 ulp
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

RT_DEVICE u32 pack_bf16(float low, float high) {
  u32 r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}

// ---- 16 bytes at a time -------------------------------------------------------------------------

RT_DEVICE void store_global4(void* dst, u32 a, u32 b, u32 c, u32 d) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(dst), "r"(a), "r"(b), "r"(c), "r"(d)
               : "memory");
}

RT_DEVICE float4 load_shared4(u32 address) {
  float4 v;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "r"(address)
               : "memory");
  return v;
}

RT_DEVICE void store_shared4(u32 address, float a, float b, float c, float d) {
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(a), "f"(b), "f"(c),
               "f"(d)
               : "memory");
}
