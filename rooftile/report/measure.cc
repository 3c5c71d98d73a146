// SPDX-License-Identifier: Apache-2.0
#include "rooftile/report/measure.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "rooftile/base/log.h"
#include "rooftile/bench/cuda/device_ceilings.h"
#include "rooftile/bench/provenance.h"
#include "rooftile/check/case_inputs.h"
#include "rooftile/report/fusion_race.h"

namespace rooftile::report {
namespace {

// Test inputs of the attention operators are full of edge cases: empty sequences, lengths of all
// kinds. A step has `batch` requests of the same length, each with pages of its own in no
// particular order.
void equal_offsets(NdArray& offsets, int64_t total) {
  const auto parts = static_cast<int64_t>(offsets.data.size()) - 1;
  for (int64_t i = 0; i <= parts; ++i) {
    const int64_t offset = total * i / std::max<int64_t>(parts, 1);  // whole tokens
    offsets.data[static_cast<size_t>(i)] = static_cast<double>(offset);
  }
}

void step_inputs(const StepRequest& request, RefCall& call, uint64_t seed) {
  if (call.has("cu_q")) {
    equal_offsets(call["cu_q"], call.dim("Tq"));
    equal_offsets(call["cu_k"], call.dim("Tk"));
  }
  if (call.has("lengths")) {
    // On reduced sizes, as much of the context as the cache holds.
    const int64_t length = std::min(request.context, call.dim("MP") * call.dim("S"));
    for (double& entry : call["lengths"].data) entry = static_cast<double>(length);
  }
  if (call.has("block_table")) {
    std::vector<int64_t> pages(static_cast<size_t>(std::max<int64_t>(call.dim("P"), 1)));
    std::iota(pages.begin(), pages.end(), 0);
    std::shuffle(pages.begin(), pages.end(), std::mt19937_64(seed));
    std::vector<double>& table = call["block_table"].data;
    for (size_t i = 0; i < table.size(); ++i)
      table[i] = static_cast<double>(pages[i % pages.size()]);
  }
}

// The operator with the inputs of a step where those matter.
OpDef with_step_inputs(const OpDef& op, const StepRequest& request) {
  OpDef out = op;
  if (op.arg("cu_q") != nullptr || op.arg("block_table") != nullptr)
    out.inputs_fn = [request](RefCall& call, uint64_t seed) { step_inputs(request, call, seed); };
  return out;
}

Family family_of(const OpDef& op, double flops) {
  if (op.family == "gemm") return Family::kProduct;
  if (flops == 0) return Family::kMovement;
  return op.family == "attention" ? Family::kAttention : Family::kRows;
}

Result<bench::BenchLine> bench_instance(const OpDef& op, const OpInstance& instance,
                                        const StepRequest& request, const MeasureOptions& options) {
  auto test_case = check::parse_case(instance.call.text());
  if (!test_case) return test_case.status();
  bench::BenchOptions bench;
  bench.device = options.device;
  bench.peers = options.library;
  bench.timing.seconds = options.seconds_per_operator;
  auto lines = bench::bench_case(with_step_inputs(op, request), *test_case, bench);
  if (!lines) return lines.status();
  return std::move(lines->front());
}

Row measure_row(const OpInstance& instance, const StepRequest& request,
                const MeasureOptions& options) {
  Row row;
  row.role = instance.role;
  row.count = instance.count;
  row.line.op = instance.call.op;
  row.line.shape.assign(instance.call.dims.begin(), instance.call.dims.end());
  const OpDef* op = find_op(instance.call.op);
  if (op == nullptr) {
    row.failure = "there is no operator " + instance.call.op;
    return row;
  }
  auto line = bench_instance(*op, instance, request, options);
  if (!line) {
    row.failure = line.diag().str();
    return row;
  }
  row.line = std::move(*line);
  row.family = family_of(*op, row.line.flops);
  return row;
}

bench::TimingOptions fusion_timing(const MeasureOptions& options) {
  bench::TimingOptions timing;
  timing.seconds = options.seconds_per_operator;
  timing.sweep_bytes = bench::default_sweep_bytes();
  return timing;
}

// Of a GPU's report: the host has no part in what is measured.
void fill_provenance(const cuda::Device& device, Report& report) {
  const bench::DeviceProvenance made = bench::device_provenance(device);
  const bench::Provenance build = bench::provenance();
  report.provenance = {{"rooftile", build.version + " " + build.commit},
                       {"measured at", bench::utc_now()},
                       {"GPU", made.name},
                       {"driver", made.driver.empty() ? "unknown" : made.driver},
                       {"CUDA", made.cuda},
                       {"cuBLASLt", made.cublaslt.empty() ? "absent" : made.cublaslt},
                       {"ceilings measured at", report.ceilings.measured_at}};
}

void fill_provenance(Report& report) {
  const bench::Provenance made = bench::provenance();
  report.provenance = {{"rooftile", made.version + " " + made.commit},
                       {"measured at", bench::utc_now()},
                       {"processor", made.device},
                       {"instructions", made.isa},
                       {"threads", std::to_string(made.threads)},
                       {"compiler of the kernels", made.compiler},
                       {"oneDNN", made.onednn},
                       {"ceilings measured at", report.ceilings.measured_at}};
}

}  // namespace

Result<Report> measure(const ModelConfig& model, const std::vector<StepRequest>& requests,
                       const MeasureOptions& options) {
  std::vector<Step> steps;
  size_t work = 0;
  for (const StepRequest& request :
       requests) {  // before anything slow: a wrong request fails at once
    auto step = derive_step(model, request);
    if (!step) return step.status();
    work += step->ops.size() + (options.fusions ? step->fusions.size() : 0);
    steps.push_back(std::move(*step));
  }
  Report report;
  report.model = model;
  const cuda::Device* device = nullptr;
  if (options.device == "cuda") {
    auto first = cuda::device(0);
    if (!first) return first.status();
    device = *first;
  }
  auto ceilings = device != nullptr ? bench::device_ceilings(*device) : bench::ceilings();
  if (!ceilings) return ceilings.status();
  report.ceilings = std::move(*ceilings);
  if (device != nullptr)
    fill_provenance(*device, report);
  else
    fill_provenance(report);

  Progress progress("report " + model.name, static_cast<int>(work));
  for (const Step& step : steps) {
    report.parameters = step.parameters();
    StepReport out;
    out.request = step.request;
    out.tokens = step.tokens();
    for (const OpInstance& instance : step.ops) {
      progress.step(instance.role + ": " + instance.call.op + " " + instance.call.text());
      out.rows.push_back(measure_row(instance, step.request, options));
    }
    if (options.fusions)
      for (const Fusion& fusion : step.fusions) {
        progress.step("without fusion: " + fusion.what);
        out.fusions.push_back(race_fusion(step, fusion, fusion_timing(options), device));
      }
    report.steps.push_back(std::move(out));
  }
  return report;
}

}  // namespace rooftile::report
