// SPDX-License-Identifier: Apache-2.0
#include "rooftile/report/table.h"

#include <fmt/format.h>

#include "rooftile/report/format.h"

namespace rooftile::report {
namespace {

std::string error_cell(const Row& row) {
  const bench::BenchLine& line = row.line;
  if (!line.checked) return "not checked";
  std::string text = (line.pass ? "" : "FAILED ") + error_text(line.errors.norm_err);
  if (!line.check_case.empty()) text += " *";
  return text;
}

std::string library_cell(const Row& row) {
  const bench::PeerTime* library = row.library();
  if (library == nullptr) return "-";
  return fmt::format("{} ({})", time_text(library->us.p50), times(library->ratio));
}

std::vector<std::string> operator_row(const StepReport& step, const Row& row) {
  const bench::BenchLine& line = row.line;
  return {
      row.role,
      row.shape_text(),
      route_text(line.route) + " " + short_schedule(line.schedule),
      fmt::format("{} ({}){}", time_text(line.us.p50), range_text(line.us), line.busy ? " ~" : ""),
      fmt::format("{}", row.count),
      percent(step.share(row)),
      si(line.flops, "FLOP"),
      si(line.bytes, "B"),
      significant(row.intensity()),
      line.bound,
      percent(line.roofline_fraction),
      library_cell(row),
      error_cell(row),
      times(step.gain_at_roof(row))};
}

}  // namespace

std::string machine_text(const Report& report) {
  const bench::Ceilings& ceilings = report.ceilings;
  std::string out = fmt::format("{}: {} parameters\n{}\nceilings:", report.model.name,
                                si(static_cast<double>(report.parameters), ""), ceilings.device);
  for (const auto& [dtype, gflops] : peaks_by_dtype(ceilings))
    out += fmt::format(" {} {},", dtype, si(gflops * 1e9, "FLOP/s"));
  return out + fmt::format(" read {} GB/s, copy {} GB/s, launch {}",
                           significant(ceilings.read_gb_per_s), significant(ceilings.copy_gb_per_s),
                           time_text(ceilings.launch_us));
}

Cells operator_cells(const StepReport& step) {
  Cells cells = {{"operator", "shape", "route and schedule", "time p50 (p20 - p80)", "x", "share",
                  "work", "traffic", "FLOP/B", "bound", "of roof", "library (ratio)", "error",
                  "at roof"}};
  for (const Row& row : step.rows)
    if (row.failure.empty())
      cells.push_back(operator_row(step, row));
    else
      cells.push_back({row.role, row.shape_text(), "FAILED: see below"});
  return cells;
}

Cells fusion_cells(const StepReport& step) {
  if (step.fusions.empty()) return {};
  Cells cells = {{"what fusion saved", "fused", "apart", "fused", "apart", "ratio", "a step"}};
  for (const FusionRow& fusion : step.fusions) {
    std::vector<std::string> row = {fusion.what, fusion.fused, fusion.parts};
    if (fusion.failure.empty()) {
      row.push_back(time_text(fusion.fused_us));
      row.push_back(time_text(fusion.parts_us));
      row.push_back(times(fusion.parts_us / fusion.fused_us));
      row.push_back(time_text(fusion.saved_us()));
    } else {
      row.push_back("not measured: " + first_line(fusion.failure));
    }
    cells.push_back(std::move(row));
  }
  return cells;
}

std::string step_text(const StepReport& step) {
  const double total = step.total_us(), at_roof = step.total_at_roof_us();
  std::string out = fmt::format("step: {}, {} tokens/s; with every operator at its roof {} ({})",
                                time_text(total), significant(step.tokens_per_s()),
                                time_text(at_roof), times(at_roof > 0 ? total / at_roof : 1));
  bool reduced = false, unmeasured = false, busy = false;
  for (const Row& row : step.rows) {
    reduced |= row.line.checked && !row.line.check_case.empty();
    unmeasured |= !row.measured();
    busy |= row.line.busy;
  }
  if (unmeasured) out += "\nthe total lacks the operators that failed";
  if (busy) out += "\n~ other processes took the processor during these measurements";
  if (reduced) {
    out += "\n* compared with the float64 reference at";
    const char* separator = " ";
    for (const Row& row : step.rows) {
      if (!row.line.checked || row.line.check_case.empty()) continue;
      out += fmt::format("{}{} {}", separator, row.role, row.line.check_case);
      separator = "; ";
    }
  }
  return out;
}

std::vector<std::string> failure_texts(const StepReport& step) {
  std::vector<std::string> out;
  for (const Row& row : step.rows) {
    if (!row.failure.empty()) out.push_back(row.role + ": " + row.failure);
    if (row.line.checked && !row.line.pass)
      out.push_back(fmt::format("{}: outside its tolerance: {}", row.role, row.line.errors.reason));
  }
  return out;
}

}  // namespace rooftile::report
