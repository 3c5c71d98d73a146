// SPDX-License-Identifier: Apache-2.0
#include "rooftile/report/json_lines.h"

#include <nlohmann/json.hpp>

namespace rooftile::report {
namespace {

using Json = nlohmann::ordered_json;

Json line_of(const char* kind, const Report& report, const StepReport& step) {
  Json out = {{"kind", kind},
              {"model", report.model.name},
              {"phase", phase_name(step.request.phase)},
              {"batch", step.request.batch}};
  if (step.request.phase == Phase::kPrefill)
    out["tokens"] = step.request.tokens;
  else
    out["context"] = step.request.context;
  return out;
}

// Adds the fields of a line that another module wrote.
void append_fields(Json& out, const std::string& line) {
  const Json fields = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (fields.is_object()) out.update(fields);
}

Json operator_line(const Report& report, const StepReport& step, const Row& row) {
  Json out = line_of("operator", report, step);
  out["role"] = row.role;
  out["count"] = row.count;
  if (!row.failure.empty()) {
    out["op"] = row.line.op;
    out["failure"] = row.failure;
    out["pass"] = false;
    return out;
  }
  out["share"] = step.share(row);
  out["intensity"] = row.intensity();
  out["step_gain_at_roof"] = step.gain_at_roof(row);
  append_fields(out, row.line.json_line());
  return out;
}

Json fusion_line(const Report& report, const StepReport& step, const FusionRow& fusion) {
  Json out = line_of("fusion", report, step);
  out["what"] = fusion.what;
  out["fused"] = fusion.fused;
  out["parts"] = fusion.parts;
  out["count"] = fusion.count;
  if (!fusion.failure.empty()) {
    out["failure"] = fusion.failure;
    return out;
  }
  out["fused_us_p50"] = fusion.fused_us;
  out["parts_us_p50"] = fusion.parts_us;
  out["saved_us_per_step"] = fusion.saved_us();
  return out;
}

Json step_line(const Report& report, const StepReport& step) {
  Json out = line_of("step", report, step);
  out["parameters"] = report.parameters;
  out["step_us"] = step.total_us();
  out["step_us_at_roof"] = step.total_at_roof_us();
  out["step_tokens"] = step.tokens;
  out["tokens_per_s"] = step.tokens_per_s();
  out["pass"] = step.complete();
  return out;
}

}  // namespace

std::vector<std::string> json_lines(const Report& report) {
  std::vector<std::string> lines;
  Json machine = {{"kind", "machine"}};
  append_fields(machine, report.ceilings.json_line());
  for (const auto& [key, value] : report.provenance) machine[key] = value;
  lines.push_back(machine.dump());
  for (const StepReport& step : report.steps) {
    for (const Row& row : step.rows) lines.push_back(operator_line(report, step, row).dump());
    for (const FusionRow& fusion : step.fusions)
      lines.push_back(fusion_line(report, step, fusion).dump());
    lines.push_back(step_line(report, step).dump());
  }
  return lines;
}

}  // namespace rooftile::report
