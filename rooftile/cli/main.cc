// SPDX-License-Identifier: Apache-2.0
// The command line: `rooftile VERB ...`. Parses, runs the verb, and turns its outcome into an exit
// status (verb.h).
#include <cctype>
#include <cstdio>

#include "rooftile/cli/verb.h"

namespace {

constexpr int kFailed = 1;
constexpr int kUsageError = 2;

int parse_failed(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) return app.exit(error);  // --help
  const auto chosen = app.get_subcommands();
  const std::string verb = chosen.empty() ? "" : " " + chosen.front()->get_name();
  rooftile::Diag diag;
  diag.code = rooftile::ErrorCode::kUsage;
  diag.subject = "rooftile" + verb;
  diag.message = error.what();
  if (!diag.message.empty()) diag.message[0] = static_cast<char>(std::tolower(diag.message[0]));
  diag.fix = "see `rooftile" + verb + " --help`";
  std::fprintf(stderr, "%s\n", diag.str().c_str());
  return kUsageError;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Rooftile: LLM operators from tile programs, checked against float64 references and timed\n"
      "against the roofline of this machine.",
      "rooftile");
  app.require_subcommand(1);
  rooftile::cli::Action action;
  rooftile::cli::add_report(app, action);
  rooftile::cli::add_check(app, action);
  rooftile::cli::add_bench(app, action);
  rooftile::cli::add_calibrate(app, action);
  rooftile::cli::add_ops(app, action);
  rooftile::cli::add_explain(app, action);
  rooftile::cli::add_doctor(app, action);
  rooftile::cli::add_prove(app, action);
  rooftile::cli::add_precompile(app, action);
  rooftile::cli::add_version(app, action);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return parse_failed(app, error);
  }
  const rooftile::Result<int> outcome = action();
  if (outcome) return *outcome;
  std::fprintf(stderr, "%s\n", outcome.diag().str().c_str());
  return outcome.diag().code == rooftile::ErrorCode::kUsage ? kUsageError : kFailed;
}
