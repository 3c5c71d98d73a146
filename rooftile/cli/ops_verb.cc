// SPDX-License-Identifier: Apache-2.0
// rooftile ops [OP]: what operators there are, and the contract of one.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "rooftile/bench/cuda/device_peers.h"
#include "rooftile/bench/peers/peers.h"
#include "rooftile/cli/op_args.h"
#include "rooftile/cli/op_page.h"
#include "rooftile/cli/output.h"
#include "rooftile/cli/verb.h"

namespace rooftile::cli {
namespace {

using nlohmann::ordered_json;

std::vector<std::string> kernel_names(const OpDef& op) {
  std::vector<std::string> names;
  for (const KernelDef& kernel : op.kernels) names.push_back(kernel_words(kernel));
  return names;
}

std::vector<std::string> main_dtypes(const OpDef& op) {
  std::vector<std::string> names;
  for (const ArgDef& arg : op.args) {
    if (arg.role == ir::Role::kOut || arg.dtypes.empty()) continue;
    const bool values = is_float(arg.dtypes.front()) || arg.dtypes.front() == DType::kI8;
    for (DType dtype : arg.dtypes) names.emplace_back(name(dtype));
    if (values) return names;
    names.clear();
  }
  return names;
}

std::vector<std::string> routes(const OpDef& op) {
  std::vector<std::string> out;
  if (op.reference_fn) out.push_back("reference");
  if (bench::has_peer(op.name) || bench::has_device_peer(op.name)) out.push_back("library");
  for (const Route route : {Route::kTile, Route::kRaw})
    if (std::any_of(op.kernels.begin(), op.kernels.end(),
                    [&](const KernelDef& kernel) { return kernel.route() == route; }))
      out.emplace_back(route_name(route));
  return out;
}

std::string summary_json(const OpDef& op) {
  return ordered_json({{"op", op.name},
                       {"family", op.family},
                       {"summary", op.summary},
                       {"dtypes", main_dtypes(op)},
                       {"kernels", kernel_names(op)},
                       {"routes", routes(op)},
                       {"replaces", op.replaced_ops},
                       {"cases", op.case_list.size()}})
      .dump();
}

Result<int> run(const std::vector<std::string>& names, const std::string& json_path) {
  auto ops = ops_named(names);
  if (!ops) return ops.status();
  auto out = Output::open(json_path);
  if (!out) return out.status();
  Table table({"operator", "family", "dtypes", "kernels", "routes", "what it does"});
  for (const OpDef* op : *ops) {
    out->json_line(names.empty() ? summary_json(*op) : op_page_json(*op));
    table.row({op->name, op->family, fmt::format("{}", fmt::join(main_dtypes(*op), " ")),
               fmt::format("{}", fmt::join(kernel_names(*op), " ")),
               fmt::format("{}", fmt::join(routes(*op), " ")), op->summary});
    if (!names.empty()) out->text(op_page(*op));
  }
  if (names.empty()) out->text(table.str());
  RT_RETURN_IF_ERROR(out->close());
  return 0;
}

}  // namespace

void add_ops(CLI::App& app, Action& action) {
  struct Options {
    std::vector<std::string> names;
    std::string json;
  };
  auto options = std::make_shared<Options>();
  CLI::App* verb =
      app.add_subcommand("ops", "list the operators, or show the contract of those named");
  verb->add_option("op", options->names, "operators whose contract to show");
  verb->add_option("--json", options->json, kJsonHelp);
  verb->callback(
      [options, &action] { action = [options] { return run(options->names, options->json); }; });
}

}  // namespace rooftile::cli
