// SPDX-License-Identifier: Apache-2.0
// rooftile version
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "rooftile/bench/provenance.h"
#include "rooftile/cli/output.h"
#include "rooftile/cli/verb.h"

namespace rooftile::cli {

void add_version(CLI::App& app, Action& action) {
  auto json_path = std::make_shared<std::string>();
  CLI::App* verb = app.add_subcommand("version", "show the version and the commit of this build");
  verb->add_option("--json", *json_path, kJsonHelp);
  verb->callback([json_path, &action] {
    action = [json_path]() -> Result<int> {
      auto out = Output::open(*json_path);
      if (!out) return out.status();
      const bench::Provenance build = bench::provenance();
      out->json_line(
          nlohmann::ordered_json({{"version", build.version}, {"commit", build.commit}}).dump());
      out->text(fmt::format("rooftile {} ({})", build.version, build.commit));
      RT_RETURN_IF_ERROR(out->close());
      return 0;
    };
  });
}

}  // namespace rooftile::cli
