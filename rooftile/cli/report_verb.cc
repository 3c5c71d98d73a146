// SPDX-License-Identifier: Apache-2.0
// rooftile report: what each operator of a model's step costs on this machine, and why.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <memory>

#include "rooftile/cli/output.h"
#include "rooftile/cli/verb.h"
#include "rooftile/report/html.h"
#include "rooftile/report/json_lines.h"
#include "rooftile/report/measure.h"
#include "rooftile/report/table.h"

namespace rooftile::cli {
namespace {

using report::Phase;
using report::StepRequest;

// Small enough for a laptop, large enough to be real.
constexpr const char* kDefaultModel = "qwen2.5-0.5b";
constexpr int64_t kDefaultTokens = 256, kDefaultContext = 1024;

struct Options {
  std::string model = kDefaultModel;
  std::string phase;  // "" : both
  int64_t batch = 0;  // 0: 1
  int64_t tokens = 0, context = 0;
  bool sample = false;
  report::MeasureOptions measure;
  std::string html, json;
};

Diag usage(std::string argument, std::string message, std::string fix) {
  Diag diag;
  diag.code = ErrorCode::kUsage;
  diag.subject = "report";
  diag.message = std::move(message);
  diag.argument = std::move(argument);
  diag.fix = std::move(fix);
  return diag;
}

// Sizes that do not belong to the phase asked for are mistakes, not hints.
Result<std::vector<StepRequest>> requests(const Options& options,
                                          const report::ModelConfig& model) {
  const bool prefill = options.phase != "decode", decode = options.phase != "prefill";
  if (!prefill && options.tokens > 0)
    return usage("--tokens", "a decode step has one token a request",
                 "use --context, or --phase prefill");
  if (!decode && options.context > 0)
    return usage("--context", "a prefill step starts from an empty cache",
                 "use --tokens, or --phase decode");
  StepRequest request;
  request.batch = options.batch > 0 ? options.batch : 1;
  request.sample = options.sample;
  request.tokens =
      options.tokens > 0 ? options.tokens : std::min(kDefaultTokens, model.max_positions);
  request.context =
      options.context > 0 ? options.context : std::min(kDefaultContext, model.max_positions);
  std::vector<StepRequest> out;
  if (prefill) {
    request.phase = Phase::kPrefill;
    out.push_back(request);
  }
  if (decode) {
    request.phase = Phase::kDecode;
    out.push_back(request);
  }
  return out;
}

std::string aligned(const report::Cells& cells) {
  Table table(cells.front());
  for (size_t i = 1; i < cells.size(); ++i) table.row(cells[i]);
  return table.str();
}

void print(const report::Report& report, Output& out) {
  out.text(report::machine_text(report));
  for (const report::StepReport& step : report.steps) {
    out.text("\n" + report::step_title(step));
    out.text(aligned(report::operator_cells(step)));
    out.text(report::step_text(step));
    if (!step.fusions.empty()) out.text("\n" + aligned(report::fusion_cells(step)));
    for (const std::string& failure : report::failure_texts(step)) out.text("\n" + failure);
  }
}

Status write_page(const report::Report& report, const std::string& path) {
  std::ofstream file(path, std::ios::binary);
  file << report::render_html(report);
  file.close();
  if (file) return {};
  Diag diag;
  diag.code = ErrorCode::kIo;
  diag.subject = path;
  diag.message = "the page cannot be written";
  return diag;
}

Result<int> run(const Options& options) {
  auto model = report::load_model_config(options.model);
  if (!model) return model.status();
  auto steps = requests(options, *model);
  if (!steps) return steps.status();
  auto out = Output::open(options.json);
  if (!out) return out.status();
  auto measured = report::measure(*model, *steps, options.measure);
  if (!measured) return measured.status();
  print(*measured, *out);
  if (out->has_json())
    for (const std::string& line : report::json_lines(*measured)) out->json_line(line);
  if (!options.html.empty()) {
    RT_RETURN_IF_ERROR(write_page(*measured, options.html));
    out->text("\npage: " + options.html);
  }
  RT_RETURN_IF_ERROR(out->close());
  bool complete = true;
  for (const report::StepReport& step : measured->steps) complete &= step.complete();
  return complete ? 0 : 1;
}

}  // namespace

void add_report(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand(
      "report", "what each operator of a transformer step costs on this machine, and why");
  verb->add_option("model", options->model,
                   "a model's config.json, or the name of one under models/")
      ->capture_default_str();
  verb->add_option("--device", options->measure.device, "cpu, or cuda: the first GPU")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  verb->add_option("--phase", options->phase, "one phase only; default: both")
      ->check(CLI::IsMember({"prefill", "decode"}));
  verb->add_option("--batch", options->batch, "prompts, or requests; default 1")
      ->check(CLI::PositiveNumber);
  verb->add_option("--tokens", options->tokens,
                   fmt::format("prefill: tokens a prompt; default {}", kDefaultTokens))
      ->check(CLI::PositiveNumber);
  verb->add_option(
          "--context", options->context,
          fmt::format("decode: tokens in the cache a request; default {}", kDefaultContext))
      ->check(CLI::PositiveNumber);
  verb->add_flag("--sample", options->sample, "draw the next token instead of taking the argmax");
  verb->add_option("--seconds", options->measure.seconds_per_operator, "of timing, an operator")
      ->capture_default_str();
  verb->add_flag("--no-library{false}", options->measure.library, "do not time the library");
  verb->add_flag("--no-fusions{false}", options->measure.fusions,
                 "do not measure what fusion saves");
  verb->add_option("--html", options->html, "write one self-contained page to FILE");
  verb->add_option("--json", options->json, kJsonHelp);
  verb->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace rooftile::cli
