// SPDX-License-Identifier: Apache-2.0
#include "rooftile/check/ladder.h"

#include <fmt/format.h>

#include <set>

#include "rooftile/check/case_inputs.h"
#include "rooftile/check/climb.h"
#include "rooftile/check/compile_all.h"
#include "rooftile/compile/kernel.h"

namespace rooftile::check {
namespace {

// Scalar loops in double, one thread.
constexpr double kReferenceFlopsPerSecond = 5e8;

// A case of the set, resolved.
struct Item {
  Case test_case;
  RefCall call;
  std::vector<const KernelDef*> kernels;  // those that apply
};

void keep_first_of_each_route(std::vector<const KernelDef*>& kernels) {
  std::set<Route> seen;
  std::erase_if(kernels,
                [&](const KernelDef* kernel) { return !seen.insert(kernel->route()).second; });
}

Result<std::vector<Item>> items_of(const OpDef& op, const LadderOptions& options,
                                   const TargetInfo& target) {
  std::vector<Item> items;
  std::set<std::string> seen;  // on a target that lacks a flag, two cases may be the same
  for (const Case& listed : op.case_list) {
    if (options.only.empty() && !in_set(listed, options.set)) continue;
    const Case test_case = for_target(op, listed, target);
    if (!seen.insert(test_case.text).second) continue;
    auto call = resolve_case(op, test_case);
    if (!call) return call.status();
    Item item{test_case, std::move(*call), {}};
    for (const KernelDef& kernel : op.kernels)
      if ((options.route == "all" || options.route == route_name(kernel.route())) &&
          kernel.takes(item.call.config, item.call.dims, target))
        item.kernels.push_back(&kernel);
    // The smoke set is about what a call would run; the larger ones take every kernel that could.
    if (options.only.empty() && options.set == "smoke") keep_first_of_each_route(item.kernels);
    items.push_back(std::move(item));
  }
  return items;
}

std::vector<KernelSource> sources_of(const OpDef& op, const std::vector<Item>& items,
                                     const LadderOptions& options, const TargetInfo& target,
                                     std::vector<Diag>& refused) {
  std::vector<KernelSource> sources;
  for (const Item& item : items)
    for (const KernelDef* kernel : item.kernels)
      for (const Rung rung : {Rung::kVec, Rung::kKernel}) {
        const bool wanted = !options.rung || *options.rung == rung ||
                            (*options.rung == Rung::kFused && rung == Rung::kKernel);
        if (!wanted) continue;
        auto source = rung_source(op, *kernel, item.call, target, rung);
        if (source)
          sources.push_back(std::move(*source));
        else
          refused.push_back(source.diag());
      }
  return sources;
}

}  // namespace

Result<std::vector<KernelSource>> ladder_sources(const OpDef& op, const LadderOptions& options,
                                                 std::vector<Diag>& refused) {
  auto target = target_named(options.target);
  if (!target) return target.status();
  auto items = items_of(op, options, *target);
  if (!items) return items.status();
  return sources_of(op, *items, options, *target, refused);
}

bool in_set(const Case& test_case, std::string_view set) {
  return test_case.tagged(set) || (set == "full" && !test_case.tagged("large")) ||
         (set == "ci" && test_case.tagged("smoke"));
}

Result<Tally> run_ladder(const OpDef& op, const LadderOptions& options,
                         const std::function<void(const CheckLine&)>& sink) {
  auto target = target_named(options.target);
  if (!target) return target.status();
  auto items = items_of(op, options, *target);
  if (!items) return items.status();
  const uint64_t first_seed = options.seed.value_or(fresh_seed());
  auto executor = executor_for(options.target, first_seed);
  if (!executor) return executor.status();
  if (options.only.empty() && (*executor)->compiles()) {
    std::vector<Diag> refused;  // each is a line below, where its turn comes
    compile_all(sources_of(op, *items, options, *target, refused));
  }

  Tally tally;
  const std::function<void(const CheckLine&)> count = [&](const CheckLine& line) {
    tally.add(line);
    sink(line);
  };
  for (const Item& item : *items) {
    std::vector<Climb> climbs;
    for (const KernelDef* kernel : item.kernels) {
      Climb climb(op, *kernel, item.test_case, item.call.config, options, *target, **executor,
                  count);
      if (climb.wanted()) climbs.push_back(climb);
    }
    if (climbs.empty()) continue;
    const double flops = op.cost_fn ? op.cost_fn(item.call).flops : 0;
    if (flops > options.max_reference_flops) {
      for (const Climb& climb : climbs)
        climb.skip(fmt::format("the float64 reference would take about {:.0f} s",
                               flops / kReferenceFlopsPerSecond));
      continue;
    }
    if (const double most = (*executor)->max_flops(); most > 0 && flops > most) {
      for (const Climb& climb : climbs) climb.skip("too large for the emulator");
      continue;
    }
    const uint64_t seed = options.seed.value_or(fresh_seed());
    RefCall inputs = item.call;
    RT_RETURN_IF_ERROR(make_inputs(op, inputs, seed));
    RefCall expected = inputs;
    op.reference_fn(expected);
    for (Climb& climb : climbs) climb.run(inputs, expected, seed);
  }
  return tally;
}

}  // namespace rooftile::check
