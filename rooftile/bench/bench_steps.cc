// SPDX-License-Identifier: Apache-2.0
#include "rooftile/bench/bench_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "rooftile/bench/provenance.h"
#include "rooftile/check/case_inputs.h"
#include "rooftile/check/ladder.h"
#include "rooftile/check/sample.h"
#include "rooftile/compile/schedule_change.h"

namespace rooftile::bench {
namespace {

Quantiles quantiles(const Timing& timing) {
  return {timing.quantile(0.2), timing.quantile(0.5), timing.quantile(0.8)};
}

// Whether the call has the dims that the schedule, and those for other alignments, fix.
bool has_fixed_dims(const Schedule& schedule, const RefCall& call) {
  for (const auto& [dim, value] : schedule.gpu.dims)
    if (call.dims.count(dim) > 0 && call.dim(dim) != value) return false;
  return std::all_of(schedule.otherwise.begin(), schedule.otherwise.end(),
                     [&](const Schedule& other) { return has_fixed_dims(other, call); });
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

Result<std::vector<const KernelDef*>> choose_kernels(const OpDef& op, const RefCall& call,
                                                     const TargetInfo& target,
                                                     const BenchOptions& options) {
  std::vector<const KernelDef*> out;
  if (options.route == "library") return out;
  if (!options.kernel.empty()) {
    for (const KernelDef& kernel : op.kernels)
      if (kernel.name == options.kernel && kernel.takes(call.config, call.dims, target))
        return std::vector{&kernel};
    return no_kernel(op, options.kernel);
  }
  for (const Route route : {Route::kAuto, Route::kTile, Route::kRaw}) {
    const bool wanted =
        options.route == route_name(route) || (options.route == "all" && route != Route::kAuto);
    if (!wanted) continue;
    const auto found = op.candidates(call.config, call.dims, target, route);
    if (!found.empty()) out.push_back(found.front());
  }
  if (out.empty()) return no_kernel(op, "");
  return out;
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
  line.route = route_name(kernel.source.route);
  line.schedule = kernel.source.schedule.str();
  line.compile_ms = kernel.compile_ms;
  for (const PrepackedOperand& operand : kernel.source.prepacked)
    line.prepacked += (line.prepacked.empty() ? "" : ", ") + operand.tensor;
}

Status check_against_reference(const OpDef& op, const KernelDef& kernel,
                               const CompiledKernel& compiled, const RefCall& call,
                               const check::Implementation& run, const BenchOptions& options,
                               BenchLine& line) {
  const TargetInfo& target = compiled.source.gpu() ? sm90_target() : host_target();
  const auto takes = [&](const RefCall& smaller) {
    if (!has_fixed_dims(compiled.source.schedule, smaller)) return false;
    return kernel.takes(smaller.config, smaller.dims, target);
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

// ---- at full size ------------------------------------------------------------------------------

namespace {

constexpr int64_t kMostSampled = 256;  // indices of a dim
constexpr int64_t kLeastSampled = 4;
constexpr size_t kMostDisputed = 256;

using Outputs = std::map<std::string, NdArray>;

// Elements further apart than two results can be that are both within the tolerance, the furthest
// first.
std::vector<int64_t> disputed(const NdArray& ours, const NdArray& theirs, const Tolerance& both) {
  std::vector<std::pair<double, int64_t>> found;
  for (size_t i = 0; i < ours.data.size(); ++i) {
    const double x = ours.data[i], y = theirs.data[i];
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    const double excess = std::abs(x - y) - (both.abs + both.rel * std::abs(y));
    if (std::isfinite(excess) && excess <= 0) continue;
    found.emplace_back(std::isfinite(excess) ? excess : std::numeric_limits<double>::infinity(), i);
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  if (found.size() > kMostDisputed) found.resize(kMostDisputed);
  std::vector<int64_t> out;
  for (const auto& [excess, at] : found) out.push_back(at);
  return out;
}

// The part of the call that decides about `output`, as large as the float64 reference allows.
std::optional<std::pair<check::Chosen, RefCall>> deciding_part(const OpDef& op, const RefCall& call,
                                                               const ArgDef& output,
                                                               const std::vector<std::string>& dims,
                                                               const std::vector<int64_t>& wanted,
                                                               double max_flops) {
  if (dims.empty()) return std::nullopt;
  for (int64_t limit = kMostSampled; limit >= kLeastSampled; limit /= 2) {
    const check::Chosen chosen = check::choose_indices(output, call, dims, wanted, limit);
    RefCall sizes = call;
    sizes.tensors.clear();
    for (const auto& [dim, indices] : chosen)
      sizes.dims[dim] = static_cast<int64_t>(indices.size());
    if (op.cost_fn && op.cost_fn(sizes).flops > max_flops) continue;
    auto part = check::part_of(op, call, chosen);
    if (!part) return std::nullopt;
    return std::pair{chosen, std::move(*part)};
  }
  return std::nullopt;
}

void fail_at_full_size(const check::Comparison& comparison, const std::string& against,
                       BenchLine& line) {
  if (!line.pass) return;
  line.pass = false;
  line.errors = comparison;
  line.errors.reason = "at full size, against " + against + ": " + comparison.reason;
}

}  // namespace

void check_against_peer(const OpDef& op, RefCall call, const std::string& peer,
                        const Outputs& theirs, const Outputs& ours, const BenchOptions& options,
                        BenchLine& line) {
  for (const auto& [output, values] : theirs) call.tensors.find(output)->second = values;
  Tolerance both = op.tolerance_fn ? op.tolerance_fn(call) : Tolerance{};
  both.abs *= 2, both.rel *= 2, both.norm *= 2;
  const std::vector<std::string> dims = check::independent_dims(op, call, line.seed);
  for (const auto& [output, values] : theirs) {
    const check::Comparison apart = check::compare(ours.at(output), values, both);
    line.peer_norm_err = std::max(line.peer_norm_err, apart.norm_err);
    const ArgDef& arg = *op.arg(output);
    auto decides = deciding_part(op, call, arg, dims, disputed(ours.at(output), values, both),
                                 options.max_reference_flops);
    if (!decides) {  // nothing but each other to compare with
      if (!apart.pass) fail_at_full_size(apart, peer, line);
      continue;
    }
    auto& [chosen, part] = *decides;
    op.reference_fn(part);
    const Tolerance tolerance = op.tolerance_fn ? op.tolerance_fn(part) : Tolerance{};
    const auto judged = [&, &chosen = chosen, &part = part,
                         &output = output](const NdArray& result) {
      return check::compare(check::part_of(arg, call, result, chosen), part[output], tolerance);
    };
    if (const check::Comparison mine = judged(ours.at(output)); !mine.pass)
      fail_at_full_size(mine, "float64", line);
    if (const check::Comparison other = judged(values); !other.pass && line.peer_wrong.empty())
      line.peer_wrong = fmt::format("{}: {}, max_rel {:.2g} against float64", output, other.reason,
                                    other.max_rel);
  }
}

void record(const Race& race, size_t ours, const std::vector<PeerTime>& peers, BenchLine& line) {
  line.us = quantiles(race.timings[ours]);
  line.rounds = race.rounds();
  line.busy = race.busy;
  const size_t first_peer = race.timings.size() - peers.size();
  for (size_t i = 0; i < peers.size(); ++i) {
    line.peers.push_back(peers[i]);
    line.peers.back().us = quantiles(race.timings[first_peer + i]);
    line.peers.back().ratio = race.ratio(first_peer + i, ours);
  }
}

void record_library(const Race& race, const std::vector<PeerTime>& peers, BenchLine& line) {
  record(race, 0, peers, line);
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
