// SPDX-License-Identifier: Apache-2.0
// The verbs of the command line: one file each. A verb adds its subcommand with its options; when
// it is the one that was typed, main runs its action, whose Status decides the exit status.
//
// Exit status: 0 all well; 1 something failed (one Diag on standard error, or failed checks already
// printed); 2 the command line is wrong.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "rooftile/base/diag.h"

namespace rooftile::cli {

// The exit status, or the Diag that main prints before it exits with 1 (2 for RT-M003).
using Action = std::function<Result<int>()>;

void add_check(CLI::App& app, Action& action);
void add_bench(CLI::App& app, Action& action);
void add_calibrate(CLI::App& app, Action& action);
void add_ops(CLI::App& app, Action& action);
void add_explain(CLI::App& app, Action& action);
void add_doctor(CLI::App& app, Action& action);
void add_precompile(CLI::App& app, Action& action);
void add_version(CLI::App& app, Action& action);
void add_report(CLI::App& app, Action& action);  // report_verb.cc
void add_prove(CLI::App& app, Action& action);

inline constexpr const char* kJsonHelp = "one JSON object a line to FILE, or - for standard output";

}  // namespace rooftile::cli
