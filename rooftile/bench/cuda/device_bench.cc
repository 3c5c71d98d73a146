// SPDX-License-Identifier: Apache-2.0
#include "rooftile/bench/cuda/device_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "rooftile/bench/bench_steps.h"
#include "rooftile/bench/cuda/device_ceilings.h"
#include "rooftile/bench/cuda/device_peers.h"
#include "rooftile/bench/cuda/device_provenance.h"
#include "rooftile/bench/cuda/device_race.h"
#include "rooftile/check/case_inputs.h"
#include "rooftile/check/device_arguments.h"
#include "rooftile/check/executor.h"

namespace rooftile::bench {
namespace {

constexpr int64_t kMaxSets = 256;
constexpr double kMaxMemoryShare = 0.5;  // of what is free, for copies of the arguments

NdArray read_back(const cuda::Device& device, cuda::abi::Stream stream, const TensorView& view,
                  Status& status) {
  check::HostTensor host(view.dtype,
                         std::vector<int64_t>(view.shape.begin(), view.shape.begin() + view.rank));
  if (status.ok())
    status = cuda::copy_to_host(device, host.data(), view.data, host.size_bytes(), stream);
  if (status.ok()) status = cuda::synchronize(device, stream);
  return host.load();
}

// A kernel of ours in the race, and what is found out about it.
struct Ours {
  std::shared_ptr<const CompiledKernel> compiled;  // none: the line is the library's
  std::vector<check::BoundCall> calls;             // one a copy of the arguments
  BenchLine line;
};

class DeviceBench {
 public:
  DeviceBench(const OpDef& op, const Case& test_case, const BenchOptions& options,
              const cuda::Device& device, cuda::Stream stream)
      : op_(op),
        case_(check::for_target(op, test_case, sm90_target())),
        options_(options),
        device_(device),
        stream_(std::move(stream)) {}

  Result<std::vector<BenchLine>> run() {
    auto call = check::resolve_case(op_, case_);
    if (!call) return call.status();
    call_ = std::move(*call);
    describe(op_, case_, call_, options_, common_);
    common_.target = "sm90";
    common_.device = short_device_name(device_.info().name);
    common_.gpu = device_provenance(device_);
    auto kernels = choose_kernels(op_, call_, sm90_target(), options_);
    if (!kernels) return kernels.status();
    for (const KernelDef* kernel : *kernels) RT_RETURN_IF_ERROR(compile_and_check(*kernel));
    if (!race_.empty() || options_.route == "library") RT_RETURN_IF_ERROR(time_all());
    return finished();
  }

 private:
  Status time_all() {
    RT_RETURN_IF_ERROR(check::make_inputs(op_, call_, common_.seed));
    common_.gpu->before = gpu_conditions(device_);
    RT_RETURN_IF_ERROR(time());
    auto ceilings = device_ceilings(device_);
    if (!ceilings) return ceilings.status();
    for (Ours& ours : race_)
      rate(*ceilings, check::main_dtype(op_, call_.config), written_bytes_, ours.line);
    return {};
  }

  // Those that were wrong first; they were not timed.
  std::vector<BenchLine> finished() {
    std::vector<BenchLine> out = std::move(wrong_);
    for (Ours& ours : race_) out.push_back(std::move(ours.line));
    return out;
  }

  // Enters the kernel for the race unless it is wrong.
  Status compile_and_check(const KernelDef& kernel) {
    Ours ours;
    ours.line = common_;
    auto source = generate_for(op_, kernel, call_, sm90_target(), options_);
    if (!source) return source.status();
    auto compiled = compile(std::move(*source));
    if (!compiled) return compiled.status();
    ours.compiled = *compiled;
    ours.line.kernel = kernel.name;
    describe(*ours.compiled, ours.line);
    ours.line.gpu->nvrtc = ours.compiled->nvrtc;
    if (options_.check) {
      auto executor = check::device_executor();
      if (!executor) return executor.status();
      auto run = (*executor)->prepare(ours.compiled->source);
      if (!run) return run.status();
      RT_RETURN_IF_ERROR(
          check_against_reference(op_, kernel, *ours.compiled, call_, *run, options_, ours.line));
    }
    if (ours.line.pass)
      race_.push_back(std::move(ours));
    else
      wrong_.push_back(std::move(ours.line));
    return {};
  }

  // Copies of the arguments, so that each call finds its own out of the L2 cache.
  Status make_sets() {
    const check::Arguments host = check::place(op_, call_, false);
    const int64_t read = tensor_bytes(op_, host, false), written = tensor_bytes(op_, host, true);
    written_bytes_ = static_cast<double>(written);
    const int64_t set_bytes = std::max<int64_t>(read + written, 1);
    const int64_t wanted = 2 * device_.info().l2_bytes;
    auto memory = device_.memory();
    if (!memory) return memory.status();
    const auto room = static_cast<int64_t>(static_cast<double>(memory->free_bytes) *
                                           kMaxMemoryShare / static_cast<double>(set_bytes));
    // A call that touches little of its arguments (a row of a table) touches the same lines in
    // each.
    const bool rotates = 2 * common_.bytes >= static_cast<double>(set_bytes);
    const int64_t copies = rotates ? std::clamp<int64_t>(wanted / set_bytes + 1, 2,
                                                         std::clamp<int64_t>(room, 2, kMaxSets))
                                   : 1;
    for (int64_t copy = 0; copy < copies; ++copy) {
      auto set = check::DeviceArguments::allocate(device_, host);
      if (!set) return set.status();
      RT_RETURN_IF_ERROR(copy == 0 ? set->upload(host, stream_.get())
                                   : set->copy_from(sets_.front(), stream_.get()));
      sets_.push_back(std::move(*set));
      if (copy == 0) RT_RETURN_IF_ERROR(stream_.synchronize());  // `host` has been read
    }
    common_.residency = !rotates
                            ? "L2 swept before each call"
                            : fmt::format("rotated over {} copies, {:.1f} MB{}", copies,
                                          static_cast<double>(copies * set_bytes) / 1e6,
                                          copies * set_bytes < wanted ? ": within the L2" : "");
    sweeps_ = !rotates;
    return stream_.synchronize();
  }

