// SPDX-License-Identifier: Apache-2.0
#include "tests/report/sample_report.h"

#include <algorithm>

namespace rooftile::report {
namespace {

Family family_of(const std::string& op) {
  if (op == "gemm" || op == "gated_mlp") return Family::kProduct;
  if (op.starts_with("attention")) return Family::kAttention;
  if (op == "embedding" || op == "append_paged_kv") return Family::kMovement;
  return Family::kRows;
}

// Work and traffic of the right order of magnitude for products and rows.
void set_cost(const Env& dims, Family family, bench::BenchLine& line) {
  auto dim = [&](const char* name) {
    const auto at = dims.find(name);
    return at == dims.end() ? 1.0 : static_cast<double>(at->second);
  };
  if (family == Family::kProduct) {
    const double columns = line.op == "gemm" ? dim("N") : 2 * dim("I");
    line.flops = 2 * dim("M") * columns * dim("K");
    line.bytes = 2 * (dim("M") * dim("K") + columns * dim("K") + dim("M") * columns);
    return;
  }
  double elements = 1;
  for (const auto& [name, value] : dims)
    if (name != "V" || line.op != "embedding") elements *= static_cast<double>(value);
  elements = std::min(elements, 1e8);
  line.bytes = 4 * elements;
  if (family != Family::kMovement) line.flops = (family == Family::kAttention ? 12 : 4) * elements;
}

Row sample_row(const bench::Ceilings& ceilings, const OpInstance& instance, size_t position) {
  Row row;
  row.role = instance.role;
  row.count = instance.count;
  row.family = family_of(instance.call.op);
  bench::BenchLine& line = row.line;
  line.op = instance.call.op;
  line.dtype = "bf16";
  line.shape.assign(instance.call.dims.begin(), instance.call.dims.end());
  line.route = "tile";
  line.schedule = "sample";
  set_cost(instance.call.dims, row.family, line);
  const double compute_us = line.flops / ceilings.peaks.at("bf16").gflops * 1e-3;
  const double memory_us = line.bytes / ceilings.read_gb_per_s * 1e-3;
  line.roof_us = std::max({compute_us, memory_us, ceilings.launch_us});
  line.bound = compute_us > memory_us ? "compute" : "bandwidth";
  const double slowdown = 1.05 + 0.17 * static_cast<double>(position * 5 % 9);
  const double us = line.roof_us * slowdown;
  line.us = {us * 0.98, us, us * 1.04};
  line.tflops = line.flops / us * 1e-6;
  line.gb_per_s = line.bytes / us * 1e-3;
  line.roofline_fraction = 1 / slowdown;
  line.checked = true;
  line.errors.norm_err = 1e-3 * slowdown;
  if (row.family == Family::kProduct) {
    line.check_case = "M=8 N=64 K=4096";
    line.peers = {{"oneDNN", "b", {us, us * 1.1, us * 1.2}, 1.1}};
  }
  return row;
}

}  // namespace

Report sample_report(const std::string& model_name) {
  Report report;
  report.model = *load_model_config(model_name);
  report.ceilings.device = "a made-up machine, 2 threads";
  report.ceilings.peaks = {{"f32", {310, "fma"}},
                           {"bf16", {3400, "amx"}},
                           {"bf16/vdpbf16ps", {610, "vdpbf16ps"}},
                           {"f16", {320, "fma"}},
                           {"i8", {6700, "amx"}}};
  report.ceilings.read_gb_per_s = 21;
  report.ceilings.copy_gb_per_s = 17;
  report.ceilings.launch_us = 0.6;
  report.provenance = {{"commit", "sample"}};
  for (Phase phase : {Phase::kPrefill, Phase::kDecode}) {
    StepRequest request;
    request.phase = phase;
    request.batch = phase == Phase::kDecode ? 8 : 1;
    const Step step = *derive_step(report.model, request);
    report.parameters = step.parameters();
    StepReport out;
    out.request = request;
    out.tokens = step.tokens();
    for (size_t i = 0; i < step.ops.size(); ++i)
      out.rows.push_back(sample_row(report.ceilings, step.ops[i], i));
    for (const Fusion& fusion : step.fusions) {
      const Row& fused = out.rows[fusion.fused];
      out.fusions.push_back({fusion.what, fused.line.op, fusion.parts[0].call.op, fused.count,
                             fused.line.us.p50, fused.line.us.p50 * 1.3, ""});
    }
    report.steps.push_back(std::move(out));
  }
  return report;
}

}  // namespace rooftile::report
