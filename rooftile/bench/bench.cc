// SPDX-License-Identifier: Apache-2.0
#include "rooftile/bench/bench.h"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <chrono>

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

Diag no_kernel(const OpDef& op, const std::string& wanted) {
  Diag diag;
  diag.code = wanted.empty() ? ErrorCode::kUnsupported : ErrorCode::kUsage;
  diag.subject = op.name;
  diag.message =
      wanted.empty() ? "no kernel applies to this case" : "there is no such kernel for this case";
  diag.found = wanted;
  diag.fix = "see `rooftile ops " + op.name + "`";
  return diag;
}

Result<const KernelDef*> choose_kernel(const OpDef& op, const RefCall& call,
                                       const std::string& wanted) {
  for (const KernelDef& kernel : op.kernels)
    if ((wanted.empty() || kernel.name == wanted) &&
        (!kernel.applies || kernel.applies(call.config, call.dims)))
      return &kernel;
  return no_kernel(op, wanted);
}

// The copies that the timed calls go through.
struct Workload {
  std::vector<check::Arguments> sets;
  std::vector<check::BoundCall> calls;  // empty for the library route
  std::vector<TensorSet> views;
  int64_t sweep_bytes = 0;
  std::string residency;
};

int64_t tensor_bytes(const OpDef& op, const check::Arguments& set, bool outputs) {
  int64_t bytes = 0;
  for (const ArgDef& arg : op.args)
    if (auto at = set.tensors.find(arg.name);
        at != set.tensors.end() && (arg.role == ir::Role::kOut) == outputs)
      bytes += at->second.size_bytes();
  return bytes;
}

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

Quantiles quantiles(const Timing& timing) {
  return {timing.quantile(0.2), timing.quantile(0.5), timing.quantile(0.8)};
}

class CaseBench {
 public:
  CaseBench(const OpDef& op, const Case& test_case, const BenchOptions& options)
      : op_(op), case_(test_case), options_(options) {}

  Result<BenchLine> run() {
    auto call = check::resolve_case(op_, case_);
    if (!call) return call.status();
    call_ = std::move(*call);
    describe();
    if (options_.route == "tile") {
      RT_RETURN_IF_ERROR(compile_kernel());
      if (options_.check) RT_RETURN_IF_ERROR(check_kernel());
      if (!line_.pass) return line_;
    }
    RT_RETURN_IF_ERROR(check::make_inputs(op_, call_, line_.seed));
    RT_RETURN_IF_ERROR(time());
    return rate();
  }

 private:
  void describe() {
    const Provenance made_with = provenance();
    line_.op = op_.name;
    line_.target = "cpu";
    line_.device = made_with.device;
    line_.dtype = std::string(name(check::main_dtype(op_, call_.config)));
    line_.case_text = case_.text;
    for (const auto& [dim, extent] : call_.dims) line_.shape.emplace_back(dim, extent);
    line_.route = options_.route;
    line_.seed = options_.seed.value_or(check::fresh_seed());
    line_.threads = made_with.threads;
    line_.isa = made_with.isa;
    line_.compiler = made_with.compiler;
    line_.commit = made_with.commit;
    line_.onednn = made_with.onednn;
    line_.openblas = made_with.openblas;
    line_.timestamp = utc_now();
    line_.warmup = options_.timing.warmup;
    if (op_.cost_fn) {
      const Cost cost = op_.cost_fn(call_);
      line_.flops = cost.flops;
      line_.bytes = cost.bytes;
    }
  }

  Status compile_kernel() {
    auto kernel = choose_kernel(op_, call_, options_.kernel);
    if (!kernel) return kernel.status();
    kernel_ = *kernel;
    const Schedule* schedule = options_.schedule ? &*options_.schedule : nullptr;
    auto source = generate(op_, *kernel_, call_.config, call_.dims, host_target(), schedule);
    if (!source) return source.status();
    auto compiled = compile(std::move(*source));
    if (!compiled) return compiled.status();
    compiled_ = *compiled;
    line_.kernel = kernel_->name;
    line_.schedule = compiled_->source.schedule.str();
    line_.compile_ms = compiled_->compile_ms;
    for (const PrepackedOperand& operand : compiled_->source.prepacked)
      line_.prepacked += (line_.prepacked.empty() ? "" : ", ") + operand.tensor;
    return {};
  }

