// SPDX-License-Identifier: Apache-2.0
#include "rooftile/bench/peak_kernels.h"

namespace rooftile::bench {
namespace {

// A loop of `body` in one asm statement, so that no compiler can move, fold or spill anything. %0
// counts down, %1 points at 64 bytes of small non-zero numbers.
std::string loop_text(const std::string& symbol, const std::string& prologue,
                      const std::string& body, const std::string& epilogue, int num_clobbers) {
  std::string clobbers;
  for (int i = 0; i < num_clobbers; ++i) clobbers += ", \"xmm" + std::to_string(i) + "\"";
  // 0x3c003c00 is 0.0078 as f32 and twice 0.0078 as bf16: sums grow slowly and stay normal.
  return "alignas(64) static int " + symbol +
         "_data[256] = {\n#define W 0x3c003c00,\n#define W16 W W W W W W W W W W W W W W W W\n"
         "W16 W16 W16 W16 W16 W16 W16 W16 W16 W16 W16 W16 W16 W16 W16 W16\n#undef W16\n#undef "
         "W\n};\n"
         "extern \"C\" void " +
         symbol +
         "(long iterations) {\n"
         "  long stride = 64;\n"
         "  asm volatile(\"" +
         prologue + "1:\\n" + body + "dec %0\\n jnz 1b\\n" + epilogue +
         "\"\n    : \"+r\"(iterations) : \"r\"(" + symbol +
         "_data), \"r\"(stride) : \"memory\", \"cc\"" + clobbers + ");\n}\n";
}

// `count` independent accumulators 0..count-1, each updated by `instruction` from the two registers
// after them. Twelve or more cover the latency of any multiply-add.
PeakKernel vector_loop(const std::string& dtype, const std::string& mechanism,
                       const std::string& instruction, const std::string& reg, int count,
                       double flops_per_instruction) {
  PeakKernel kernel{
      dtype, mechanism, "rt_peak_" + dtype + "_" + instruction, count * flops_per_instruction,
      false, ""};
  auto name = [&reg](int index) { return "%%" + reg + std::to_string(index); };
  const bool evex = reg == "zmm";
  std::string prologue, body;
  for (int i = 0; i < count + 2; ++i)
    prologue += (evex ? "vmovups (%1), " : "vmovups (%1), ") + name(i) + "\\n ";
  for (int i = 0; i < count; ++i)
    body += instruction + " " + name(count) + ", " + name(count + 1) + ", " + name(i) + "\\n ";
  kernel.text = loop_text(kernel.symbol, prologue, body, "vzeroupper\\n", count + 2);
  return kernel;
}

// SSE2, the x86-64 baseline: a multiply and an add are two instructions.
PeakKernel baseline_loop() {
  constexpr int kSums = 14;
  PeakKernel kernel{"f32", "mulps addps", "rt_peak_f32_sse", kSums * 4 * 2, false, ""};
  std::string prologue = "movups (%1), %%xmm14\\n ", body;
  for (int i = 0; i < kSums; ++i) {
    const std::string sum = "%%xmm" + std::to_string(i);
    prologue += "movups (%1), " + sum + "\\n ";
    body += "mulps %%xmm14, " + sum + "\\n addps %%xmm14, " + sum + "\\n ";
  }
  kernel.text = loop_text(kernel.symbol, prologue, body, "", 15);
  return kernel;
}

// Without dot-product instructions, bytes are multiplied in three steps: 32 multiply-adds a vector.
PeakKernel avx2_bytes_loop() {
  constexpr int kSums = 6;
  PeakKernel kernel{"i8", "vpmaddubsw", "rt_peak_i8_avx2", kSums * 32 * 2, false, ""};
  std::string prologue = "vmovups (%1), %%ymm14\\n vmovups (%1), %%ymm15\\n ", body;
  for (int i = 0; i < kSums; ++i) {
    const std::string sum = "%%ymm" + std::to_string(i), part = "%%ymm" + std::to_string(i + kSums);
    prologue += "vpxor " + sum + ", " + sum + ", " + sum + "\\n ";
    body += "vpmaddubsw %%ymm14, %%ymm15, " + part + "\\n vpmaddwd %%ymm15, " + part + ", " + part +
            "\\n vpaddd " + part + ", " + sum + ", " + sum + "\\n ";
  }
  kernel.text = loop_text(kernel.symbol, prologue, body, "vzeroupper\\n", 16);
  return kernel;
}

// Six accumulator tiles of 16x16, two operand tiles of 16 rows x 64 bytes.
PeakKernel amx_loop(const std::string& dtype, const std::string& instruction, int k_per_tile) {
  constexpr int kSums = 6;
  PeakKernel kernel{dtype, "amx", "rt_peak_" + dtype + "_amx", kSums * 16.0 * 16 * k_per_tile * 2,
                    true,  ""};
  std::string prologue = "ldtilecfg " + kernel.symbol + "_config(%%rip)\\n ", body;
  for (int i = 0; i < kSums; ++i) prologue += "tilezero %%tmm" + std::to_string(i) + "\\n ";
  prologue += "tileloadd (%1,%2,1), %%tmm6\\n tileloadd (%1,%2,1), %%tmm7\\n ";
  for (int i = 0; i < kSums; ++i)
    body += instruction + " %%tmm6, %%tmm7, %%tmm" + std::to_string(i) + "\\n ";
  // Palette 1; 64 bytes and 16 rows for each of the eight tiles (Intel SDM, LDTILECFG).
  kernel.text = "extern \"C\" { extern unsigned char " + kernel.symbol +
                "_config[64]; }\n"
                "__attribute__((visibility(\"hidden\"), aligned(64))) unsigned char " +
                kernel.symbol +
                "_config[64] = {1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,\n"
                "  64, 0, 64, 0, 64, 0, 64, 0, 64, 0, 64, 0, 64, 0, 64, 0,\n"
                "  0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,\n"
                "  16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0};\n" +
                loop_text(kernel.symbol, prologue, body, "tilerelease\\n", 0);
  return kernel;
}

}  // namespace

std::vector<PeakKernel> peak_kernels(const TargetInfo& target) {
  std::vector<PeakKernel> kernels;
  if (target.isa == "avx512") {
    kernels.push_back(vector_loop("f32", "fma zmm", "vfmadd231ps", "zmm", 24, 16 * 2));
    if (target.avx512_bf16)
      kernels.push_back(vector_loop("bf16", "vdpbf16ps", "vdpbf16ps", "zmm", 24, 32 * 2));
    if (target.avx512_vnni)
      kernels.push_back(vector_loop("i8", "vpdpbusd", "vpdpbusd", "zmm", 24, 64 * 2));
  } else if (target.isa == "avx2") {
    kernels.push_back(vector_loop("f32", "fma ymm", "vfmadd231ps", "ymm", 12, 8 * 2));
    kernels.push_back(avx2_bytes_loop());
  } else {
    kernels.push_back(baseline_loop());
  }
  if (target.amx_bf16) kernels.push_back(amx_loop("bf16", "tdpbf16ps", 32));
  if (target.amx_int8) kernels.push_back(amx_loop("i8", "tdpbssd", 64));
  return kernels;
}

std::string stream_kernels_text(const TargetInfo& target) {
  // A line at a time in eight streams (read) or four (copy): enough misses in flight for one core.
  const std::string store =
      target.isa == "avx512" ? "asm volatile(\"vmovntps %1, %0\" : \"=m\"(*to) : \"v\"(value));"
      : target.isa == "avx2" ? "for (int h = 0; h < 2; ++h) asm volatile(\"vmovntps %1, %0\" : "
                               "\"=m\"(((Half*)to)[h]) : \"x\"(((const Half*)&value)[h]));"
                             : "for (int h = 0; h < 4; ++h) asm volatile(\"movntps %1, %0\" : "
                               "\"=m\"(((Quarter*)to)[h]) : \"x\"(((const Quarter*)&value)[h]));";
  return R"(typedef int Line __attribute__((vector_size(64), may_alias));
typedef int Half __attribute__((vector_size(32), may_alias));
typedef int Quarter __attribute__((vector_size(16), may_alias));
static inline void store(Line* to, Line value) { )" +
         store + R"( }
extern "C" void rt_stream_read(const char* from, long bytes) {
  const Line* p = (const Line*)from;
  const long n = bytes / 64 / 8;
  Line a{}, b{}, c{}, d{};
  for (long i = 0; i < n; ++i) {
    a ^= p[i] ^ p[i + 4 * n];
    b ^= p[i + n] ^ p[i + 5 * n];
    c ^= p[i + 2 * n] ^ p[i + 6 * n];
    d ^= p[i + 3 * n] ^ p[i + 7 * n];
  }
  a ^= b ^ c ^ d;
  volatile int sink = a[0];
  (void)sink;
}
extern "C" void rt_stream_copy(char* to, const char* from, long bytes) {
  const Line* p = (const Line*)from;
  Line* q = (Line*)to;
  const long n = bytes / 64;
  for (long i = 0; i < n; ++i) store(q + i, p[i]);
  asm volatile("sfence" ::: "memory");
}
)";
}

}  // namespace rooftile::bench
