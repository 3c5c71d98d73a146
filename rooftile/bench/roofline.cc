// SPDX-License-Identifier: Apache-2.0
#include "rooftile/bench/roofline.h"

#include <omp.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>

#include "rooftile/base/log.h"
#include "rooftile/bench/ceilings_file.h"
#include "rooftile/bench/peak_kernels.h"
#include "rooftile/bench/provenance.h"
#include "rooftile/bench/timer.h"
#include "rooftile/check/host_tensor.h"
#include "rooftile/runtime/cpu/library.h"
#include "rooftile/toolchain/disk_cache.h"
#include "rooftile/toolchain/host_cc.h"

namespace rooftile::bench {
namespace {

using nlohmann::json;

// Part of the cache key: raise it when the measurement changes.
constexpr int kCeilingsVersion = 2;
constexpr int64_t kStreamBytes = int64_t{1} << 30;
constexpr double kPeakSampleSeconds = 0.02;
constexpr int kPeakSamples = 7;
// Bandwidth and launch: at least three samples, more while time allows.
constexpr int kMinSamples = 3, kMaxSamples = 9;
constexpr double kMaxSeconds = 3;

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

Result<std::shared_ptr<Library>> build(const std::string& text, const TargetInfo& target,
                                       std::vector<std::shared_ptr<void>>& keep) {
  auto object = compile_cached(text, cpu_flags(target), target.key());
  if (!object) return object.status();
  keep.push_back(object->keep_alive);
  return Library::open(object->path);
}

double thread_cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// The best of several samples on all threads at once: a ceiling is what the machine can do
// undisturbed. Rates are by each thread's own processor time, so that another process on the cores
// does not lower them.
Result<Peak> measure_peak(const PeakKernel& kernel, const TargetInfo& target) {
  std::vector<std::shared_ptr<void>> keep;
  auto library = build(kernel.text, target, keep);
  if (!library) return library.status();
  auto symbol = (*library)->symbol(kernel.symbol);
  if (!symbol) return symbol.status();
  auto* loop = reinterpret_cast<void (*)(long)>(*symbol);

  auto run_seconds = [loop](long iterations) {
    const double begin = thread_cpu_seconds();
    loop(iterations);
    return thread_cpu_seconds() - begin;
  };
  long iterations = 1000;
  double seconds = run_seconds(iterations);
  while (seconds < kPeakSampleSeconds / 4) seconds = run_seconds(iterations *= 4);
  iterations =
      static_cast<long>(static_cast<double>(iterations) * kPeakSampleSeconds / seconds) + 1;
  double best = 0;
  for (int sample = 0; sample < kPeakSamples; ++sample) {
    double gflops = 0;
#pragma omp parallel num_threads(target.threads) reduction(+ : gflops)
    gflops += kernel.flops_per_iteration * static_cast<double>(iterations) /
              run_seconds(iterations) / 1e9;
    best = std::max(best, gflops);
  }
  return Peak{best, kernel.mechanism};
}

bool more_samples(int done, std::chrono::steady_clock::time_point begin) {
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
  return done < kMinSamples || (done < kMaxSamples && spent.count() < kMaxSeconds);
}

struct Bandwidth {
  double read_gb_per_s = 0, copy_gb_per_s = 0;
};

Result<Bandwidth> measure_bandwidth(const TargetInfo& target) {
  std::vector<std::shared_ptr<void>> keep;
  auto library = build(stream_kernels_text(target), target, keep);
  if (!library) return library.status();
  auto read_symbol = (*library)->symbol("rt_stream_read"),
       copy_symbol = (*library)->symbol("rt_stream_copy");
  if (!read_symbol || !copy_symbol)
    return read_symbol ? copy_symbol.status() : read_symbol.status();
  auto* read = reinterpret_cast<void (*)(const char*, long)>(*read_symbol);
  auto* copy = reinterpret_cast<void (*)(char*, const char*, long)>(*copy_symbol);

  // Two buffers of the class that kernels are timed with: the same pages, the same alignment.
  const check::HostTensor from(DType::kU8, {kStreamBytes}), to(DType::kU8, {kStreamBytes});
  auto* source = static_cast<const char*>(from.data());
  auto* target_memory = static_cast<char*>(to.data());
  const int64_t share = kStreamBytes / target.threads / 1024 * 1024;
  Bandwidth best;
  const auto bytes = static_cast<double>(share * target.threads);
  const auto begin = std::chrono::steady_clock::now();
  for (int sample = 0; more_samples(sample, begin); ++sample) {
    const double read_seconds = seconds_of([&] {
#pragma omp parallel num_threads(target.threads)
      read(source + share * omp_get_thread_num(), share);
    });
    const double copy_seconds = seconds_of([&] {
#pragma omp parallel num_threads(target.threads)
      copy(target_memory + share * omp_get_thread_num(), source + share * omp_get_thread_num(),
           share);
    });
    best.read_gb_per_s = std::max(best.read_gb_per_s, bytes / read_seconds / 1e9);
    best.copy_gb_per_s = std::max(best.copy_gb_per_s, 2 * bytes / copy_seconds / 1e9);
  }
  return best;
}

double measure_launch_us(int threads) {
  constexpr int kRegions = 1000;
  std::vector<double> samples;
  const auto begin = std::chrono::steady_clock::now();
  for (int sample = 0; more_samples(sample, begin); ++sample)
    samples.push_back(seconds_of([&] {
                        for (int i = 0; i < kRegions; ++i) {
#pragma omp parallel num_threads(threads)
                          asm volatile("");
                        }
                      }) *
                      1e6 / kRegions);
  return quantile(samples, 0.2);
}

std::string key_of(const TargetInfo& target) {
  return target.key() + "|" + target.device + "|" + std::to_string(target.threads) + "|" +
         std::to_string(kCeilingsVersion);
}

Result<Ceilings> measure(const TargetInfo& target) {
  Ceilings out;
  out.device = target.device;
  out.isa = target.isa;
  out.target_key = target.key();
  out.threads = target.threads;
  const std::vector<PeakKernel> kernels = peak_kernels(target);
  Progress progress("calibrate", static_cast<int>(kernels.size()) + 2);
  for (const PeakKernel& kernel : kernels) {
    progress.step(kernel.dtype + " " + kernel.mechanism);
    auto peak = measure_peak(kernel, target);
    if (!peak) return peak.status();
    out.peaks[kernel.dtype + "/" + kernel.mechanism] = *peak;
    Peak& best = out.peaks[kernel.dtype];
    if (peak->gflops > best.gflops) best = *peak;
  }
  progress.step("memory");
  const double cpu_begin = process_cpu_seconds();
  const auto begin = std::chrono::steady_clock::now();
  auto bandwidth = measure_bandwidth(target);
  if (!bandwidth) return bandwidth.status();
  out.read_gb_per_s = bandwidth->read_gb_per_s;
  out.copy_gb_per_s = bandwidth->copy_gb_per_s;
  progress.step("launch");
  out.launch_us = measure_launch_us(target.threads);
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
  out.busy = process_cpu_seconds() - cpu_begin < kUndisturbed * target.threads * wall.count();
  out.measured_at = utc_now();
  return out;
}

}  // namespace

double Ceilings::peak_gflops(DType dtype) const {
  // A type without an arithmetic of its own is computed in another: fp8 is widened to bf16, fp16
  // sums in f32, integers wider than bytes are lanes of 32 bits.
  std::string key(name(dtype));
  if (dtype == DType::kF8E5M2) key = "f8e4m3";
  if (dtype == DType::kU8) key = "i8";
  auto at = peaks.find(key);
  if (at == peaks.end() && key == "f8e4m3") at = peaks.find("bf16");
  if (at == peaks.end()) at = peaks.find("f32");
  return at == peaks.end() ? 0 : at->second.gflops;
}

// Reading at the read bandwidth; a written byte at what it adds to a copy of equal parts: 2 / copy
// - 1 / read.
double Ceilings::memory_us(const Cost& cost, double written_bytes) const {
  if (!(read_gb_per_s > 0) || !(copy_gb_per_s > 0)) return 0;
  const double read = 1 / read_gb_per_s, write = std::max(2 / copy_gb_per_s - read, read);
  const double written = std::min(written_bytes, cost.bytes);
  return ((cost.bytes - written) * read + written * write) * 1e-3;
}

double Ceilings::roof_us(const Cost& cost, DType dtype, double written_bytes) const {
  const double gflops = peak_gflops(dtype);
  const double compute_us = gflops > 0 ? cost.flops / gflops * 1e-3 : 0;
  return std::max({compute_us, memory_us(cost, written_bytes), launch_us});
}

std::string Ceilings::bound(const Cost& cost, DType dtype, double written_bytes) const {
  const double roof = roof_us(cost, dtype, written_bytes);
  if (roof <= launch_us) return "launch";
  return roof > memory_us(cost, written_bytes) ? "compute" : "bandwidth";
}

void Ceilings::raise_to(const Ceilings& other) {
  for (const auto& [key, peak] : other.peaks)
    if (peak.gflops > peaks[key].gflops) peaks[key] = peak;
  read_gb_per_s = std::max(read_gb_per_s, other.read_gb_per_s);
  copy_gb_per_s = std::max(copy_gb_per_s, other.copy_gb_per_s);
  launch_us = std::min(launch_us, other.launch_us);
}

std::string Ceilings::json_line() const {
  json rates = json::object();
  for (const auto& [key, peak] : peaks)
    rates[key] = {{"gflops", peak.gflops}, {"mechanism", peak.mechanism}};
  const json line = {{"device", device},
                     {"isa", isa},
                     {"target", target_key},
                     {"threads", threads},
                     {"peaks", rates},
                     {"read_gb_per_s", read_gb_per_s},
                     {"copy_gb_per_s", copy_gb_per_s},
                     {"launch_us", launch_us},
                     {"busy", busy},
                     {"measured_at", measured_at}};
  return line.dump();
}

Result<Ceilings> Ceilings::from_json(const std::string& text) {
  const json line = json::parse(text, nullptr, false);
  Ceilings out;
  auto refuse = [] {
    Diag diag;
    diag.code = ErrorCode::kCache;
    diag.subject = "ceilings";
    diag.message = "the kept measurement is damaged or of another version";
    diag.fix = "run `rooftile calibrate`";
    return diag;
  };
  if (!line.is_object()) return refuse();
  try {
    out.device = line.at("device").get<std::string>();
    out.isa = line.at("isa").get<std::string>();
    out.target_key = line.at("target").get<std::string>();
    out.threads = line.at("threads").get<int>();
    for (const auto& [key, peak] : line.at("peaks").items())
      out.peaks[key] = {peak.at("gflops").get<double>(), peak.at("mechanism").get<std::string>()};
    out.read_gb_per_s = line.at("read_gb_per_s").get<double>();
    out.copy_gb_per_s = line.at("copy_gb_per_s").get<double>();
    out.launch_us = line.at("launch_us").get<double>();
    out.busy = line.at("busy").get<bool>();
    out.measured_at = line.at("measured_at").get<std::string>();
  } catch (const json::exception&) {
    return refuse();
  }
  if (!(out.read_gb_per_s > 0) || !(out.copy_gb_per_s > 0) || out.peaks.empty()) return refuse();
  return out;
}

Result<Ceilings> calibrate() {
  auto file = CeilingsFile::open(key_of(host_target()));
  if (!file) return file.status();
  auto measured = measure(host_target());
  if (!measured) return measured;
  RT_RETURN_IF_ERROR(file->write(*measured));
  return measured;
}

Result<Ceilings> ceilings() {
  static std::mutex mutex;
  static std::optional<Ceilings> known;
  const std::lock_guard lock(mutex);
  if (known) return *known;

  auto file = CeilingsFile::open(key_of(host_target()));
  if (!file) return file.status();
  auto kept = file->read();
  if (!kept || kept->busy) {
    // A disturbed measurement is tried again, once a process; of two, the higher ceiling is the
    // better known.
    auto measured = measure(host_target());
    if (!measured) return measured;
    if (kept) measured->raise_to(*kept);
    RT_RETURN_IF_ERROR(file->write(*measured));
    kept = measured;
  }
  known = *kept;
  return *known;
}

}  // namespace rooftile::bench
