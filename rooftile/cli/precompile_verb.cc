// SPDX-License-Identifier: Apache-2.0
// rooftile precompile DIR: compiles here, without a GPU, what another machine will run: cubins and
// launchers of every kernel that `check` and `bench` need for a set, in a folder that
// ROOFTILE_CUBIN_DIR names there.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "rooftile/base/log.h"
#include "rooftile/bench/bench.h"
#include "rooftile/bench/cuda/ceiling_kernels.h"
#include "rooftile/check/ladder.h"
#include "rooftile/cli/op_args.h"
#include "rooftile/cli/output.h"
#include "rooftile/cli/verb.h"
#include "rooftile/compile/gpu_kernel.h"
#include "rooftile/toolchain/cubin_cache.h"

namespace rooftile::cli {
namespace {

struct Options {
  std::vector<std::string> names, sets = {"smoke"};
  std::string dir, target = "sm90", route = "all", json;
};

// By their texts: many cases share a kernel.
using Sources = std::map<std::string, KernelSource>;

void add(std::vector<KernelSource> from, Sources& to) {
  for (KernelSource& source : from) {
    std::string key = source.launcher_text + source.kernel_text;
    to.emplace(std::move(key), std::move(source));
  }
}

Status add_op(const OpDef& op, const std::string& set, const Options& options, Sources& to,
              std::vector<Diag>& refused) {
  check::LadderOptions ladder;
  ladder.set = set;
  ladder.target = options.target;
  ladder.route = options.route;
  auto checked = check::ladder_sources(op, ladder, refused);
  if (!checked) return checked.status();
  add(std::move(*checked), to);
  bench::BenchOptions bench;
  bench.device = "cuda";
  bench.route = options.route;
  std::vector<std::pair<const OpDef*, Case>> cases;
  if (set != "ci")
    for (const Case* test_case : bench::bench_cases(op, set))
      if (options.route != "raw" || bench::has_raw_kernel(op, *test_case))
        cases.emplace_back(&op, *test_case);
  add(bench::bench_sources(cases, bench, refused), to);
  return {};
}

struct Outcome {
  std::string name;
  Status status;
};

// On all cores.
std::vector<Outcome> carry_all(const Sources& sources, const std::string& dir, Progress& progress) {
  std::vector<const KernelSource*> queue;
  for (const auto& [text, source] : sources) queue.push_back(&source);
  std::vector<Outcome> out(queue.size());
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::vector<std::jthread> workers;
  for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i)
    workers.emplace_back([&] {
      for (size_t at = next++; at < queue.size(); at = next++) {
        out[at] = {queue[at]->name, carry_gpu(*queue[at], dir)};
        const std::lock_guard lock(mutex);
        progress.step(queue[at]->name);
      }
    });
  workers.clear();
  return out;
}

Result<int> run(const Options& options) {
  auto ops = ops_named(options.names);
  if (!ops) return ops.status();
  auto out = Output::open(options.json);
  if (!out) return out.status();
  auto cache = CubinCache::open();
  if (!cache) return cache.status();
  auto ceilings = cache->carry_to(options.dir, bench::ceiling_kernels_text(), {}, "ceilings");
  if (!ceilings) return ceilings.status();

  Sources sources;
  std::vector<Diag> refused;
  for (const OpDef* op : *ops)
    for (const std::string& set : options.sets)
      RT_RETURN_IF_ERROR(add_op(*op, set, options, sources, refused));
  Progress progress("precompile", static_cast<int>(sources.size()));
  int failed = static_cast<int>(refused.size());
  for (const Diag& diag : refused) {
    out->text(diag.str());
    out->json_line(
        nlohmann::ordered_json({{"kernel", diag.subject}, {"ok", false}, {"error", diag.str()}})
            .dump());
  }
  for (const Outcome& outcome : carry_all(sources, options.dir, progress)) {
    failed += outcome.status.ok() ? 0 : 1;
    nlohmann::ordered_json line = {{"kernel", outcome.name}, {"ok", outcome.status.ok()}};
    if (!outcome.status.ok()) {
      line["error"] = outcome.status.str();
      out->text(outcome.name + "\n" + outcome.status.str());
    }
    out->json_line(line.dump());
  }
  out->text(fmt::format("{} kernels in {}, {} failed", sources.size(), options.dir, failed));
  RT_RETURN_IF_ERROR(out->close());
  return failed == 0 ? 0 : 1;
}

}  // namespace

void add_precompile(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand(
      "precompile", "compile GPU kernels into a folder that another machine will use");
  verb->add_option("dir", options->dir, "the folder; made if it is not there")->required();
  verb->add_option("--op", options->names, "these operators alone; repeatable")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  verb->add_option("--set", options->sets, "what check and bench need for these; repeatable")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->check(CLI::IsMember({"smoke", "ci", "llm", "full", "large"}))
      ->capture_default_str();
  verb->add_option("--target", options->target, "what to compile for")
      ->check(CLI::IsMember({"sm90"}))
      ->capture_default_str();
  verb->add_option("--route", options->route, "tile, raw, or all")
      ->check(CLI::IsMember({"tile", "raw", "all"}))
      ->capture_default_str();
  verb->add_option("--json", options->json, kJsonHelp);
  verb->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace rooftile::cli
