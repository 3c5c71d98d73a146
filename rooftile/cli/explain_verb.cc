// SPDX-License-Identifier: Apache-2.0
// rooftile explain OP: what the compiler makes of an operator, stage by stage.
//
//   tile       the algorithm as its author wrote it
//   scheduled  what the schedule makes of it: loop nests on a CPU; roles, rings and homes on a GPU
//   lanes      GPU: what each thread does, a program a variant and phase
//   text       the C++ of the kernel; CUDA C++ for a GPU
//   host       the C++ of the launcher that checks the arguments
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "rooftile/check/case_inputs.h"
#include "rooftile/check/climb.h"
#include "rooftile/check/targets.h"
#include "rooftile/cli/op_args.h"
#include "rooftile/cli/op_page.h"
#include "rooftile/cli/output.h"
#include "rooftile/cli/verb.h"
#include "rooftile/compile/kernel.h"

namespace rooftile::cli {
namespace {

struct Options {
  std::string op, shape, dtype, kernel, stage, json, target = "cpu";
  std::vector<std::string> words;  // --flag k=v
  bool unfused = false;
};

struct Stage {
  std::string name, text;
};

// "M=16 N=32", the dtype and the flags are one case.
Result<Case> case_of(const Options& options, const OpDef& op) {
  std::string text = options.shape;
  if (text.empty()) {  // the first case of real sizes, or just the first
    const auto llm = std::find_if(op.case_list.begin(), op.case_list.end(),
                                  [](const Case& c) { return c.tagged("llm"); });
    if (!op.case_list.empty())
      text = (llm == op.case_list.end() ? op.case_list.front() : *llm).text;
  }
  if (!options.dtype.empty()) text += " dtype=" + options.dtype;
  for (const std::string& word : options.words) text += " " + word;
  return check::parse_case(text);
}

Result<const KernelDef*> kernel_of(const OpDef& op, const RefCall& call, const TargetInfo& target,
                                   const std::string& wanted) {
  const auto found = op.candidates(call.config, call.dims, target);
  if (wanted.empty() && !found.empty()) return found.front();
  std::vector<std::string> names;
  for (const KernelDef& kernel : op.kernels) {
    if (kernel.is_raw() && !target.gpu) continue;
    if (kernel.name == wanted) return &kernel;
    names.push_back(kernel.name);
  }
  Diag diag;
  diag.code = ErrorCode::kUsage;
  diag.subject = op.name;
  diag.message = wanted.empty() ? "no kernel applies to this shape" : "there is no such kernel";
  diag.found = wanted;
  diag.expected = fmt::format("{}", fmt::join(names, ", "));
  return diag;
}

// What a variant asks of a call, then its programs.
std::string lanes_text(const KernelSource& source) {
  std::string out;
  for (size_t v = 0; v < source.variants.size(); ++v) {
    const codegen::GpuNeeds& needs = source.variants[v].needs;
    out += fmt::format("// variant {}: ", v);
    std::string asks;
    if (needs.align_bytes > 1 && !needs.aligned.empty())
      asks =
          fmt::format("{} aligned to {} bytes", fmt::join(needs.aligned, ", "), needs.align_bytes);
    for (const Expr& condition : needs.conditions)
      asks += (asks.empty() ? "" : "; ") + condition.str();
    for (const AttrRange& range : needs.ranges)
      asks += fmt::format("{}{} <= {} <= {}", asks.empty() ? "" : "; ", range.least, range.attr,
                          range.most);
    out += (asks.empty() ? "any call" : asks) + "\n";
    if (v == 0 && source.route == Route::kRaw)
      out += "// hand-written: see `--stage text`\n";
    else
      for (const lanes::Program& phase : source.variants[v].phases)
        out += lanes::print(phase) + "\n";
  }
  return out;
}

Result<int> run(const Options& options) {
  auto op = op_named(options.op);
  if (!op) return op.status();
  auto target = check::target_named(options.target);
  if (!target) return target.status();
  auto written = case_of(options, **op);
  if (!written) return written.status();
  const Case test_case = check::for_target(**op, *written, *target);
  auto call = check::resolve_case(**op, test_case);
  if (!call) return call.status();
  auto kernel = kernel_of(**op, *call, *target, options.kernel);
  if (!kernel) return kernel.status();
  auto out = Output::open(options.json);
  if (!out) return out.status();

  const Schedule schedule = check::rung_schedule(
      **kernel, *call, *target, options.unfused ? check::Rung::kVec : check::Rung::kKernel);
  std::vector<Stage> stages;
  if (!(*kernel)->is_raw() || options.stage == "tile") {
    auto algorithm = (*op)->build(**kernel, call->config);
    if (!algorithm) return algorithm.status();
    stages.push_back({"tile", ir::print(*algorithm)});
  }
  if (options.stage != "tile") {  // the first stage is there even where later ones fail
    auto source = generate(**op, **kernel, call->config, call->dims, *target, &schedule);
    if (!source) return source.status();
    stages.push_back({"scheduled", source->scheduled});
    if (source->gpu()) stages.push_back({"lanes", lanes_text(*source)});
    stages.push_back({"text", source->kernel_text});
    stages.push_back({"host", source->launcher_text});
  }
  const std::string what =
      fmt::format("{} {} for {}", (*op)->name, kernel_words(**kernel), test_case.text);
  out->text(fmt::format("// {}\n// schedule: {}", what, schedule.str()));
  for (const Stage& stage : stages) {
    if (!options.stage.empty() && stage.name != options.stage) continue;
    out->json_line(
        nlohmann::ordered_json({{"op", (*op)->name},
                                {"kernel", (*kernel)->name},
                                {"route", route_name((*kernel)->route())},
                                {"case", test_case.text},
                                {"target", options.target},
                                {"schedule", schedule.str()},
                                {"stage", stage.name},
                                {"lines", std::count(stage.text.begin(), stage.text.end(), '\n')},
                                {"text", stage.text}})
            .dump());
    if (options.stage.empty())
      out->text(fmt::format("\n// ---- {}: {} lines, `--stage {}` shows it", stage.name,
                            std::count(stage.text.begin(), stage.text.end(), '\n'), stage.name));
    else
      out->text(stage.text);
  }
  RT_RETURN_IF_ERROR(out->close());
  return 0;
}

}  // namespace

void add_explain(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* verb =
      app.add_subcommand("explain", "show what the compiler makes of an operator, stage by stage");
  verb->add_option("op", options->op, "the operator")->required();
  verb->add_option("--shape", options->shape,
                   "sizes, dtypes and flags: \"M=16 N=4096 K=4096\"; default: a real one");
  verb->add_option("--dtype", options->dtype, "of the operands");
  verb->add_option("--flag", options->words,
                   "a flag, choice or optional tensor: causal=1, bias=1; repeatable")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  verb->add_option("--kernel", options->kernel,
                   "this kernel of the operator; default: the one that a call takes");
  verb->add_option("--stage", options->stage,
                   "tile, scheduled, lanes, text or host; default: what there is")
      ->check(CLI::IsMember({"tile", "scheduled", "lanes", "text", "host"}));
  verb->add_option("--target", options->target, "what to generate for")
      ->check(CLI::IsMember(check::target_names()))
      ->capture_default_str();
  verb->add_flag("--unfused", options->unfused,
                 "with the plainest schedule, as rung 2 of the ladder");
  verb->add_option("--json", options->json, kJsonHelp);
  verb->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace rooftile::cli
