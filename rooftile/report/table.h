// SPDX-License-Identifier: Apache-2.0
// The report for a terminal: cells of the tables, and the sentences around them. Columns are
// aligned by the caller.
#pragma once

#include <string>
#include <vector>

#include "rooftile/report/report_data.h"

namespace rooftile::report {

using Cells = std::vector<std::vector<std::string>>;  // the first row is the header

std::string machine_text(const Report& report);
Cells operator_cells(const StepReport& step);
Cells fusion_cells(const StepReport& step);  // empty when there is no fusion
std::string step_text(const StepReport& step);
std::vector<std::string> failure_texts(const StepReport& step);  // one a row that failed

}  // namespace rooftile::report
