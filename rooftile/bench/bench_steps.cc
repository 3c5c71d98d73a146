// SPDX-License-Identifier: Apache-2.0
#include "rooftile/bench/bench_steps.h"

#include "rooftile/bench/provenance.h"
#include "rooftile/check/case_inputs.h"
#include "rooftile/check/ladder.h"
#include "rooftile/compile/schedule_change.h"

namespace rooftile::bench {
namespace {

Quantiles quantiles(const Timing& timing) {
  return {timing.quantile(0.2), timing.quantile(0.5), timing.quantile(0.8)};
}

}  // namespace

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

Result<KernelSource> generate_for(const OpDef& op, const KernelDef& kernel, const RefCall& call,
                                  const TargetInfo& target, const BenchOptions& options) {
  if (options.changes.empty()) {
    const Schedule* schedule = options.schedule ? &*options.schedule : nullptr;
    return generate(op, kernel, call.config, call.dims, target, schedule);
  }
  Schedule changed = options.schedule  ? *options.schedule
                     : kernel.schedule ? kernel.schedule(call.config, call.dims, target)
                                       : Schedule{.name = "default"};
  RT_RETURN_IF_ERROR(change_schedule(changed, options.changes));
  return generate(op, kernel, call.config, call.dims, target, &changed);
}

void describe(const OpDef& op, const Case& test_case, const RefCall& call,
              const BenchOptions& options, BenchLine& line) {
  line.op = op.name;
  line.dtype = std::string(name(check::main_dtype(op, call.config)));
  line.case_text = test_case.text;
  for (const auto& [dim, extent] : call.dims) line.shape.emplace_back(dim, extent);
  line.route = options.route;
  line.seed = options.seed.value_or(check::fresh_seed());
  line.timestamp = utc_now();
  line.commit = provenance_commit();
  line.warmup = options.timing.warmup;
  if (op.cost_fn) {
    const Cost cost = op.cost_fn(call);
    line.flops = cost.flops;
    line.bytes = cost.bytes;
  }
}

void describe(const CompiledKernel& kernel, BenchLine& line) {
  line.schedule = kernel.source.schedule.str();
  line.compile_ms = kernel.compile_ms;
  for (const PrepackedOperand& operand : kernel.source.prepacked)
    line.prepacked += (line.prepacked.empty() ? "" : ", ") + operand.tensor;
}

Status check_against_reference(const OpDef& op, const KernelDef& kernel,
                               const CompiledKernel& compiled, const RefCall& call,
                               const check::Implementation& run, const BenchOptions& options,
                               BenchLine& line) {
  const auto takes = [&](const RefCall& smaller) {
    for (const auto& [dim, value] : compiled.source.schedule.gpu.dims)
      if (smaller.dims.count(dim) > 0 && smaller.dim(dim) != value) return false;
    return !kernel.applies || kernel.applies(smaller.config, smaller.dims);
  };
  RefCall inputs = check::reduced_call(op, call, options.max_reference_flops, takes);
  if (inputs.dims != call.dims) line.check_case = check::dims_text(inputs);
  RT_RETURN_IF_ERROR(check::make_inputs(op, inputs, line.seed));
  RefCall expected = inputs;
  op.reference_fn(expected);
  line.tolerance = op.tolerance_fn ? op.tolerance_fn(expected) : Tolerance{};
  const check::Verdict verdict = check::judge({op, inputs, expected, line.tolerance}, run);
  line.checked = true;
  line.errors = verdict.comparison;
  line.pass = verdict.pass();
  return {};
}

void check_against_peer(const OpDef& op, RefCall call, const std::string& peer,
                        const std::map<std::string, NdArray>& theirs,
                        const std::map<std::string, NdArray>& ours, BenchLine& line) {
  for (const auto& [output, values] : theirs) call.tensors.find(output)->second = values;
  Tolerance both = op.tolerance_fn ? op.tolerance_fn(call) : Tolerance{};
  both.abs *= 2, both.rel *= 2, both.norm *= 2;
  for (const auto& [output, values] : theirs) {
    const check::Comparison comparison = check::compare(ours.at(output), values, both);
    line.peer_norm_err = std::max(line.peer_norm_err, comparison.norm_err);
    if (comparison.pass || !line.pass) continue;
    line.pass = false;
    line.errors = comparison;
    line.errors.reason = "differs from " + peer + " at full size: " + comparison.reason;
  }
}

void record(const Race& race, const std::vector<PeerTime>& peers, bool peers_only,
            BenchLine& line) {
  line.us = quantiles(race.timings[0]);
  line.rounds = race.rounds();
  line.busy = race.busy;
  const size_t first_peer = peers_only ? 0 : 1;
  for (size_t i = 0; i < peers.size(); ++i) {
    line.peers.push_back(peers[i]);
    line.peers.back().us = quantiles(race.timings[first_peer + i]);
    line.peers.back().ratio = race.ratio(first_peer + i, 0);
  }
  if (!peers_only) return;
  line.kernel = peers.front().name;
  line.prepacked = peers.front().prepacked;
}

void rate(const Ceilings& ceilings, DType dtype, double written_bytes, BenchLine& line) {
  const Cost cost{line.flops, line.bytes};
  line.tflops = line.us.p50 > 0 ? line.flops / line.us.p50 * 1e-6 : 0;
  line.gb_per_s = line.us.p50 > 0 ? line.bytes / line.us.p50 * 1e-3 : 0;
  line.roof_us = ceilings.roof_us(cost, dtype, written_bytes);
  line.bound = ceilings.bound(cost, dtype, written_bytes);
  line.roofline_fraction = line.us.p50 > 0 ? line.roof_us / line.us.p50 : 0;
}

int64_t tensor_bytes(const OpDef& op, const check::Arguments& set, bool outputs) {
  int64_t bytes = 0;
  for (const ArgDef& arg : op.args)
    if (auto at = set.tensors.find(arg.name);
        at != set.tensors.end() && (arg.role == ir::Role::kOut) == outputs)
      bytes += at->second.size_bytes();
  return bytes;
}

}  // namespace rooftile::bench
