// SPDX-License-Identifier: Apache-2.0
#include "rooftile/bench/cuda/device_ceilings.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <mutex>
#include <sstream>

#include "rooftile/base/log.h"
#include "rooftile/bench/ceilings_file.h"
#include "rooftile/bench/cuda/ceiling_kernels.h"
#include "rooftile/bench/cuda/device_race.h"
#include "rooftile/bench/provenance.h"
#include "rooftile/runtime/cuda/launch.h"
#include "rooftile/toolchain/cubin_cache.h"

namespace rooftile::bench {
namespace {

// Part of the key of what is kept: raise it when the measurement changes.
constexpr int kVersion = 1;
constexpr int64_t kStreamBytes = int64_t{2} << 30;  // of 50 MB of L2
constexpr int kSamples = 9;
constexpr double kPeakSampleUs = 5000;
constexpr uint32_t kBlocksPerSm = 4;  // of a stream: 2048 threads

DeviceRaceOptions best_of(int samples) {
  DeviceRaceOptions options;
  options.timing.rounds = options.timing.min_rounds = samples;
  return options;
}

// A kernel whose arguments are bound.
DeviceContestant launcher(const cuda::Device& device, const cuda::Kernel& kernel,
                          cuda::LaunchConfig config, std::vector<uint64_t> arguments) {
  return {kernel.spec().name,
          [&device, &kernel, config, arguments = std::move(arguments)](size_t) mutable {
            void* pointers[8];
            for (size_t i = 0; i < arguments.size(); ++i) pointers[i] = &arguments[i];
            return cuda::launch(kernel, device, config, pointers);
          }};
}

uint64_t address(const cuda::DeviceBuffer& buffer, int64_t offset = 0) {
  return reinterpret_cast<uintptr_t>(buffer.data()) + static_cast<uint64_t>(offset);
}

class Calibration {
 public:
  Calibration(const cuda::Device& device, cuda::Stream stream, cuda::DeviceBuffer memory)
      : device_(device), stream_(std::move(stream)), memory_(std::move(memory)) {}

  Result<Ceilings> measure() {
    Ceilings out;
    out.device = device_.info().name;
    out.isa = "sm_90a";
    out.target_key = sm90_target().key();
    out.threads = 0;
    const std::vector<DevicePeakKernel> kernels = device_peak_kernels();
    Progress progress("calibrate", static_cast<int>(kernels.size()) + 2);
    for (const DevicePeakKernel& kernel : kernels) {
      progress.step(kernel.dtype + " " + kernel.mechanism);
      auto peak = measure_peak(kernel);
      if (!peak) return peak.status();
      out.peaks[kernel.dtype] = out.peaks[kernel.dtype + "/" + kernel.mechanism] = *peak;
    }
    progress.step("memory");
    RT_RETURN_IF_ERROR(measure_bandwidth(out));
    progress.step("launch");
    auto empty = best_us("rt_empty", {.block = {32, 1, 1}, .stream = stream_.get()}, {});
    if (!empty) return empty.status();
    out.launch_us = *empty;
    out.measured_at = utc_now();
    return out;
  }

 private:
  // The least time of one launch.
  Result<double> best_us(const std::string& symbol, const cuda::LaunchConfig& config,
                         std::vector<uint64_t> arguments) {
    auto kernel = ceiling_kernel(device_, symbol, config.dynamic_smem_bytes);
    if (!kernel) return kernel.status();
    auto race =
        device_race(device_, stream_.get(),
                    {launcher(device_, **kernel, config, std::move(arguments))}, best_of(kSamples));
    if (!race) return race.status();
    return race->timings[0].quantile(0);
  }

  // The best of several samples: a ceiling is what the device can do undisturbed.
  Result<Peak> measure_peak(const DevicePeakKernel& kernel) {
    const cuda::LaunchConfig config = {
        .grid = {static_cast<uint32_t>(device_.info().num_sms), 1, 1},
        .block = {kernel.threads, 1, 1},
        .dynamic_smem_bytes = kernel.smem_bytes,
        .stream = stream_.get()};
    uint64_t iterations = 1000;
    auto us = best_us(kernel.symbol, config, {address(memory_), iterations});
    if (!us) return us.status();
    iterations = static_cast<uint64_t>(static_cast<double>(iterations) * kPeakSampleUs / *us) + 1;
    us = best_us(kernel.symbol, config, {address(memory_), iterations});
    if (!us) return us.status();
    const double flops =
        kernel.flops_per_iteration * static_cast<double>(iterations) * device_.info().num_sms;
    return Peak{flops / *us * 1e-3, kernel.mechanism};
  }

