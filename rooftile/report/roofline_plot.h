// SPDX-License-Identifier: Apache-2.0
// The roofline of one step: attained GFLOP/s over arithmetic intensity, log-log, under the measured
// ceilings, one labelled point an operator. A point's area is its share of the step's time, so that
// large and low means work to do. Operators without arithmetic stand on the left edge at the height
// that their bandwidth gives them there.
#pragma once

#include <string>

#include "rooftile/report/report_data.h"

namespace rooftile::report {

std::string roofline_svg(const bench::Ceilings& ceilings, const StepReport& step);

// The step's time as one bar, split by operator in the order of execution.
std::string time_bar_svg(const StepReport& step);

// "product", "attention", "rows", "movement": the style sheet's class of a family's colour.
std::string_view family_class(Family family);

}  // namespace rooftile::report