  // The compiled code that is timed, on the sizes that are timed or smaller ones.
  Status check_kernel() {
    RefCall inputs =
        check::reduced_call(op_, call_, options_.max_reference_flops, [&](const RefCall& smaller) {
          return !kernel_->applies || kernel_->applies(smaller.config, smaller.dims);
        });
    if (inputs.dims != call_.dims) line_.check_case = check::dims_text(inputs);
    RT_RETURN_IF_ERROR(check::make_inputs(op_, inputs, line_.seed));
    RefCall expected = inputs;
    op_.reference_fn(expected);
    line_.tolerance = op_.tolerance_fn ? op_.tolerance_fn(expected) : Tolerance{};
    const check::Verdict verdict = check::judge(
        {op_, inputs, expected, line_.tolerance}, [&](check::Arguments& arguments) -> Status {
          auto call = check::BoundCall::bind(*compiled_, arguments);
          return call ? call->call() : call.status();
        });
    line_.checked = true;
    line_.errors = verdict.comparison;
    line_.pass = verdict.pass();
    return {};
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
    record(race(contestants, timing), peers);
    line_.residency = work.residency;
    return {};
  }

  // At full size, where the float64 check was made on a smaller one: two implementations that share
  // nothing agree.
  void compare_with(Peer& peer, Workload& work) {
    if (!line_.checked || line_.check_case.empty()) return;
    peer.run(0);
    for (const auto& [output, view] : peer.results(0)) {
      NdArray theirs{std::vector<int64_t>(view.shape.begin(), view.shape.begin() + view.rank), {}};
      check::HostTensor reader(view.dtype, theirs.shape);
      std::copy_n(static_cast<const std::byte*>(view.data), reader.size_bytes(),
                  static_cast<std::byte*>(reader.data()));
      call_.tensors.find(output)->second = reader.load();
    }
    Tolerance both = op_.tolerance_fn ? op_.tolerance_fn(call_) : Tolerance{};
    both.abs *= 2, both.rel *= 2, both.norm *= 2;
    for (const auto& [output, view] : peer.results(0)) {
      const check::Comparison comparison =
          check::compare(work.sets[0].tensor(output).load(), call_[output], both);
      line_.peer_norm_err = std::max(line_.peer_norm_err, comparison.norm_err);
      if (comparison.pass || !line_.pass) continue;
      line_.pass = false;
      line_.errors = comparison;
      line_.errors.reason = "differs from " + peer.name() + " at full size: " + comparison.reason;
    }
  }

  void record(const Race& race, const std::vector<std::unique_ptr<Peer>>& peers) {
    line_.us = quantiles(race.timings[0]);
    line_.rounds = race.rounds();
    line_.busy = race.busy;
    const size_t first_peer = compiled_ ? 1 : 0;
    for (size_t i = 0; i < peers.size(); ++i)
      line_.peers.push_back({peers[i]->name(), peers[i]->prepacked(),
                             quantiles(race.timings[first_peer + i]),
                             race.ratio(first_peer + i, 0)});
    if (compiled_) return;
    line_.kernel = peers.front()->name();
    line_.prepacked = peers.front()->prepacked();
  }

  Result<BenchLine> rate() {
    auto ceiling = ceilings();
    if (!ceiling) return ceiling.status();
    const DType dtype = check::main_dtype(op_, call_.config);
    const Cost cost{line_.flops, line_.bytes};
    line_.tflops = line_.us.p50 > 0 ? line_.flops / line_.us.p50 * 1e-6 : 0;
    line_.gb_per_s = line_.us.p50 > 0 ? line_.bytes / line_.us.p50 * 1e-3 : 0;
    line_.roof_us = ceiling->roof_us(cost, dtype, written_bytes_);
    line_.bound = ceiling->bound(cost, dtype, written_bytes_);
    line_.roofline_fraction = line_.us.p50 > 0 ? line_.roof_us / line_.us.p50 : 0;
    return line_;
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

Result<BenchLine> bench_case(const OpDef& op, const Case& test_case, const BenchOptions& options) {
  return CaseBench(op, test_case, options).run();
}

void compile_ahead(const std::vector<std::pair<const OpDef*, Case>>& cases,
                   const BenchOptions& options) {
  std::vector<KernelSource> sources;
  for (const auto& [op, test_case] : cases) {
    auto call = check::resolve_case(*op, test_case);
    if (!call) continue;
    auto kernel = choose_kernel(*op, *call, options.kernel);
    if (!kernel) continue;
    const Schedule* schedule = options.schedule ? &*options.schedule : nullptr;
    auto source = generate(*op, **kernel, call->config, call->dims, host_target(), schedule);
    if (source) sources.push_back(std::move(*source));
  }
  check::compile_all(std::move(sources));
}

std::vector<const Case*> bench_cases(const OpDef& op, std::string_view set) {
  std::vector<const Case*> out;
  if (set != "smoke") {
    for (const Case& test_case : op.case_list)
      if (test_case.tagged("llm") || (set == "full" && test_case.tagged("full")))
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
