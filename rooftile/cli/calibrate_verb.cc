// SPDX-License-Identifier: Apache-2.0
// rooftile calibrate: measures this machine's ceilings anew and keeps them.
#include <fmt/format.h>

#include <memory>

#include "rooftile/bench/roofline.h"
#include "rooftile/cli/output.h"
#include "rooftile/cli/verb.h"

namespace rooftile::cli {
namespace {

struct Options {
  std::string json;
  bool cached = false;
};

Result<int> run(const Options& options) {
  auto out = Output::open(options.json);
  if (!out) return out.status();
  auto measured = options.cached ? bench::ceilings() : bench::calibrate();
  if (!measured) return measured.status();
  out->json_line(measured->json_line());
  out->text(fmt::format("{}, {} thread{}, {}", measured->device, measured->threads,
                        measured->threads == 1 ? "" : "s", measured->isa));
  Table table({"ceiling", "value", "unit", "how"});
  for (const auto& [key, peak] : measured->peaks)
    if (key.find('/') != std::string::npos)
      table.row({"peak " + key.substr(0, key.find('/')), fmt::format("{:.0f}", peak.gflops),
                 "GFLOP/s", peak.mechanism});
  table.row({"read", fmt::format("{:.1f}", measured->read_gb_per_s), "GB/s",
             "1 GiB, eight streams a thread"});
  table.row({"copy", fmt::format("{:.1f}", measured->copy_gb_per_s), "GB/s",
             "1 GiB, non-temporal, read plus written"});
  table.row(
      {"launch", fmt::format("{:.2f}", measured->launch_us), "us", "an empty parallel region"});
  out->text(table.str());
  RT_RETURN_IF_ERROR(out->close());
  return 0;
}

}  // namespace

void add_calibrate(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* verb =
      app.add_subcommand("calibrate", "measure the peak rates and bandwidths of this machine");
  verb->add_flag("--cached", options->cached, "show the kept measurement if there is one");
  verb->add_option("--json", options->json, kJsonHelp);
  verb->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace rooftile::cli
