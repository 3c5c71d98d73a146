// SPDX-License-Identifier: Apache-2.0
// The report as one page: no script, nothing fetched, readable on paper, light or dark as the
// reader's system says.
#pragma once

#include <string>

#include "rooftile/report/report_data.h"

namespace rooftile::report {

std::string render_html(const Report& report);

}  // namespace rooftile::report
