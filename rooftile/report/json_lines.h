// SPDX-License-Identifier: Apache-2.0
// The report for programs: one JSON object a line, `kind` first among equals: machine, operator,
// fusion, step. Operator lines hold everything that a benchmark line holds, and what the step adds:
// role, count, share, gain.
#pragma once

#include <string>
#include <vector>

#include "rooftile/report/report_data.h"

namespace rooftile::report {

std::vector<std::string> json_lines(const Report& report);

}  // namespace rooftile::report
