// SPDX-License-Identifier: Apache-2.0
#include "rooftile/bench/bench.h"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <chrono>

#include "rooftile/bench/bench_steps.h"
#include "rooftile/bench/cuda/device_bench.h"
#include "rooftile/bench/peers/peers.h"
#include "rooftile/bench/provenance.h"
#include "rooftile/check/case_inputs.h"
#include "rooftile/check/compile_all.h"
#include "rooftile/check/judge.h"
#include "rooftile/check/ladder.h"
#include "rooftile/compile/kernel.h"

namespace rooftile::bench {
namespace {

constexpr int64_t kMinRotatedSet = int64_t{4} << 20;  // smaller sets would need too many copies

// The copies that the timed calls go through.
struct Workload {
  std::vector<check::Arguments> sets;
  std::vector<check::BoundCall> calls;  // empty for the library route
  std::vector<TensorSet> views;
  int64_t sweep_bytes = 0;
  std::string residency;
};

// Rotated copies where a call reads most of its arguments and writes little: calls follow each
// other as they do in a model, activations and code stay warm. Where much is written, the dirty
// lines of one contestant would be paid for by the next; where little is touched (a row of a
// table), the same lines would come from the cache: caches are swept.
Workload make_workload(const OpDef& op, const RefCall& inputs, double touched_bytes,
                       int64_t rotate_bytes) {
  Workload work;
  work.sets.push_back(check::place(op, inputs, false));
  const int64_t read = tensor_bytes(op, work.sets[0], false);
  const int64_t written = tensor_bytes(op, work.sets[0], true);
  const int64_t set_bytes = read + written;
  const bool reads_all = 2 * touched_bytes >= static_cast<double>(set_bytes);
  if (set_bytes >= kMinRotatedSet && reads_all && written * 10 <= set_bytes) {
    const int64_t copies = std::max<int64_t>((rotate_bytes + set_bytes - 1) / set_bytes, 2);
    for (int64_t copy = 1; copy < copies; ++copy) {
      check::Arguments set;
      set.attrs = work.sets[0].attrs;
      for (const auto& [name, tensor] : work.sets[0].tensors)
        set.tensors.emplace(name, tensor.clone());
      work.sets.push_back(std::move(set));
    }
    work.residency = fmt::format("rotated over {} copies, {} MB", copies, copies * set_bytes >> 20);
  } else {
    work.sweep_bytes = std::min(default_sweep_bytes(), rotate_bytes);
    work.residency =
        fmt::format("caches swept with {} MB before each sample", work.sweep_bytes >> 20);
  }
  for (const check::Arguments& set : work.sets) {
    TensorSet views;
    for (const auto& [name, tensor] : set.tensors) views.emplace(name, tensor.view());
    work.views.push_back(std::move(views));
  }
  return work;
}

class CaseBench {
 public:
  CaseBench(const OpDef& op, const Case& test_case, const BenchOptions& options)
      : op_(op), case_(test_case), options_(options) {}

  Result<BenchLine> run() {
    auto call = check::resolve_case(op_, case_);
    if (!call) return call.status();
    call_ = std::move(*call);
    describe_machine();
    if (options_.route != "library") {
      RT_RETURN_IF_ERROR(compile_kernel());
      if (options_.check) RT_RETURN_IF_ERROR(check_kernel());
      if (!line_.pass) return line_;
    }
    RT_RETURN_IF_ERROR(check::make_inputs(op_, call_, line_.seed));
    RT_RETURN_IF_ERROR(time());
    auto ceiling = ceilings();
    if (!ceiling) return ceiling.status();
    rate(*ceiling, check::main_dtype(op_, call_.config), written_bytes_, line_);
    return line_;
  }

 private:
  void describe_machine() {
    describe(op_, case_, call_, options_, line_);
    const Provenance made_with = provenance();
    line_.target = "cpu";
    line_.device = made_with.device;
    line_.threads = made_with.threads;
    line_.isa = made_with.isa;
    line_.compiler = made_with.compiler;
    line_.onednn = made_with.onednn;
    line_.openblas = made_with.openblas;
  }

  Status compile_kernel() {
    auto kernels = choose_kernels(op_, call_, host_target(), options_);
    if (!kernels) return kernels.status();
    kernel_ = kernels->front();
    auto source = generate_for(op_, *kernel_, call_, host_target(), options_);
    if (!source) return source.status();
    auto compiled = compile(std::move(*source));
    if (!compiled) return compiled.status();
    compiled_ = *compiled;
    line_.kernel = kernel_->name;
    describe(*compiled_, line_);
    return {};
  }

  Status check_kernel() {
    return check_against_reference(
        op_, *kernel_, *compiled_, call_,
        [&](check::Arguments& arguments) -> Status {
          auto call = check::BoundCall::bind(*compiled_, arguments);
          return call ? call->call() : call.status();
        },
        options_, line_);
  }

