// SPDX-License-Identifier: Apache-2.0
// rooftile bench [OP...]: times operators against the roofline and the libraries.
#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <memory>

#include "rooftile/base/log.h"
#include "rooftile/bench/bench.h"
#include "rooftile/bench/case_listing.h"
#include "rooftile/check/case_inputs.h"
#include "rooftile/cli/op_args.h"
#include "rooftile/cli/output.h"
#include "rooftile/cli/verb.h"
#include "rooftile/runtime/cuda/device.h"

namespace rooftile::cli {
namespace {

struct Options {
  std::vector<std::string> names, cases;
  std::vector<std::string> changes = {""};  // each case is run with each of them
  std::string set = "smoke", json, ceilings;
  bench::BenchOptions bench;
  bool no_check = false, no_peers = false, list = false;
};

using Job = std::pair<const OpDef*, Case>;

Result<std::vector<Job>> jobs_of(const Options& options) {
  auto ops = ops_named(options.names);
  if (!ops) return ops.status();
  std::vector<Job> jobs;
  for (const OpDef* op : *ops) {
    for (const std::string& text : options.cases) {
      auto test_case = check::parse_case(text);
      if (!test_case) return test_case.status();
      jobs.emplace_back(op, std::move(*test_case));
    }
    if (options.cases.empty())
      for (const Case* test_case : bench::bench_cases(*op, options.set))
        if (options.bench.route != "raw" || bench::has_raw_kernel(*op, *test_case))
          jobs.emplace_back(op, *test_case);
  }
  return jobs;
}

std::string rate(const bench::BenchLine& line) {
  return line.bound == "compute" ? fmt::format("{:.2f} TFLOP/s", line.tflops)
                                 : fmt::format("{:.1f} GB/s", line.gb_per_s);
}

void add_row(const bench::BenchLine& line, Table& table) {
  const bool peer = !line.peers.empty();
  table.row({line.op, line.dtype, line.case_text, line.route, line.kernel,
             fmt::format("{:.1f}", line.us.p50),
             fmt::format("({:.1f}-{:.1f})", line.us.p20, line.us.p80), rate(line),
             fmt::format("{:.0f}%", 100 * line.roofline_fraction), line.bound,
             peer ? line.peers.front().name : "none",
             peer ? fmt::format("{:.1f}", line.peers.front().us.p50) : "",
             peer ? fmt::format("{:.2f}", line.peers.front().ratio) : "",
             std::string(line.checked ? (line.pass ? "ok" : "WRONG") : "unchecked") +
                 (line.busy ? ", busy" : "")});
}

// The geometric mean of the ratios of each operator and dtype, over cases with a peer.
std::string summary(const std::vector<bench::BenchLine>& lines) {
  std::map<std::string, std::vector<double>> ratios;
  for (const bench::BenchLine& line : lines)
    if (!line.peers.empty() && line.peers.front().ratio > 0)
      ratios[line.op + " " + line.dtype + (line.route == "raw" ? " raw" : "")].push_back(
          line.peers.front().ratio);
  std::string out;
  for (const auto& [group, values] : ratios) {
    double logs = 0, least = values.front();
    for (double value : values) logs += std::log(value), least = std::min(least, value);
    out += fmt::format("{}{}: {:.2f} of the library's speed (geometric mean of {}, least {:.2f})",
                       out.empty() ? "" : "\n", group,
                       std::exp(logs / static_cast<double>(values.size())), values.size(), least);
  }
  return out;
}

// The first line of what `rooftile calibrate --json` wrote.
Result<std::optional<bench::Ceilings>> ceilings_from(const std::string& path) {
  if (path.empty()) return std::optional<bench::Ceilings>();
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  auto ceilings = bench::Ceilings::from_json(line);
  if (!ceilings) return ceilings.status();
  return std::optional<bench::Ceilings>(std::move(*ceilings));
}

// --list: the cases written out, for harnesses in other languages; nothing is run.
Result<int> list(const Options& options) {
  auto jobs = jobs_of(options);
  if (!jobs) return jobs.status();
  auto ceilings = ceilings_from(options.ceilings);
  if (!ceilings) return ceilings.status();
  auto out = Output::open(options.json);
  if (!out) return out.status();
  Table table({"op", "case"});
  for (const auto& [op, test_case] : *jobs) {
    auto line = bench::case_listing(*op, test_case, options.bench.device, *ceilings);
    if (!line) return line.status();
    out->json_line(*line);
    table.row({op->name, test_case.text});
  }
  out->text(table.str());
  RT_RETURN_IF_ERROR(out->close());
  return 0;
}

Result<int> run(const Options& options) {
  if (options.list) return list(options);
  auto jobs = jobs_of(options);
  if (!jobs) return jobs.status();
  auto out = Output::open(options.json);
  if (!out) return out.status();

  Table table({"op", "dtype", "case", "route", "kernel", "us", "p20-p80", "rate", "roof", "bound",
               "peer", "us", "ratio", "check"});
  std::vector<bench::BenchLine> lines;
  int failed = 0;
  Progress progress("bench", static_cast<int>(jobs->size() * options.changes.size()));
  if (options.bench.device == "cuda")  // what is missing is said once, and at once
    if (const auto device = cuda::device(0); !device) return device.status();
  bench::BenchOptions bench = options.bench;
  std::vector<std::pair<Job, std::string>> runs;
  for (const std::string& changes : options.changes) {
    bench.changes = changes;
    if (bench.route != "library") bench::compile_ahead(*jobs, bench);
  }
  for (const Job& job : *jobs)
    for (const std::string& changes : options.changes) runs.emplace_back(job, changes);
  for (const auto& [job, changes] : runs) {
    const auto& [op, test_case] = job;
    bench.changes = changes;
    progress.step(op->name + " " + test_case.text + (changes.empty() ? "" : " with " + changes));
    auto measured = bench::bench_case(*op, test_case, bench);
    if (!measured && (runs.size() == 1 || measured.diag().code == ErrorCode::kUsage))
      return measured.status();
    if (!measured) {  // the others are still worth their time
      ++failed;
      out->text(measured.diag().str());
      continue;
    }
    for (bench::BenchLine& line : *measured) {
      failed += line.pass ? 0 : 1;
      out->json_line(line.json_line());
      if (!line.pass)
        out->text(fmt::format("{} {} {}: {}; not timed", line.op, line.route, line.case_text,
                              line.errors.reason));
      if (!line.peer_wrong.empty())
        out->text(fmt::format("{} {}: {} is outside the tolerance; {}", line.op, line.case_text,
                              line.peers.empty() ? "the library" : line.peers.front().name,
                              line.peer_wrong));
      add_row(line, table);
      lines.push_back(std::move(line));
    }
  }
  out->text(table.str());
  if (const std::string means = summary(lines); !means.empty()) out->text(means);
  RT_RETURN_IF_ERROR(out->close());
  return failed == 0 ? 0 : 1;
}

}  // namespace

void add_bench(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand(
      "bench", "check operators, then time them against the roofline and the libraries");
  verb->add_option("op", options->names, "operators; default: all");
  verb->add_option("--set", options->set,
                   "smoke: the least real case of each; llm: the sizes of real models; full: more; "
                   "large: those that a GPU needs to show its peak")
      ->check(CLI::IsMember({"smoke", "llm", "full", "large"}))
      ->capture_default_str();
  verb->add_option("--case", options->cases,
                   "instead of a set: \"M=16 N=4096 K=4096 dtype=bf16\"; repeatable")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  verb->add_option("--device", options->bench.device, "cpu, or cuda: the first GPU")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  verb->add_option(
          "--route", options->bench.route,
          "auto: what a call takes, beside the libraries; tile: the compiler's kernel; raw: "
          "a hand-written one, where there is one; all: both in one race; library: the "
          "library alone")
      ->check(CLI::IsMember({"auto", "tile", "raw", "all", "library"}))
      ->capture_default_str();
  verb->add_option("--kernel", options->bench.kernel,
                   "this kernel of the operator; default: the first choice of the route");
  verb->add_option("--change", options->changes,
                   "run with the schedule changed so: \"BN=176 depth=5\"; repeatable, \"\" is none")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  verb->add_option("--rounds", options->bench.timing.rounds, "timed rounds")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  verb->add_option("--seconds", options->bench.timing.seconds,
                   "most time spent on the rounds of a case")
      ->capture_default_str();
  CLI::Option* check_flops = verb->add_option(
      "--check-flops", options->bench.max_reference_flops,
      "operations up to which the float64 check is made at full size; else on smaller ones");
  CLI::Option* list = verb->add_flag(
      "--list", options->list, "run nothing: list the cases, with --json all that a call takes");
  verb->add_option("--ceilings", options->ceilings,
                   "with --list: what `calibrate --json` wrote, to say what each case is bound by")
      ->needs(list);
  verb->add_flag("--no-peers", options->no_peers, "do not time the libraries");
  verb->add_flag("--no-check", options->no_check, "time without checking first; the line says so");
  verb->add_option("--json", options->json, kJsonHelp);
  verb->callback([options, check_flops, &action] {
    options->bench.check = !options->no_check;
    options->bench.peers = !options->no_peers;
    options->bench.timing.min_rounds =
        std::min(options->bench.timing.min_rounds, options->bench.timing.rounds);
    if (options->set == "smoke" && options->cases.empty()) {
      options->bench.timing.seconds = std::min(options->bench.timing.seconds, 0.5);
      if (check_flops->count() == 0) options->bench.max_reference_flops = 5e7;
      options->bench.rotate_bytes = int64_t{256} << 20;
    }
    action = [options] { return run(*options); };
  });
}

}  // namespace rooftile::cli
