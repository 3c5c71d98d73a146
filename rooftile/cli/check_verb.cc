// SPDX-License-Identifier: Apache-2.0
// rooftile check [OP...|ID...]: the correctness ladder.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "rooftile/base/log.h"
#include "rooftile/check/case_inputs.h"
#include "rooftile/check/ladder.h"
#include "rooftile/cli/op_args.h"
#include "rooftile/cli/output.h"
#include "rooftile/cli/verb.h"

namespace rooftile::cli {
namespace {

struct Options {
  std::vector<std::string> names;  // operators, or ids of single results
  std::vector<std::string> cases;  // instead of a set of the operator's own
  check::LadderOptions ladder;
  int rung = 0, seeds = 0;
  uint64_t seed = 0;
  std::string json;
  bool quiet = false;
};

// "rms_norm" or "rms_norm/kernel/cpu/bf16/T8_H4096".
struct Request {
  const OpDef* op;
  std::string id;  // "" for the whole operator
};

Result<std::vector<Request>> requests(const std::vector<std::string>& names) {
  std::vector<Request> out;
  for (const std::string& name : names) {
    auto op = op_named(name.substr(0, name.find('/')));
    if (!op) return op.status();
    out.push_back({*op, name.find('/') == std::string::npos ? "" : name});
  }
  if (names.empty())
    for (const OpDef& op : all_ops()) out.push_back({&op, ""});
  return out;
}

// The target is the third word of an id.
std::string target_of(const std::string& id, const std::string& otherwise) {
  std::vector<std::string> words(1);
  for (char c : id)
    if (c == '/')
      words.emplace_back();
    else
      words.back() += c;
  return words.size() >= 5 ? words[2] : otherwise;
}

Diag no_such_result(const std::string& id) {
  Diag diag;
  diag.code = ErrorCode::kUsage;
  diag.subject = "check";
  diag.message = "no case of the operator has this id";
  diag.found = id;
  diag.fix = "copy an id from the output of `rooftile check " + id.substr(0, id.find('/')) +
             " --set full`";
  return diag;
}

// The operator with these cases alone.
Result<OpDef> with_cases(const OpDef& op, const std::vector<std::string>& texts) {
  OpDef out = op;
  out.case_list.clear();
  for (const std::string& text : texts) {
    auto test_case = check::parse_case(text);
    if (!test_case) return test_case.status();
    if (auto call = check::resolve_case(op, *test_case); !call) return call.status();
    test_case->tags = {"smoke"};
    out.case_list.push_back(std::move(*test_case));
  }
  return out;
}

Result<int> run(const Options& options) {
  auto wanted = requests(options.names);
  if (!wanted) return wanted.status();
  auto out = Output::open(options.json);
  if (!out) return out.status();

  check::Tally total;
  Progress progress("check", static_cast<int>(wanted->size()));
  for (const Request& request : *wanted) {
    progress.step(request.op->name);
    check::LadderOptions ladder = options.ladder;
    ladder.only = request.id;
    ladder.target = target_of(request.id, ladder.target);
    std::optional<OpDef> own;
    if (!options.cases.empty()) {
      auto with = with_cases(*request.op, options.cases);
      if (!with) return with.status();
      own = std::move(*with);
      ladder.set = "smoke";
    }
    auto tally =
        check::run_ladder(own ? *own : *request.op, ladder, [&](const check::CheckLine& line) {
          out->json_line(line.json_line());
          if (!options.quiet || !line.pass()) out->text(line.text());
          progress.tick();
        });
    if (!tally) return tally.status();
    if (!request.id.empty() && tally->passed + tally->failed + tally->skipped == 0)
      return no_such_result(request.id);
    total.passed += tally->passed;
    total.failed += tally->failed;
    total.skipped += tally->skipped;
  }
  out->text(
      fmt::format("{} passed, {} failed, {} skipped", total.passed, total.failed, total.skipped));
  RT_RETURN_IF_ERROR(out->close());
  return total.failed == 0 ? 0 : 1;
}

}  // namespace

void add_check(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* verb =
      app.add_subcommand("check", "compare operators with their float64 references, rung by rung");
  verb->add_option("op", options->names, "operators, or ids of single results; default: all");
  verb->add_option("--set", options->ladder.set, "which cases")
      ->check(CLI::IsMember({"smoke", "ci", "llm", "full", "large"}))
      ->capture_default_str();
  verb->add_option("--case", options->cases,
                   "instead of a set: \"T=16 H=4096 dtype=bf16\"; repeatable")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  verb->add_option("--target", options->ladder.target, "what to compile for")
      ->check(CLI::IsMember(check::target_names()))
      ->capture_default_str();
  verb->add_option("--route", options->ladder.route,
                   "tile: the compiler's kernels; raw: hand-written ones; all")
      ->check(CLI::IsMember({"tile", "raw", "all"}))
      ->capture_default_str();
  verb->add_option("--repeat", options->ladder.runs,
                   "equal runs of each kernel, whose results must be equal to the bit")
      ->check(CLI::Range(2, 1000))
      ->capture_default_str();
  CLI::Option* seeds =
      verb->add_option("--seeds", options->seeds,
                       "sm90-emulated: orders of events that each kernel is run under")
          ->check(CLI::Range(2, 1000));
  CLI::Option* rung =
      verb->add_option("--rung", options->rung, "1 interp, 2 vec, 3 kernel, 4 fused; default: all")
          ->check(CLI::Range(1, 4));
  CLI::Option* seed =
      verb->add_option("--seed", options->seed, "of the random inputs; default: fresh");
  verb->add_option("--json", options->json, kJsonHelp);
  verb->add_flag("-q,--quiet", options->quiet, "show only what failed or was skipped");
  verb->callback([options, rung, seed, seeds, &action] {
    // Each run of the emulator has an order of its own.
    if (seeds->count() > 0) options->ladder.runs = options->seeds;
    if (rung->count() > 0) options->ladder.rung = static_cast<check::Rung>(options->rung);
    if (seed->count() > 0) options->ladder.seed = options->seed;
    action = [options] { return run(*options); };
  });
}

}  // namespace rooftile::cli
