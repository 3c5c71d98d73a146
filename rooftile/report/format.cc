// SPDX-License-Identifier: Apache-2.0
#include "rooftile/report/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace rooftile::report {

std::string significant(double value, int digits) {
  if (value == 0 || !std::isfinite(value)) return fmt::format("{:g}", value);
  // The exponent after rounding: 0.9997 has three digits as 1.00.
  const std::string scientific = fmt::format("{:.{}e}", value, digits - 1);
  const int magnitude = std::stoi(scientific.substr(scientific.find('e') + 1));
  return fmt::format("{:.{}f}", value, std::clamp(digits - 1 - magnitude, 0, 9));
}

std::string si(double value, const char* unit) {
  constexpr const char* kPrefixes[] = {"", "k", "M", "G", "T", "P", "E"};
  size_t at = 0;
  // 999.5 would round up to four digits.
  while (std::abs(value) >= 999.5 && at + 1 < std::size(kPrefixes)) value /= 1000, ++at;
  return significant(value) + " " + kPrefixes[at] + unit;
}

namespace {

struct TimeUnit {
  double per_us;
  const char* name;
};

TimeUnit time_unit(double us) {
  if (std::abs(us) < 999.5) return {1, "us"};
  if (std::abs(us) < 999.5e3) return {1e-3, "ms"};
  return {1e-6, "s"};
}

}  // namespace

std::string time_text(double us) {
  const TimeUnit unit = time_unit(us);
  return significant(us * unit.per_us) + " " + unit.name;
}

std::string range_text(const bench::Quantiles& us) {
  const TimeUnit unit = time_unit(us.p50);
  return significant(us.p20 * unit.per_us) + " - " + significant(us.p80 * unit.per_us) + " " +
         unit.name;
}

std::string percent(double fraction) {
  const double value = fraction * 100;
  return fmt::format("{:.{}f} %", value, value >= 9.95 ? 0 : 1);
}

std::string times(double factor) { return fmt::format("{:.2f}x", factor); }

std::string short_schedule(const std::string& schedule) {
  std::string out = schedule.substr(0, schedule.find(' '));
  const size_t tile = schedule.find(" tile(");
  if (tile != std::string::npos) out += schedule.substr(tile, schedule.find(')', tile) + 1 - tile);
  return out;
}

std::string route_text(const std::string& route) {
  return route == "raw" ? "raw, unproved," : route;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

std::string error_text(double error) { return error == 0 ? "0" : fmt::format("{:.1e}", error); }

}  // namespace rooftile::report
