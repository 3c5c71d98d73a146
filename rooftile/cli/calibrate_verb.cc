// SPDX-License-Identifier: Apache-2.0
// rooftile calibrate: measures this machine's ceilings anew and keeps them.
#include <fmt/format.h>

#include <memory>

#include "rooftile/bench/cuda/device_ceilings.h"
#include "rooftile/bench/roofline.h"
#include "rooftile/cli/output.h"
#include "rooftile/cli/verb.h"

namespace rooftile::cli {
namespace {

struct Options {
  std::string json, device = "cpu";
  bool cached = false;
};

Result<bench::Ceilings> measure(const Options& options) {
  if (options.device != "cuda") return options.cached ? bench::ceilings() : bench::calibrate();
  auto device = cuda::device(0);
  if (!device) return device.status();
  return options.cached ? bench::device_ceilings(**device) : bench::calibrate_device(**device);
}

Result<int> run(const Options& options) {
  auto out = Output::open(options.json);
  if (!out) return out.status();
  auto measured = measure(options);
  if (!measured) return measured.status();
  const bool gpu = options.device == "cuda";
  out->json_line(measured->json_line());
  out->text(gpu ? fmt::format("{}, {}", measured->device, measured->isa)
                : fmt::format("{}, {} thread{}, {}", measured->device, measured->threads,
                              measured->threads == 1 ? "" : "s", measured->isa));
  Table table({"ceiling", "value", "unit", "how"});
  for (const auto& [key, peak] : measured->peaks)
    if (key.find('/') != std::string::npos)
      table.row({"peak " + key.substr(0, key.find('/')), fmt::format("{:.0f}", peak.gflops),
                 "GFLOP/s", peak.mechanism});
  table.row({"read", fmt::format("{:.1f}", measured->read_gb_per_s), "GB/s",
             gpu ? "2 GiB, by a kernel" : "1 GiB, eight streams a thread"});
  table.row({"copy", fmt::format("{:.1f}", measured->copy_gb_per_s), "GB/s",
             gpu ? "2 GiB, by a kernel or the driver, read plus written"
                 : "1 GiB, non-temporal, read plus written"});
  table.row({"launch", fmt::format("{:.2f}", measured->launch_us), "us",
             gpu ? "an empty kernel, in a graph of many" : "an empty parallel region"});
  out->text(table.str());
  RT_RETURN_IF_ERROR(out->close());
  return 0;
}

}  // namespace

void add_calibrate(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* verb =
      app.add_subcommand("calibrate", "measure the peak rates and bandwidths of this machine");
  verb->add_option("--device", options->device, "cpu, or cuda: the first GPU")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  verb->add_flag("--cached", options->cached, "show the kept measurement if there is one");
  verb->add_option("--json", options->json, kJsonHelp);
  verb->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace rooftile::cli
