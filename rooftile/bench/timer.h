// SPDX-License-Identifier: Apache-2.0
// Interleaved timing: every round runs each contestant once, so that a change of the machine's
// speed meets all of them alike. A ratio is the median over rounds of the ratio inside a round, not
// the ratio of two medians.
//
// A round in which another process took the cores is dropped and repeated while time allows. If too
// few undisturbed rounds come together, all are kept and the race is marked busy.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace rooftile::bench {

struct Contestant {
  std::string name;
  std::function<void(int64_t call)> run;  // `call` grows by one with every call of any contestant
};

struct TimingOptions {
  int warmup = 2;             // rounds
  int rounds = 9;             // wanted
  int min_rounds = 5;         // fewer undisturbed rounds than this: busy
  double seconds = 4;         // after this no round is started beyond min_rounds
  int64_t sweep_bytes = 0;    // read before each sample, to empty the caches; 0: no
  double min_sample_us = 20;  // shorter calls are repeated within a sample (not when sweeping)
};

struct Timing {
  std::string name;
  std::vector<double> us;  // one a round
  double quantile(double q) const;
};

struct Race {
  std::vector<Timing> timings;  // as the contestants
  bool busy = false;
  int rounds() const;
  // How many times longer `slow` takes than `fast`, by position: the median over rounds.
  double ratio(size_t slow, size_t fast) const;
};

Race race(const std::vector<Contestant>& contestants, const TimingOptions& options);

// Linear between order statistics; 0 for no samples.
double quantile(std::vector<double> samples, double q);

// Processor time of all threads of this process. OpenMP's threads spin between regions, so work
// that has the cores to itself uses about (threads x wall time); less than kUndisturbed of that
// means that another process ran.
double process_cpu_seconds();
inline constexpr double kUndisturbed = 0.90;  // libraries with threads of their own blur it

// Reads `bytes` of memory that nothing else uses, with all threads.
void sweep_caches(int64_t bytes);

// Enough to push everything out of a last-level cache of this machine, between 64 MiB and 1 GiB.
int64_t default_sweep_bytes();

}  // namespace rooftile::bench
