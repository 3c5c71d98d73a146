// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <filesystem>

#include "rooftile/base/env.h"
#include "rooftile/cli/doctor.h"
#include "rooftile/runtime/cuda/gpu_state.h"
#include "rooftile/toolchain/cubin_cache.h"

namespace rooftile::cli {
namespace {

// "what happened: what was found; what to do"
std::string one_line(const Diag& diag) {
  std::string out = diag.message;
  if (!diag.found.empty()) out += ": " + diag.found;
  if (!diag.fix.empty()) out += "; " + diag.fix;
  return out;
}

std::string describe(const cuda::DeviceInfo& gpu) {
  // Two transfers a clock; the clock and the width are the driver's.
  const double tb_per_s = 2.0 * gpu.memory_clock_khz * 1e3 * gpu.memory_bus_bits / 8 / 1e12;
  std::string out = fmt::format(
      "{} ({}), compute capability {}.{}, {} SMs, {} GB, L2 {} MB, {} KB of shared "
      "memory a block",
      gpu.name, gpu.pci, gpu.cc_major, gpu.cc_minor, gpu.num_sms, gpu.memory_bytes >> 30,
      gpu.l2_bytes >> 20, gpu.smem_per_block_bytes >> 10);
  if (gpu.clock_khz > 0) out += fmt::format(", up to {} MHz", gpu.clock_khz / 1000);
  if (tb_per_s > 0) out += fmt::format(", memory up to {:.1f} TB/s", tb_per_s);
  return out;
}

void add_devices(const cuda::GpuState& state, std::vector<Finding>& out) {
  if (state.no_driver) {
    out.push_back({"CUDA driver", "absent", one_line(*state.no_driver)});
    return;
  }
  out.push_back({"CUDA driver", "ok",
                 fmt::format("{}, for CUDA {}; {} GPU{}", state.driver_path,
                             cuda::cuda_version_text(state.driver_version), state.gpus.size(),
                             state.gpus.size() == 1 ? "" : "s")});
  for (const cuda::GpuState::Gpu& gpu : state.gpus) {
    std::string detail = describe(gpu.info);
    for (const std::string& reason : gpu.why_not) detail += "; not usable: " + reason;
    out.push_back({fmt::format("GPU {}", gpu.info.ordinal), gpu.why_not.empty() ? "ok" : "off",
                   std::move(detail)});
  }
}

Finding nvrtc(const cuda::GpuState& gpus) {
  Result<const Nvrtc*> loaded = Nvrtc::load();
  if (!loaded.ok())
    return {"NVRTC", find_nvrtc().ok() ? "broken" : "absent", one_line(loaded.diag())};
  const NvrtcLocation& location = (*loaded)->location();
  std::string detail = fmt::format("{}; {} ({})", (*loaded)->name(), location.path, location.how);
  const std::string too_new =
      gpus.any_usable() ? cuda::why_code_too_new((*loaded)->major(), gpus.driver_version) : "";
  if (!too_new.empty()) return {"NVRTC", "broken", detail + "; " + too_new};
  return {"NVRTC", "ok", std::move(detail)};
}

struct Folder {
  int cubins = 0;
  uintmax_t bytes = 0;
};

Folder count_cubins(const std::string& dir) {
  Folder out;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(dir, ignored))
    if (entry.path().extension() == ".cubin") {
      ++out.cubins;
      out.bytes += entry.file_size(ignored);
    }
  return out;
}

void add_cubins(std::vector<Finding>& out) {
  const auto carried = env_value(EnvVar::kCubinDir);
  const auto cache = CubinCache::open();
  if (!cache.ok()) {
    out.push_back({"GPU kernels", "broken", one_line(cache.diag())});
    return;
  }
  const Folder own = count_cubins(cache->dir());
  out.push_back({"GPU kernels", "ok",
                 fmt::format("{} compiled, {:.1f} MB, in the kernel cache", own.cubins,
                             static_cast<double>(own.bytes) / 1e6)});
  if (!carried) return;
  const Folder folder = count_cubins(cache->carried_dir());
  out.push_back(
      {"carried GPU kernels", folder.cubins > 0 ? "ok" : "absent",
       fmt::format("{} in {}, used before any others", folder.cubins, cache->carried_dir())});
}

}  // namespace

void add_gpu_findings(std::vector<Finding>& out) {
  const cuda::GpuState gpus = cuda::gpu_state();
  add_devices(gpus, out);
  out.push_back(nvrtc(gpus));
  add_cubins(out);
}

}  // namespace rooftile::cli
