// SPDX-License-Identifier: Apache-2.0
// host_target(): what this machine has, from CPUID, from what the operating system saves at a
// context switch (XCR0), and from sysfs. A feature counts only if all of them have it: generated
// code may then use it without asking again. Overridden by ROOFTILE_ISA, ROOFTILE_NO_AMX and
// ROOFTILE_THREADS, which can only take away.
#include <cpuid.h>
#include <omp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>

#include "rooftile/base/env.h"
#include "rooftile/base/log.h"
#include "rooftile/compile/target.h"

namespace rooftile {

namespace {

struct CpuidLeaf {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

CpuidLeaf cpuid(unsigned leaf, unsigned subleaf = 0) {
  CpuidLeaf out;  // stays zero if the processor has no such leaf
  __get_cpuid_count(leaf, subleaf, &out.eax, &out.ebx, &out.ecx, &out.edx);
  return out;
}

bool bit(uint64_t word, int index) { return (word >> index & 1) != 0; }

// Register sets that the operating system keeps (Intel SDM vol. 1, 13.3): bits 1-2 SSE and AVX, 5-7
// AVX-512, 17-18 AMX. Zero without OSXSAVE.
uint64_t xcr0() {
  if (!bit(cpuid(1).ecx, 27)) return 0;
  uint32_t low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t{high} << 32 | low;
}

// Linux gives a process its AMX tile state only on request (Documentation/arch/x86/xstate.rst).
// Threads started later inherit it, and so do those of this process that are already running.
bool request_amx() {
  constexpr long kArchGetXcompPerm = 0x1022, kArchReqXcompPerm = 0x1023, kTileData = 18;
  if (syscall(SYS_arch_prctl, kArchReqXcompPerm, kTileData) != 0) return false;
  unsigned long granted = 0;
  return syscall(SYS_arch_prctl, kArchGetXcompPerm, &granted) == 0 && bit(granted, kTileData);
}

void find_features(TargetInfo& target) {
  const CpuidLeaf one = cpuid(1), seven = cpuid(7), seven_one = cpuid(7, 1);
  const uint64_t saved = xcr0();
  const bool os_avx = (saved & 0x6) == 0x6, os_avx512 = os_avx && (saved & 0xe0) == 0xe0;
  const bool os_amx = (saved & 0x60000) == 0x60000;

  const bool avx2 = os_avx && bit(one.ecx, 28) && bit(seven.ebx, 5) && bit(one.ecx, 12) &&
                    bit(one.ecx, 29);  // AVX, AVX2, FMA, F16C
  const bool avx512 = avx2 && os_avx512 && bit(seven.ebx, 16) && bit(seven.ebx, 17) &&
                      bit(seven.ebx, 30) && bit(seven.ebx, 31);  // F, DQ, BW, VL
  target.isa = avx512 ? "avx512" : avx2 ? "avx2" : "generic";
  if (!avx512) return;
  target.avx512_vnni = bit(seven.ecx, 11);
  target.avx512_bf16 = bit(seven_one.eax, 5);
  target.avx512_fp16 = bit(seven.edx, 23);
  if (!os_amx || !bit(seven.edx, 24) || env_flag(EnvVar::kNoAmx)) return;
  if (!request_amx()) return;
  target.amx_bf16 = bit(seven.edx, 22);
  target.amx_int8 = bit(seven.edx, 25);
}

// ROOFTILE_ISA as an upper limit. More than the machine has cannot be given, and is said.
void limit_isa(TargetInfo& target) {
  const std::optional<std::string> wanted = env_value(EnvVar::kIsa);
  if (!wanted || *wanted == target.isa) return;
  constexpr std::array<std::string_view, 3> kOrder = {"generic", "avx2", "avx512"};
  const auto rank = [&kOrder](std::string_view isa) {
    return std::find(kOrder.begin(), kOrder.end(), isa) - kOrder.begin();
  };
  if (rank(*wanted) == std::ssize(kOrder)) {
    log_warning("ROOFTILE_ISA=" + *wanted + " is none of avx512, avx2, generic; using " +
                target.isa);
    return;
  }
  if (rank(*wanted) > rank(target.isa)) {
    log_warning("ROOFTILE_ISA=" + *wanted + ": this machine has only " + target.isa);
    return;
  }
  target.isa = *wanted;
  target.avx512_vnni = target.avx512_bf16 = target.avx512_fp16 = false;
  target.amx_bf16 = target.amx_int8 = false;
}

std::string read_word(const std::string& path) {
  std::string word;
  std::ifstream(path) >> word;
  return word;
}

// "48K", "2048K", "260M" as sysfs writes them; 0 if it is anything else.
int64_t parse_size(const std::string& text) {
  char* end = nullptr;
  const long long value = std::strtoll(text.c_str(), &end, 10);
  if (end == text.c_str() || value <= 0) return 0;
  const int shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
  return int64_t{value} << shift;
}

// Sizes of the first core's data caches. Defaults stay where sysfs says nothing, as in some
// containers.
void find_caches(TargetInfo& target) {
  for (int index = 0; index < 8; ++index) {
    const std::string dir =
        "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/";
    const std::string level = read_word(dir + "level"), type = read_word(dir + "type");
    const int64_t bytes = parse_size(read_word(dir + "size"));
    if (bytes == 0 || type == "Instruction") continue;
    if (level == "1") target.l1_bytes = bytes;
    if (level == "2") target.l2_bytes = bytes;
    if (level == "3") target.l3_bytes = bytes;
  }
}

std::string processor_name() {
  if (cpuid(0x80000000).eax < 0x80000004) return "x86-64";
  char text[49] = {};
  for (unsigned i = 0; i < 3; ++i) {
    const CpuidLeaf part = cpuid(0x80000002 + i);
    std::memcpy(text + 16 * i, &part, 16);
  }
  std::string name = text;
  name.erase(0, name.find_first_not_of(' '));
  name.erase(name.find_last_not_of(' ') + 1);
  return name.empty() ? "x86-64" : name;
}

void find_threads(TargetInfo& target) {
  target.threads = omp_get_max_threads();  // follows OMP_NUM_THREADS and the affinity mask
  const std::optional<std::string> wanted = env_value(EnvVar::kThreads);
  if (!wanted) return;
  const int value = std::atoi(wanted->c_str());
  constexpr int kMaxThreads = 4096;
  if (value < 1 || value > kMaxThreads) {
    log_warning("ROOFTILE_THREADS=" + *wanted + " is not a number from 1 to 4096; using " +
                std::to_string(target.threads));
    return;
  }
  target.threads = value;
  omp_set_num_threads(value);  // so that parallel regions of the asking thread agree
}

TargetInfo find_host_target() {
  TargetInfo target;
  target.device = processor_name();
  find_features(target);
  limit_isa(target);
  find_caches(target);
  find_threads(target);
  return target;
}

}  // namespace

const TargetInfo& host_target() {
  static const TargetInfo target = find_host_target();
  return target;
}

}  // namespace rooftile