  Status bind(Ours& ours) {
    for (const check::DeviceArguments& set : sets_) {
      auto call = check::BoundCall::bind(*ours.compiled, set.views(), set.attrs());
      if (!call) return call.status();
      ours.calls.push_back(std::move(*call));
    }
    const auto begin = std::chrono::steady_clock::now();
    RT_RETURN_IF_ERROR(ours.calls.front().call());
    RT_RETURN_IF_ERROR(stream_.synchronize());
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    ours.line.first_call_us = took.count();
    return {};
  }

  Status time() {
    const StreamScope on(stream_.get());
    RT_RETURN_IF_ERROR(make_sets());
    std::vector<TensorSet> views;
    for (const check::DeviceArguments& set : sets_) views.push_back(set.views());
    std::vector<std::unique_ptr<DevicePeer>> peers;
    if (options_.peers || options_.route == "library")
      peers = make_device_peers({op_, call_, views, device_, stream_.get()}, common_.no_peer);
    if (options_.route == "library" && peers.empty()) {
      Diag diag = no_kernel(op_, "");
      diag.message = common_.no_peer;
      return diag;
    }
    std::vector<DeviceContestant> contestants;
    for (Ours& ours : race_) {
      ours.line.no_peer = common_.no_peer;
      RT_RETURN_IF_ERROR(bind(ours));
      if (!peers.empty()) RT_RETURN_IF_ERROR(compare_with(*peers.front(), ours.line));
      contestants.push_back(
          {std::string(ours.line.route), [&ours](size_t set) { return ours.calls[set].call(); }});
    }
    std::vector<PeerTime> named;
    for (const auto& peer : peers) {
      contestants.push_back({peer->name(), [&peer](size_t set) { return peer->enqueue(set); }});
      named.push_back({.name = peer->name(), .prepacked = "", .us = {}, .ratio = 0});
    }
    return race(contestants, named);
  }

  Status race(const std::vector<DeviceContestant>& contestants,
              const std::vector<PeerTime>& peers) {
    DeviceRaceOptions options;
    options.timing = options_.timing;
    options.sets = sets_.size();
    std::optional<L2Sweep> sweep;
    if (sweeps_) {
      auto made = L2Sweep::make(device_, stream_.get());
      if (!made) return made.status();
      sweep.emplace(std::move(*made));
      options.sweep = [&sweep] { return sweep->run(); };
    }
    auto result = device_race(device_, stream_.get(), contestants, options);
    if (!result) return result.status();
    common_.gpu->after = gpu_conditions(device_);
    if (race_.empty()) {
      race_.emplace_back().line = common_;
      record_library(*result, peers, race_.front().line);
      return {};
    }
    for (size_t i = 0; i < race_.size(); ++i) {
      BenchLine& line = race_[i].line;
      line.gpu->before = common_.gpu->before;
      line.gpu->after = common_.gpu->after;
      line.residency = common_.residency;
      record(*result, i, peers, line);
    }
    return {};
  }

  // The results of the call that bind() made, before another contestant's run.
  Status compare_with(DevicePeer& peer, BenchLine& line) {
    if (!line.checked || line.check_case.empty()) return {};
    std::map<std::string, NdArray> theirs, ours;
    Status status;
    for (const auto& [output, view] : peer.results(0))
      ours[output] =
          read_back(device_, stream_.get(), sets_[0].views().find(output)->second, status);
    RT_RETURN_IF_ERROR(peer.enqueue(0));
    for (const auto& [output, view] : peer.results(0))
      theirs[output] = read_back(device_, stream_.get(), view, status);
    if (!status.ok()) return status;
    check_against_peer(op_, call_, peer.name(), theirs, ours, options_, line);
    return {};
  }

  const OpDef& op_;
  const Case case_;
  const BenchOptions& options_;
  const cuda::Device& device_;
  cuda::Stream stream_;
  RefCall call_;
  std::vector<check::DeviceArguments> sets_;
  std::vector<Ours> race_;
  std::vector<BenchLine> wrong_;
  bool sweeps_ = false;
  double written_bytes_ = 0;
  BenchLine common_;  // what the lines have in common
};

}  // namespace

Result<std::vector<BenchLine>> device_bench_case(const OpDef& op, const Case& test_case,
                                                 const BenchOptions& options) {
  auto device = cuda::device(0);
  if (!device) return device.status();
  auto stream = cuda::Stream::create(**device);
  if (!stream) return stream.status();
  return DeviceBench(op, test_case, options, **device, std::move(*stream)).run();
}

}  // namespace rooftile::bench