  Status time() {
    omp_set_num_threads(host_target().threads);  // the libraries' threads, too
    Workload work = make_workload(op_, call_, line_.bytes, options_.rotate_bytes);
    written_bytes_ = static_cast<double>(tensor_bytes(op_, work.sets[0], true));
    std::string why_none;
    std::vector<std::unique_ptr<Peer>> peers;
    if (options_.peers || options_.route == "library")
      peers = make_peers({op_, call_, work.views}, why_none);
    line_.no_peer = why_none;
    if (options_.route == "library" && peers.empty()) {
      Diag diag = no_kernel(op_, "");
      diag.message = why_none;
      return diag;
    }

    std::vector<Contestant> contestants;
    const auto sets = static_cast<int64_t>(work.sets.size());
    if (compiled_) {
      for (check::Arguments& set : work.sets) {
        auto call = check::BoundCall::bind(*compiled_, set);
        if (!call) return call.status();
        work.calls.push_back(std::move(*call));
      }
      const auto begin = std::chrono::steady_clock::now();
      RT_RETURN_IF_ERROR(work.calls.front().call());
      line_.first_call_us =
          std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
              .count();
      if (!peers.empty()) compare_with(*peers.front(), work);
      contestants.push_back({"tile", [&, sets](int64_t call) {
                               (void)work.calls[static_cast<size_t>(call % sets)].call().ok();
                             }});
    }
    for (const auto& peer : peers)
      contestants.push_back({peer->name(), [&peer, sets](int64_t call) {
                               peer->run(static_cast<size_t>(call % sets));
                             }});

    TimingOptions timing = options_.timing;
    timing.sweep_bytes = work.sweep_bytes;
    std::vector<PeerTime> named;
    for (const auto& peer : peers)
      named.push_back({.name = peer->name(), .prepacked = peer->prepacked(), .us = {}, .ratio = 0});
    const Race result = race(contestants, timing);
    if (compiled_)
      record(result, 0, named, line_);
    else
      record_library(result, named, line_);
    line_.residency = work.residency;
    return {};
  }

  void compare_with(Peer& peer, Workload& work) {
    if (!line_.checked || line_.check_case.empty()) return;
    peer.run(0);
    std::map<std::string, NdArray> theirs, ours;
    for (const auto& [output, view] : peer.results(0)) {
      check::HostTensor reader(
          view.dtype, std::vector<int64_t>(view.shape.begin(), view.shape.begin() + view.rank));
      std::copy_n(static_cast<const std::byte*>(view.data), reader.size_bytes(),
                  static_cast<std::byte*>(reader.data()));
      theirs[output] = reader.load();
      ours[output] = work.sets[0].tensor(output).load();
    }
    check_against_peer(op_, call_, peer.name(), theirs, ours, options_, line_);
  }

  const OpDef& op_;
  const Case& case_;
  const BenchOptions& options_;
  RefCall call_;
  const KernelDef* kernel_ = nullptr;
  std::shared_ptr<const CompiledKernel> compiled_;
  double written_bytes_ = 0;
  BenchLine line_;
};

}  // namespace

Result<std::vector<BenchLine>> bench_case(const OpDef& op, const Case& test_case,
                                          const BenchOptions& options) {
  if (options.device == "cuda") return device_bench_case(op, test_case, options);
  auto line = CaseBench(op, test_case, options).run();
  if (!line) return line.status();
  return std::vector{std::move(*line)};
}

std::vector<KernelSource> bench_sources(const std::vector<std::pair<const OpDef*, Case>>& cases,
                                        const BenchOptions& options, std::vector<Diag>& refused) {
  std::vector<KernelSource> sources;
  const TargetInfo& target = options.device == "cuda" ? sm90_target() : host_target();
  const auto add = [&](const OpDef& op, const Case& test_case) -> Status {
    auto call = check::resolve_case(op, check::for_target(op, test_case, target));
    if (!call) return call.status();
    auto kernels = choose_kernels(op, *call, target, options);
    if (!kernels) return kernels.status();
    for (const KernelDef* kernel : *kernels) {
      auto source = generate_for(op, *kernel, *call, target, options);
      if (!source) return source.status();
      sources.push_back(std::move(*source));
    }
    return {};
  };
  for (const auto& [op, test_case] : cases)
    if (const Status added = add(*op, test_case); !added.ok()) refused.push_back(added.diag());
  return sources;
}

void compile_ahead(const std::vector<std::pair<const OpDef*, Case>>& cases,
                   const BenchOptions& options) {
  std::vector<Diag> refused;  // bench_case says so again
  check::compile_all(bench_sources(cases, options, refused));
}

bool has_raw_kernel(const OpDef& op, const Case& test_case) {
  const TargetInfo& gpu = sm90_target();
  auto call = check::resolve_case(op, check::for_target(op, test_case, gpu));
  return call && !op.candidates(call->config, call->dims, gpu, Route::kRaw).empty();
}

std::vector<const Case*> bench_cases(const OpDef& op, std::string_view set) {
  std::vector<const Case*> out;
  if (set != "smoke") {
    for (const Case& test_case : op.case_list)
      if (test_case.tagged(set) || (set == "full" && test_case.tagged("llm")))
        out.push_back(&test_case);
    return out;
  }
  const Case* least = nullptr;
  double least_work = 0;
  for (const Case& test_case : op.case_list) {
    auto call = check::resolve_case(op, test_case);
    if (!test_case.tagged("llm") || !call || !op.cost_fn) continue;
    const Cost cost = op.cost_fn(*call);
    const double work = cost.flops + cost.bytes;
    if (least == nullptr || work < least_work) least = &test_case, least_work = work;
  }
  if (least != nullptr) out.push_back(least);
  return out;
}

}  // namespace rooftile::bench
