// SPDX-License-Identifier: Apache-2.0
// How one result of the ladder is written: a JSON line, and text for people.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "rooftile/check/ladder.h"

namespace rooftile::check {
namespace {

using nlohmann::ordered_json;

// JSON has no infinity or NaN; null says that there is no finite number.
ordered_json number(double value) {
  return std::isfinite(value) ? ordered_json(value) : ordered_json(nullptr);
}

// A value of a tensor: here NaN and infinity are told apart.
ordered_json value(double x) {
  return std::isfinite(x) ? ordered_json(x) : ordered_json(fmt::format("{}", x));
}

}  // namespace

std::string_view rung_name(Rung rung) {
  switch (rung) {
    case Rung::kInterp:
      return "interp";
    case Rung::kVec:
      return "vec";
    case Rung::kKernel:
      return "kernel";
    case Rung::kFused:
      return "fused";
  }
  return "";
}

std::string CheckLine::json_line() const {
  ordered_json line = {
      {"op", op},
      {"kernel", kernel},
      {"route", route},
      {"target", target},
      {"rung", static_cast<int>(rung)},
      {"dtype", dtype},
      {"case", case_text},
      {"max_abs", number(errors.max_abs)},
      {"max_rel", number(errors.max_rel)},
      {"norm_err", number(errors.norm_err)},
      {"tol", {{"abs", tolerance.abs}, {"rel", tolerance.rel}, {"norm", tolerance.norm}}},
      {"pass", pass()},
      {"id", id},
      {"seed", seed}};
  if (below_norm_err >= 0) line["below_norm_err"] = number(below_norm_err);
  if (!skipped.empty()) {
    line["pass"] = nullptr;
    line["skipped"] = skipped;
  } else if (!pass()) {
    line["reason"] = errors.reason;
    line["output"] = output;
    line["layout"] = layout;
    if (!first_bad.empty()) {
      line["first_bad"] = first_bad;
      line["got"] = value(errors.got);
      line["want"] = value(errors.want);
    }
  }
  return line.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

std::string CheckLine::text() const {
  if (!skipped.empty()) return fmt::format("skip  {}: {}", id, skipped);
  const std::string errors_text = fmt::format("max_abs {:.3g}, max_rel {:.3g}, norm {:.3g}",
                                              errors.max_abs, errors.max_rel, errors.norm_err);
  if (pass()) return fmt::format("ok    {}: {}", id, errors_text);
  std::string out = fmt::format("FAIL  {}: {}\n  errors:     {}", id, errors.reason, errors_text);
  out += fmt::format("\n  tolerance:  abs {:.3g}, rel {:.3g}, norm {:.3g}", tolerance.abs,
                     tolerance.rel, tolerance.norm);
  if (!output.empty()) out += fmt::format("\n  output:     {} ({})", output, layout);
  if (!first_bad.empty())
    out += fmt::format("\n  first bad:  {} got {:.9g}, want {:.9g}", first_bad, errors.got,
                       errors.want);
  return out + fmt::format("\n  repeat:     rooftile check {} --seed {}", id, seed);
}

void Tally::add(const CheckLine& line) {
  if (!line.skipped.empty())
    ++skipped;
  else
    ++(line.pass() ? passed : failed);
}

}  // namespace rooftile::check
