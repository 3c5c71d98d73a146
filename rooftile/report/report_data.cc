// SPDX-License-Identifier: Apache-2.0
#include "rooftile/report/report_data.h"

#include <algorithm>

namespace rooftile::report {

std::string_view family_name(Family family) {
  switch (family) {
    case Family::kProduct:
      return "matrix product";
    case Family::kAttention:
      return "attention";
    case Family::kRows:
      return "row-wise";
    case Family::kMovement:
      return "data movement";
  }
  return "";
}

std::vector<std::pair<std::string, double>> peaks_by_dtype(const bench::Ceilings& ceilings) {
  std::vector<std::pair<std::string, double>> out;
  for (const auto& [of, peak] : ceilings.peaks)
    if (of.find('/') == std::string::npos && peak.gflops > 0) out.emplace_back(of, peak.gflops);
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  return out;
}

std::string Row::shape_text() const {
  std::string text;
  for (const auto& [name, value] : line.shape)
    text += (text.empty() ? "" : " ") + name + "=" + std::to_string(value);
  return text;
}

double StepReport::total_us() const {
  double total = 0;
  for (const Row& row : rows) total += row.step_us();
  return total;
}

double StepReport::tokens_per_s() const {
  const double total = total_us();
  return total > 0 ? static_cast<double>(tokens) / total * 1e6 : 0;
}

bool StepReport::complete() const {
  return std::all_of(rows.begin(), rows.end(),
                     [](const Row& row) { return row.failure.empty() && row.line.pass; });
}

double StepReport::share(const Row& row) const {
  const double total = total_us();
  return total > 0 ? row.step_us() / total : 0;
}

double StepReport::gain_at_roof(const Row& row) const {
  const double total = total_us();
  const double saved =
      static_cast<double>(row.count) * std::max(0.0, row.line.us.p50 - row.line.roof_us);
  return total > saved ? total / (total - saved) : 1;
}

double StepReport::total_at_roof_us() const {
  double total = 0;
  for (const Row& row : rows)
    total += static_cast<double>(row.count) * std::min(row.line.us.p50, row.line.roof_us);
  return total;
}

std::string step_title(const StepReport& step) {
  std::string title(phase_name(step.request.phase));
  title += ", batch " + std::to_string(step.request.batch);
  if (step.request.phase == Phase::kPrefill)
    title += ", " + std::to_string(step.request.tokens) + " tokens a prompt";
  else
    title += ", context " + std::to_string(step.request.context);
  return title;
}

}  // namespace rooftile::report
