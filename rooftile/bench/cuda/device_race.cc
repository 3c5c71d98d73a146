// SPDX-License-Identifier: Apache-2.0
#include "rooftile/bench/cuda/device_race.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>

#include "rooftile/runtime/cuda/graph.h"

namespace rooftile::bench {
namespace {

using Clock = std::chrono::steady_clock;

// Starting a graph costs the first kernel a few microseconds: a thousandth of a sample.
constexpr double kSampleUs = 2000;
constexpr int64_t kMaxCalls = 4096;  // nodes of a graph
constexpr int kSweptCalls = 5;       // calls of a sample where each is timed alone

// The time between two events on the stream.
class Stopwatch {
 public:
  static Result<Stopwatch> make(const cuda::Device& device, cuda::abi::Stream stream) {
    auto begin = cuda::Event::create(device, cuda::Event::Timing::kOn);
    if (!begin) return begin.status();
    auto end = cuda::Event::create(device, cuda::Event::Timing::kOn);
    if (!end) return end.status();
    return Stopwatch(stream, std::move(*begin), std::move(*end));
  }

  template <class Work>
  Result<double> us(const Work& work) {
    RT_RETURN_IF_ERROR(begin_.record(stream_));
    RT_RETURN_IF_ERROR(work());
    RT_RETURN_IF_ERROR(end_.record(stream_));
    RT_RETURN_IF_ERROR(end_.synchronize());
    auto ms = end_.ms_since(begin_);
    if (!ms) return ms.status();
    return static_cast<double>(*ms) * 1e3;
  }

 private:
  Stopwatch(cuda::abi::Stream stream, cuda::Event begin, cuda::Event end)
      : stream_(stream), begin_(std::move(begin)), end_(std::move(end)) {}
  cuda::abi::Stream stream_;
  cuda::Event begin_, end_;
};

// One contestant, ready to give samples.
class Runner {
 public:
  Runner(const cuda::Device& device, cuda::abi::Stream stream, const DeviceContestant& contestant,
         const DeviceRaceOptions& options)
      : device_(device), stream_(stream), contestant_(contestant), options_(options) {}

  // Calls outside capture first: code is loaded then, and it tells how long a call takes.
  Status warm_up(Stopwatch& watch) {
    RT_RETURN_IF_ERROR(contestant_.enqueue(0));
    double us = 0;
    for (int round = 0; round < std::max(options_.timing.warmup, 1); ++round) {
      auto took = watch.us([&]() -> Status {
        for (size_t set = 0; set < options_.sets; ++set)
          RT_RETURN_IF_ERROR(contestant_.enqueue(set));
        return {};
      });
      if (!took) return took.status();
      us = *took / static_cast<double>(options_.sets);
    }
    return options_.sweep ? Status() : capture(us);
  }

  Result<double> sample(Stopwatch& watch) {
    if (!options_.sweep) {
      auto us = watch.us([&] { return graph_->launch(stream_); });
      if (!us) return us;
      return *us / static_cast<double>(calls_);
    }
    double sum = 0;
    for (int call = 0; call < kSweptCalls; ++call) {
      RT_RETURN_IF_ERROR(options_.sweep());
      auto us = watch.us([&] { return contestant_.enqueue(0); });
      if (!us) return us;
      sum += *us;
    }
    return sum / kSweptCalls;
  }

 private:
  Status capture(double call_us) {
    const auto sets = static_cast<int64_t>(options_.sets);
    const double set_us = std::max(call_us, 0.5) * static_cast<double>(sets);
    const auto turns = static_cast<int64_t>(std::ceil(kSampleUs / set_us));
    calls_ = sets * std::clamp<int64_t>(turns, 1, std::max<int64_t>(kMaxCalls / sets, 1));
    auto capture = cuda::Capture::begin(device_, stream_);
    if (!capture) return capture.status();
    for (int64_t call = 0; call < calls_; ++call)
      RT_RETURN_IF_ERROR(contestant_.enqueue(static_cast<size_t>(call % sets)));
    auto graph = capture->end();
    if (!graph) return graph.status();
    auto ready = cuda::GraphExec::instantiate(*graph);
    if (!ready) return ready.status();
    graph_.emplace(std::move(*ready));
    RT_RETURN_IF_ERROR(graph_->launch(stream_));  // the first launch uploads it
    return cuda::synchronize(device_, stream_);
  }

  const cuda::Device& device_;
  cuda::abi::Stream stream_;
  const DeviceContestant& contestant_;
  const DeviceRaceOptions& options_;
  std::optional<cuda::GraphExec> graph_;
  int64_t calls_ = 1;
};

}  // namespace

Result<Race> device_race(const cuda::Device& device, cuda::abi::Stream stream,
                         const std::vector<DeviceContestant>& contestants,
                         const DeviceRaceOptions& options) {
  auto watch = Stopwatch::make(device, stream);
  if (!watch) return watch.status();
  Race race;
  std::vector<std::unique_ptr<Runner>> runners;
  for (const DeviceContestant& contestant : contestants) {
    runners.push_back(std::make_unique<Runner>(device, stream, contestant, options));
    RT_RETURN_IF_ERROR(runners.back()->warm_up(*watch));
    race.timings.push_back({contestant.name, {}});
  }
  const auto begin = Clock::now();
  const auto spent = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  const TimingOptions& timing = options.timing;
  while (race.rounds() < timing.rounds &&
         (spent() < timing.seconds || race.rounds() < timing.min_rounds)) {
    // The order turns from round to round, so that nobody always follows the same one.
    const auto first = static_cast<size_t>(race.rounds()) % runners.size();
    std::vector<double> round(runners.size());
    for (size_t i = 0; i < runners.size(); ++i) {
      const size_t at = (first + i) % runners.size();
      auto us = runners[at]->sample(*watch);
      if (!us) return us.status();
      round[at] = *us;
    }
    for (size_t i = 0; i < runners.size(); ++i) race.timings[i].us.push_back(round[i]);
  }
  return race;
}

}  // namespace rooftile::bench
