// SPDX-License-Identifier: Apache-2.0
// Numbers as people read them, the same in the table and on the page.
#pragma once

#include <string>

#include "rooftile/report/report_data.h"

namespace rooftile::report {

std::string significant(double value, int digits = 3);  // "0.0123", "1.23", "12300"
std::string si(double value, const char* unit);         // "1.23 GFLOP"
std::string time_text(double us);                       // "12.3 us", "4.56 ms", "1.23 s"
std::string range_text(const bench::Quantiles& us);     // "12.1 - 12.5 us": p20 and p80
std::string percent(double fraction);                   // "12.3 %"
std::string times(double factor);                       // "1.23x"
// A schedule's name and tile sizes: "small_m tile(BK=4096, BM=16)". The rest is in the JSON.
std::string short_schedule(const std::string& schedule);
std::string route_text(const std::string& route);  // "raw, unproved," for hand-written kernels
std::string first_line(const std::string& text);
std::string error_text(double error);  // "1.2e-03"

}  // namespace rooftile::report
