// SPDX-License-Identifier: Apache-2.0
// A report with made-up measurements over really derived steps: what the renderers are tested on.
// The numbers are computed from each row's position so that every row differs; they are never shown
// as results.
#pragma once

#include "rooftile/report/report_data.h"

namespace rooftile::report {

Report sample_report(const std::string& model_name);

}  // namespace rooftile::report
