// SPDX-License-Identifier: Apache-2.0
#include "rooftile/bench/cuda/ceiling_kernels.h"

#include <fmt/format.h>

namespace rooftile::bench {
namespace {

// ---- products ----------------------------------------------------------------------------------

// Two warpgroups a block, each m64n256: the largest shape, whose operands the shared memory
// delivers in less time than the tensor cores need.
constexpr int kWarpgroups = 2, kM = 64, kN = 256;
constexpr int kRowBytes = 128;  // of K in shared memory: one row of the 128-byte swizzle
constexpr int kStepBytes = 32;  // of K, a wgmma
constexpr int kStepsPerGroup = 16;
constexpr uint32_t kSmemBytes = 1024 + (kWarpgroups * kM + kN) * kRowBytes;

struct Product {
  const char *dtype, *types;  // as PTX has them: "f32.bf16.bf16"
  int element_bytes;
  const char* register_class;  // of an accumulator
  const char* immediates;      // behind the descriptors and the accumulate predicate
  uint32_t keep, set;          // of a random word: finite numbers around 1
};
constexpr Product kProducts[] = {
    {"bf16", "f32.bf16.bf16", 2, "f", ", 1, 1, 0, 0", 0x807f807fu, 0x3f003f00u},
    {"f16", "f32.f16.f16", 2, "f", ", 1, 1, 0, 0", 0x83ff83ffu, 0x38003800u},
    {"f8e4m3", "f32.e4m3.e4m3", 1, "f", ", 1, 1", 0x87878787u, 0x30303030u},
    {"i8", "s32.s8.s8", 1, "r", "", 0xffffffffu, 0u},
};

std::string symbol_of(const Product& product) { return std::string("rt_peak_") + product.dtype; }

int k_of(const Product& product) { return kStepBytes / product.element_bytes; }

std::string wgmma(const Product& product) {
  constexpr int kAccumulators = kN / 2;  // registers a thread
  std::string list, operands;
  for (int i = 0; i < kAccumulators; ++i) {
    list += fmt::format("{}%{}", i == 0 ? "" : ", ", i);
    operands += fmt::format("{}\"+{}\"(acc[{}])", i == 0 ? "" : ", ", product.register_class, i);
  }
  return fmt::format(
      "asm volatile(\"wgmma.mma_async.sync.aligned.m64n256k{}.{} {{{}}}, %{}, %{}, 1{};\"\n"
      "        : {}\n        : \"l\"(a), \"l\"(b));",
      k_of(product), product.types, list, kAccumulators, kAccumulators + 1, product.immediates,
      operands);
}

// Descriptors: address / 16, stride of 8 rows / 16 at bit 32, swizzle of 128 bytes at bit 62.
constexpr const char* kProductText = R"(
extern "C" __global__ void __launch_bounds__({threads}, 1) {symbol}(float* out, int iterations) {{
  extern __shared__ unsigned char raw[];
  const unsigned base = (static_cast<unsigned>(__cvta_generic_to_shared(raw)) + 1023) & ~1023u;
  unsigned state = threadIdx.x * 2654435761u + blockIdx.x + 1;
  for (unsigned at = threadIdx.x * 4; at < {bytes}u; at += {threads}u * 4) {{
    state = state * 1664525u + 1013904223u;
    const unsigned word = ((state >> 16) | (state << 16)) & {keep}u | {set}u;
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(base + at), "r"(word));
  }}
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  const unsigned long long fixed = (1ull << 62) | (64ull << 32) | (1ull << 16);
  const unsigned smem_a = base + (threadIdx.x / 128) * {a_bytes}u, smem_b = base + {b_offset}u;
  {type} acc[128];
  for (int i = 0; i < 128; ++i) acc[i] = 0;
  for (int i = 0; i < iterations; ++i) {{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int step = 0; step < {steps}; ++step) {{
      const unsigned long long a = fixed | ((smem_a + step % 4 * 32) >> 4);
      const unsigned long long b = fixed | ((smem_b + step % 4 * 32) >> 4);
      {wgmma}
    }}
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  }}
  float sum = 0;
  for (int i = 0; i < 128; ++i) sum += static_cast<float>(acc[i]);
  if (sum == 12345.678f) out[threadIdx.x] = sum;
}}
)";

