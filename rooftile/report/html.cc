// SPDX-License-Identifier: Apache-2.0
#include "rooftile/report/html.h"

#include <fmt/format.h>

#include <algorithm>

#include "rooftile/report/format.h"
#include "rooftile/report/roofline_plot.h"
#include "rooftile/report/style.h"
#include "rooftile/report/svg.h"

namespace rooftile::report {
namespace {

std::string tile(std::string_view value, std::string_view label) {
  return fmt::format("<div class=\"tile\"><b>{}</b><span>{}</span></div>\n", escape_xml(value),
                     escape_xml(label));
}

std::string cell(std::string_view text, std::string_view small = "") {
  return fmt::format("<td>{}{}</td>", escape_xml(text),
                     small.empty() ? "" : "<small>" + escape_xml(small) + "</small>");
}

std::string number_cell(std::string_view text, std::string_view small = "") {
  return fmt::format("<td class=\"n\">{}{}</td>", escape_xml(text),
                     small.empty() ? "" : "<small>" + escape_xml(small) + "</small>");
}

std::string meter(double fraction) {
  return fmt::format("<span class=\"meter\"><i style=\"width:{:.0f}%\"></i></span>",
                     100 * std::clamp(fraction, 0.0, 1.0));
}

std::string model_section(const Report& report) {
  const ModelConfig& model = report.model;
  std::string out = fmt::format("<h1>{}</h1>\n<p class=\"sub\">", escape_xml(model.name));
  out += fmt::format(
      "What each operator of a transformer step costs on this machine, and why. {} parameters; "
      "{} layers of width {}, {} query and {} key-value heads of {}, MLP width {}, vocabulary {}, "
      "{}",
      si(static_cast<double>(report.parameters), ""), model.num_layers, model.hidden_size,
      model.num_heads, model.num_kv_heads, model.head_dim, model.intermediate_size,
      model.vocab_size, name(model.dtype));
  if (model.sliding_window > 0)
    out += fmt::format(", sliding window {} in {} layers", model.sliding_window,
                       model.num_window_layers);
  return out + ".</p>\n";
}

std::string machine_section(const bench::Ceilings& ceilings) {
  std::string out =
      fmt::format("<p class=\"sub\">{}</p>\n<div class=\"tiles\">\n", escape_xml(ceilings.device));
  for (const auto& [dtype, gflops] : peaks_by_dtype(ceilings))
    out += tile(si(gflops * 1e9, "FLOP/s"), dtype + " peak, " + ceilings.peaks.at(dtype).mechanism);
  out += tile(significant(ceilings.read_gb_per_s) + " GB/s", "memory read");
  if (ceilings.copy_gb_per_s > 0)
    out += tile(significant(ceilings.copy_gb_per_s) + " GB/s", "memory copy, both ways");
  out += tile(time_text(ceilings.launch_us), "launch");
  out += "</div>\n<p class=\"note\">Ceilings measured on this machine";
  if (ceilings.busy) out += ", while other processes ran: measure again with `rooftile calibrate`";
  return out + ".</p>\n";
}

std::string step_tiles(const StepReport& step) {
  const double total = step.total_us(), at_roof = step.total_at_roof_us();
  std::string out = "<div class=\"tiles\">\n";
  out += tile(time_text(total), "step, sum of its operators");
  out += tile(significant(step.tokens_per_s()) + " tokens/s",
              fmt::format("{} token{} a step", step.tokens, step.tokens == 1 ? "" : "s"));
  if (at_roof > 0) {
    out += tile(time_text(at_roof), "with every operator at its roof");
    out += tile(percent(at_roof / total), "of the roof, whole step");
  }
  double saved = 0;
  for (const FusionRow& fusion : step.fusions)
    if (fusion.failure.empty()) saved += fusion.saved_us();
  if (!step.fusions.empty()) out += tile(time_text(saved), "a step saved by fusion");
  const auto passed = std::count_if(step.rows.begin(), step.rows.end(), [](const Row& row) {
    return row.measured() && row.line.checked && row.line.pass;
  });
  out += tile(fmt::format("{} of {}", passed, step.rows.size()),
              "operators match the float64 reference");
  return out + "</div>\n";
}

std::string figures(const bench::Ceilings& ceilings, const StepReport& step) {
  std::string key;
  for (Family family : {Family::kProduct, Family::kAttention, Family::kRows, Family::kMovement}) {
    if (std::none_of(step.rows.begin(), step.rows.end(),
                     [family](const Row& row) { return row.family == family; }))
      continue;
    key += fmt::format("<span><i class=\"b-{}\"></i>{}</span>", family_class(family),
                       family_name(family));
  }
  std::string out = "<figure>\n<div class=\"key\">" + key + "</div>\n";
  out += roofline_svg(ceilings, step);
  out +=
      "<figcaption>Each operator under the measured ceilings. A point's area is its share of the "
      "step: large and far below the roof is where time can be won. Operators without arithmetic "
      "stand on the left edge, at their bandwidth.</figcaption>\n</figure>\n";
  out += "<figure>\n" + time_bar_svg(step);
  out += "<figcaption>The step's time, in the order of execution.</figcaption>\n</figure>\n";
  return out;
}

std::string failed_row(const Row& row) {
  return fmt::format(
      "<tr><td class=\"op\">{}<small>{}</small></td>{}<td colspan=\"10\" "
      "class=\"bad failure\">{}</td></tr>\n",
      escape_xml(row.role), escape_xml(row.line.op), cell(row.shape_text()),
      escape_xml(row.failure));
}

std::string check_cell(const Row& row) {
  const bench::BenchLine& line = row.line;
  if (!line.checked) return "<td class=\"n\">not checked</td>";
  return fmt::format("<td class=\"n check {}\">{}{}<small>{}</small></td>",
                     line.pass ? "good" : "bad", line.pass ? "" : "FAILED ",
                     error_text(line.errors.norm_err),
                     line.check_case.empty() ? "" : "at " + escape_xml(line.check_case));
}

std::string library_cell(const Row& row) {
  const bench::PeerTime* library = row.library();
  if (library == nullptr) return "<td class=\"n\">&#8211;</td>";
  return fmt::format("<td class=\"n check\">{}<small>{}, {}</small></td>",
                     time_text(library->us.p50), escape_xml(library->name), times(library->ratio));
}

std::string operator_row(const StepReport& step, const Row& row) {
  if (!row.failure.empty()) return failed_row(row);
  const bench::BenchLine& line = row.line;
  std::string out = fmt::format(
      "<tr><td class=\"op\"><span class=\"c-{}\">&#9679;</span> {}"
      "<small>{} &#215; {}</small></td>",
      family_class(row.family), escape_xml(row.role), escape_xml(row.line.op), row.count);
  out += fmt::format("<td class=\"shape\">{}<small>{}</small></td>", escape_xml(row.shape_text()),
                     escape_xml(line.dtype));
  out += cell(route_text(line.route), short_schedule(line.schedule));
  out += number_cell(time_text(line.us.p50), (line.busy ? "~ " : "") + range_text(line.us));
  out += fmt::format("<td class=\"n c-{}\">{}{}</td>", family_class(row.family),
                     meter(step.share(row)), percent(step.share(row)));
  out += number_cell(si(line.flops, "FLOP"), si(line.tflops * 1e12, "FLOP/s"));
  out += number_cell(si(line.bytes, "B"), significant(line.gb_per_s) + " GB/s");
  out += number_cell(significant(row.intensity()));
  out +=
      fmt::format("<td class=\"n\">{}{}<small>{}, {}</small></td>", meter(line.roofline_fraction),
                  percent(line.roofline_fraction), escape_xml(line.bound), time_text(line.roof_us));
  out += library_cell(row) + check_cell(row);
  out += number_cell(times(step.gain_at_roof(row)));
  return out + "</tr>\n";
}

std::string operator_table(const StepReport& step) {
  std::string out =
      "<h3>Operators</h3>\n<div "
      "class=\"scroll\"><table>\n<thead><tr><th>operator</th><th>shape</th>"
      "<th>route, schedule</th><th class=\"n\">time p50<br>p20 – p80</th>"
      "<th class=\"n\">share of step</th><th class=\"n\">work</th><th class=\"n\">traffic</th>"
      "<th class=\"n\">FLOP/B</th><th class=\"n\">of the roof<br>bound</th>"
      "<th class=\"n\">library</th><th class=\"n\">error</th>"
      "<th class=\"n\">step gains<br>at the roof</th></tr></thead>\n<tbody>\n";
  double flops = 0, bytes = 0;
  for (const Row& row : step.rows) {
    out += operator_row(step, row);
    flops += static_cast<double>(row.count) * row.line.flops;
    bytes += static_cast<double>(row.count) * row.line.bytes;
  }
  const double total = step.total_us(), at_roof = step.total_at_roof_us();
  out += fmt::format(
      "</tbody>\n<tfoot><tr><td colspan=\"3\">{}</td><td class=\"n\">{}</td>"
      "<td></td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>"
      "<td class=\"n\">{}</td><td></td><td></td><td class=\"n\">{}</td>"
      "</tr></tfoot>\n</table></div>\n",
      step_title(step), time_text(total), si(flops, "FLOP"), si(bytes, "B"),
      significant(bytes > 0 ? flops / bytes : 0), percent(total > 0 ? at_roof / total : 0),
      times(at_roof > 0 ? total / at_roof : 1));
  return out;
}

std::string fusion_table(const StepReport& step) {
  if (step.fusions.empty()) return "";
  std::string out =
      "<h3>What fusion saved</h3>\n<div class=\"scroll\"><table>\n<thead><tr><th>fusion</th>"
      "<th>fused</th><th>apart</th><th class=\"n\">fused</th><th class=\"n\">apart</th>"
      "<th class=\"n\">ratio</th><th class=\"n\">saved a step</th></tr></thead>\n<tbody>\n";
  for (const FusionRow& fusion : step.fusions) {
    out += "<tr>" + cell(fusion.what) + cell(fusion.fused) + cell(fusion.parts);
    if (!fusion.failure.empty()) {
      out += fmt::format("<td colspan=\"4\" class=\"bad failure\">{}</td></tr>\n",
                         escape_xml(fusion.failure));
      continue;
    }
    out += number_cell(time_text(fusion.fused_us)) + number_cell(time_text(fusion.parts_us));
    out += number_cell(times(fusion.parts_us / fusion.fused_us));
    out += fmt::format("<td class=\"n {}\">{}<small>{} executions</small></td></tr>\n",
                       fusion.saved_us() >= 0 ? "good" : "bad", time_text(fusion.saved_us()),
                       fusion.count);
  }
  return out + "</tbody>\n</table></div>\n<p class=\"note\">Both sides measured in this run.</p>\n";
}

std::string definitions() {
  return "<h2>How to read this</h2>\n<dl>\n"
         "<dt>time</dt><dd>median of one execution, with the 20th and 80th percentile; weights and "
         "caches come from memory, not from the processor's caches. ~ marks measurements during "
         "which "
         "other processes took the processor</dd>\n"
         "<dt>step</dt><dd>sum over all executions of all operators, one after the other</dd>\n"
         "<dt>work, traffic</dt><dd>floating-point operations (a multiply-add counts two) and "
         "compulsory bytes: every input read once, every output written once</dd>\n"
         "<dt>of the roof</dt><dd>the least time that the measured ceilings allow, divided by the "
         "measured time; above 100 % where data was found in a cache</dd>\n"
         "<dt>library</dt><dd>the same product by the library, timed in turns with ours; a ratio "
         "above 1 means that ours is faster</dd>\n"
         "<dt>error</dt><dd>norm of the difference from a float64 reference over the norm of the "
         "reference; sizes are given when the comparison used smaller ones</dd>\n"
         "<dt>step gains at the roof</dt><dd>Amdahl: how many times faster the whole step would be "
         "if this operator alone ran at its roof</dd>\n</dl>\n";
}

std::string provenance_section(const Report& report) {
  std::string out = "<h3>Provenance</h3>\n<dl>\n";
  for (const auto& [key, value] : report.provenance)
    out += fmt::format("<dt>{}</dt><dd>{}</dd>\n", escape_xml(key), escape_xml(value));
  return out + "</dl>\n";
}

}  // namespace

std::string render_html(const Report& report) {
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{} on this machine: Rooftile</title>\n<style>{}</style>\n</head>\n<body>\n<main>\n",
      escape_xml(report.model.name), kStyleSheet);
  out += model_section(report) + machine_section(report.ceilings);
  for (const StepReport& step : report.steps) {
    std::string title = step_title(step);
    title[0] = static_cast<char>(title[0] - 'a' + 'A');
    out += "<h2>" + escape_xml(title) + "</h2>\n";
    out += step_tiles(step) + figures(report.ceilings, step);
    out += operator_table(step) + fusion_table(step);
  }
  return out + definitions() + provenance_section(report) + "</main>\n</body>\n</html>\n";
}

}  // namespace rooftile::report