  // The better of the driver's copy and a kernel's.
  Status measure_bandwidth(Ceilings& out) {
    const int64_t bytes = memory_.bytes() / 2 / kStreamChunk * kStreamChunk;
    const cuda::LaunchConfig config = {
        .grid = {static_cast<uint32_t>(device_.info().num_sms) * kBlocksPerSm, 1, 1},
        .block = {kStreamThreads, 1, 1},
        .stream = stream_.get()};
    auto read = best_us("rt_read", config,
                        {address(memory_), static_cast<uint64_t>(bytes), address(memory_)});
    if (!read) return read.status();
    auto copy = best_us("rt_copy", config,
                        {address(memory_, bytes), address(memory_), static_cast<uint64_t>(bytes)});
    if (!copy) return copy.status();
    auto* first = static_cast<std::byte*>(memory_.data());
    auto driver = device_race(device_, stream_.get(),
                              {{"driver",
                                [&](size_t) {
                                  return cuda::copy_on_device(device_, first + bytes, first, bytes,
                                                              stream_.get());
                                }}},
                              best_of(kSamples));
    if (!driver) return driver.status();
    const auto amount = static_cast<double>(bytes);
    out.read_gb_per_s = amount / *read * 1e-3;
    out.copy_gb_per_s = 2 * amount / std::min(*copy, driver->timings[0].quantile(0)) * 1e-3;
    return {};
  }

  const cuda::Device& device_;
  cuda::Stream stream_;
  cuda::DeviceBuffer memory_;
};

Result<Ceilings> measure(const cuda::Device& device) {
  auto stream = cuda::Stream::create(device);
  if (!stream) return stream.status();
  auto memory = cuda::DeviceBuffer::allocate(device, 2 * kStreamBytes);
  if (!memory) return memory.status();
  // Zeros would be moved and multiplied with less power, hence faster, than numbers are.
  RT_RETURN_IF_ERROR(cuda::fill(device, memory->data(), 0x5a, memory->bytes(), stream->get()));
  return Calibration(device, std::move(*stream), std::move(*memory)).measure();
}

std::string key_of(const cuda::Device& device) {
  return device.info().name + "|" + std::to_string(device.info().num_sms) + "|cuda|" +
         std::to_string(kVersion);
}

}  // namespace

Result<const cuda::Kernel*> ceiling_kernel(const cuda::Device& device, const std::string& symbol,
                                           uint32_t smem_bytes) {
  auto cubin = compile_cubin_cached(ceiling_kernels_text(), {}, "ceilings");
  if (!cubin) return cubin.status();
  auto module = cuda::Module::load(device, cubin->binary.cubin, "ceilings");
  if (!module) return module.status();
  auto kernel = (*module)->kernel({.name = symbol, .dynamic_smem_bytes = smem_bytes});
  if (!kernel) return kernel.status();
  RT_RETURN_IF_ERROR((*kernel)->prepare(device));
  return kernel;
}

Result<Ceilings> calibrate_device(const cuda::Device& device) {
  auto file = CeilingsFile::open(key_of(device));
  if (!file) return file.status();
  auto measured = measure(device);
  if (!measured) return measured;
  RT_RETURN_IF_ERROR(file->write(*measured));
  return measured;
}

Result<Ceilings> device_ceilings(const cuda::Device& device) {
  static std::mutex mutex;
  static std::map<const cuda::Device*, Ceilings> known;
  const std::lock_guard lock(mutex);
  if (const auto at = known.find(&device); at != known.end()) return at->second;
  auto file = CeilingsFile::open(key_of(device));
  if (!file) return file.status();
  auto kept = file->read();
  if (!kept) kept = calibrate_device(device);
  if (kept) known.emplace(&device, *kept);
  return kept;
}

Result<L2Sweep> L2Sweep::make(const cuda::Device& device, cuda::abi::Stream stream) {
  auto kernel = ceiling_kernel(device, "rt_read");
  if (!kernel) return kernel.status();
  const int64_t bytes =
      (2 * device.info().l2_bytes + kStreamChunk - 1) / kStreamChunk * kStreamChunk;
  auto memory = cuda::DeviceBuffer::allocate(device, bytes);
  if (!memory) return memory.status();
  RT_RETURN_IF_ERROR(cuda::fill(device, memory->data(), 0x5a, bytes, stream));
  return L2Sweep(**kernel, std::move(*memory), stream);
}

Status L2Sweep::run() const {
  const cuda::Device& device = memory_.device();
  uint64_t arguments[] = {address(memory_), static_cast<uint64_t>(memory_.bytes()),
                          address(memory_)};
  void* pointers[] = {&arguments[0], &arguments[1], &arguments[2]};
  return cuda::launch(*kernel_, device,
                      {.grid = {static_cast<uint32_t>(device.info().num_sms) * kBlocksPerSm, 1, 1},
                       .block = {kStreamThreads, 1, 1},
                       .stream = stream_},
                      pointers);
}

std::string short_device_name(const std::string& name) {
  std::istringstream words(name);
  std::string word, last;
  while (words >> word) {
    last = word;
    if (word != "NVIDIA" && word != "GeForce") break;
  }
  for (char& c : last) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return last;
}

}  // namespace rooftile::bench