std::string product_text(const Product& product) {
  return fmt::format(kProductText, fmt::arg("threads", kWarpgroups * 128),
                     fmt::arg("symbol", symbol_of(product)), fmt::arg("bytes", kSmemBytes - 1024),
                     fmt::arg("keep", product.keep), fmt::arg("set", product.set),
                     fmt::arg("a_bytes", kM * kRowBytes),
                     fmt::arg("b_offset", kWarpgroups * kM * kRowBytes),
                     fmt::arg("type", *product.register_class == 'f' ? "float" : "int"),
                     fmt::arg("steps", kStepsPerGroup), fmt::arg("wgmma", wgmma(product)));
}

// ---- multiply-adds, streams, nothing -----------------------------------------------------------

constexpr int kChains = 16;  // independent ones a thread: the latency is 4 cycles
constexpr uint32_t kFmaThreads = 1024;

constexpr const char* kRest = R"(
extern "C" __global__ void __launch_bounds__(1024, 1) rt_peak_f32(float* out, int iterations) {
  float x[16];
  for (int i = 0; i < 16; ++i) x[i] = threadIdx.x * 0.001f + i;
  const float scale = 0.999f + blockIdx.x * 1e-9f;
  for (int i = 0; i < iterations; ++i)
#pragma unroll
    for (int chain = 0; chain < 16; ++chain) x[chain] = __fmaf_rn(x[chain], scale, 0.5f);
  float sum = 0;
  for (int i = 0; i < 16; ++i) sum += x[i];
  if (sum == 12345.678f) out[threadIdx.x] = sum;
}

// Four vectors of 16 bytes a thread in flight, neighbours side by side.
extern "C" __global__ void __launch_bounds__(512) rt_read(const uint4* from, long long bytes,
                                                          unsigned* out) {
  const long long count = bytes / 16, step = 512ll * 4 * gridDim.x;
  unsigned all = 0;
  for (long long at = blockIdx.x * 2048ll + threadIdx.x; at < count; at += step) {
    uint4 v[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(v[i].x), "=r"(v[i].y), "=r"(v[i].z), "=r"(v[i].w)
                   : "l"(from + at + i * 512));
#pragma unroll
    for (int i = 0; i < 4; ++i) all ^= v[i].x ^ v[i].y ^ v[i].z ^ v[i].w;
  }
  if (all == 0x9e3779b9u) out[0] = all;
}

extern "C" __global__ void __launch_bounds__(512) rt_copy(uint4* to, const uint4* from,
                                                          long long bytes) {
  const long long count = bytes / 16, step = 512ll * 4 * gridDim.x;
  for (long long at = blockIdx.x * 2048ll + threadIdx.x; at < count; at += step) {
    uint4 v[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(v[i].x), "=r"(v[i].y), "=r"(v[i].z), "=r"(v[i].w)
                   : "l"(from + at + i * 512));
#pragma unroll
    for (int i = 0; i < 4; ++i)
      asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to + at + i * 512),
                   "r"(v[i].x), "r"(v[i].y), "r"(v[i].z), "r"(v[i].w)
                   : "memory");
  }
}

extern "C" __global__ void rt_empty() {}
)";

}  // namespace

std::vector<DevicePeakKernel> device_peak_kernels() {
  std::vector<DevicePeakKernel> out = {
      {"f32", "fma", "rt_peak_f32", 2.0 * kChains * kFmaThreads, kFmaThreads, 0}};
  for (const Product& product : kProducts)
    out.push_back({product.dtype, fmt::format("wgmma m64n256k{}", k_of(product)),
                   symbol_of(product), 2.0 * kM * kN * k_of(product) * kStepsPerGroup * kWarpgroups,
                   kWarpgroups * 128, kSmemBytes});
  return out;
}

std::string ceiling_kernels_text() {
  std::string out = "// Ceilings of a Hopper GPU.\n";
  for (const Product& product : kProducts) out += product_text(product);
  return out + kRest;
}

}  // namespace rooftile::bench
