// SPDX-License-Identifier: Apache-2.0
#include "rooftile/bench/timer.h"

#include <omp.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>

#include "rooftile/compile/target.h"

namespace rooftile::bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Calls of one sample, so that the clock's resolution and cost vanish.
int64_t calls_per_sample(const Contestant& contestant, const TimingOptions& options,
                         int64_t& call) {
  if (options.sweep_bytes > 0) return 1;
  const auto begin = Clock::now();
  contestant.run(call++);
  const double us = std::max(seconds_since(begin) * 1e6, 0.05);
  return std::clamp<int64_t>(static_cast<int64_t>(std::ceil(options.min_sample_us / us)), 1, 10000);
}

double sample_us(const Contestant& contestant, int64_t calls, const TimingOptions& options,
                 int64_t& call) {
  if (options.sweep_bytes > 0) sweep_caches(options.sweep_bytes);
  const auto begin = Clock::now();
  for (int64_t i = 0; i < calls; ++i) contestant.run(call++);
  return seconds_since(begin) * 1e6 / static_cast<double>(calls);
}

}  // namespace

double process_cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double quantile(std::vector<double> samples, double q) {
  if (samples.empty()) return 0;
  std::sort(samples.begin(), samples.end());
  const double position = q * static_cast<double>(samples.size() - 1);
  const auto below = static_cast<size_t>(position);
  const size_t above = std::min(below + 1, samples.size() - 1);
  return samples[below] +
         (position - static_cast<double>(below)) * (samples[above] - samples[below]);
}

double Timing::quantile(double q) const { return bench::quantile(us, q); }

int Race::rounds() const {
  return timings.empty() ? 0 : static_cast<int>(timings.front().us.size());
}

double Race::ratio(size_t slow, size_t fast) const {
  std::vector<double> ratios;
  for (size_t round = 0; round < timings[slow].us.size(); ++round)
    ratios.push_back(timings[slow].us[round] / timings[fast].us[round]);
  return quantile(std::move(ratios), 0.5);
}

Race race(const std::vector<Contestant>& contestants, const TimingOptions& options) {
  Race all, clean;
  int64_t call = 0;
  std::vector<int64_t> calls;
  for (const Contestant& contestant : contestants) {
    all.timings.push_back({contestant.name, {}});
    for (int round = 0; round < options.warmup; ++round) contestant.run(call++);
    calls.push_back(calls_per_sample(contestant, options, call));
  }
  clean = all;

  const auto begin = Clock::now();
  const double threads = omp_get_max_threads();
  while (clean.rounds() < options.rounds &&
         (seconds_since(begin) < options.seconds || all.rounds() < options.min_rounds)) {
    const double cpu_begin = process_cpu_seconds();
    const auto round_begin = Clock::now();
    std::vector<double> round;
    for (size_t i = 0; i < contestants.size(); ++i)
      round.push_back(sample_us(contestants[i], calls[i], options, call));
    const double cpu = process_cpu_seconds() - cpu_begin;
    const bool undisturbed = cpu > kUndisturbed * threads * seconds_since(round_begin);
    for (size_t i = 0; i < contestants.size(); ++i) {
      all.timings[i].us.push_back(round[i]);
      if (undisturbed) clean.timings[i].us.push_back(round[i]);
    }
  }
  if (clean.rounds() >= options.min_rounds) return clean;
  all.busy = true;
  return all;
}

void sweep_caches(int64_t bytes) {
  using Line = long long __attribute__((vector_size(64)));
  static std::unique_ptr<Line[]> memory;
  static int64_t allocated = 0;
  if (allocated < bytes) {
    memory =
        std::make_unique<Line[]>(static_cast<size_t>(bytes / 64));  // zeroed: every page is touched
    allocated = bytes;
  }
  const Line* lines = memory.get();
  const int64_t count = bytes / 64;
#pragma omp parallel
  {
    const int64_t part = count / omp_get_num_threads(), stream = part / 4;
    const Line* p = lines + part * omp_get_thread_num();
    Line sum{};
    for (int64_t i = 0; i < stream; ++i)  // four streams: a core's read speed
      sum ^= p[i] ^ p[i + stream] ^ p[i + 2 * stream] ^ p[i + 3 * stream];
    volatile long long sink = sum[0];
    (void)sink;
  }
}

int64_t default_sweep_bytes() {
  return std::clamp<int64_t>(2 * host_target().l3_bytes, int64_t{64} << 20, int64_t{1} << 30);
}

}  // namespace rooftile::bench
