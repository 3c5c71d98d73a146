// SPDX-License-Identifier: Apache-2.0
#include "rooftile/check/compare.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace rooftile::check {
namespace {

double root_mean_square(const NdArray& values) {
  double sum = 0;
  int64_t count = 0;
  for (double v : values.data)
    if (std::isfinite(v)) sum += v * v, ++count;
  return count == 0 ? 0 : std::sqrt(sum / static_cast<double>(count));
}

}  // namespace

void Comparison::merge(const Comparison& other) {
  max_abs = std::max(max_abs, other.max_abs);
  max_rel = std::max(max_rel, other.max_rel);
  norm_err = std::max(norm_err, other.norm_err);
  if (pass && !other.pass) {
    pass = false;
    reason = other.reason;
    first_bad = other.first_bad;
    got = other.got;
    want = other.want;
  }
}

Comparison compare(const NdArray& got, const NdArray& want, const Tolerance& tolerance) {
  Comparison out;
  if (got.shape != want.shape) {
    out.pass = false;
    out.reason = "the shapes differ";
    return out;
  }
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double floor = root_mean_square(want);
  double error_squares = 0, want_squares = 0;
  auto fail = [&](size_t at, const char* reason) {
    if (!out.pass) return;
    out.pass = false;
    out.reason = reason;
    out.first_bad = static_cast<int64_t>(at);
    out.got = got.data[at];
    out.want = want.data[at];
  };
  for (size_t i = 0; i < want.data.size(); ++i) {
    const double x = got.data[i], ref = want.data[i];
    if (std::isnan(ref) && std::isnan(x)) continue;
    if (std::isnan(ref) || std::isnan(x) || std::isinf(ref) || std::isinf(x)) {
      if (x == ref) continue;  // the same infinity
      out.max_abs = out.max_rel = out.norm_err = kInfinity;
      fail(i, std::isnan(x)     ? "NaN where the reference is not"
              : std::isnan(ref) ? "not NaN where the reference is"
                                : "infinity on one side only");
      continue;
    }
    const double error = std::abs(x - ref);
    const double scale = std::max(std::abs(ref), floor);
    out.max_abs = std::max(out.max_abs, error);
    if (error > 0) out.max_rel = std::max(out.max_rel, scale > 0 ? error / scale : kInfinity);
    error_squares += error * error;
    want_squares += ref * ref;
    if (error > tolerance.abs + tolerance.rel * std::abs(ref)) fail(i, "outside the tolerance");
  }
  if (error_squares > 0)
    out.norm_err = std::max(out.norm_err,
                            want_squares > 0 ? std::sqrt(error_squares / want_squares) : kInfinity);
  // A norm bound of zero means that the operator states none beside the elementwise one.
  if (out.pass && tolerance.norm > 0 && out.norm_err > tolerance.norm) {
    out.pass = false;
    out.reason = "the norm-wise error is outside its tolerance";
  }
  return out;
}

std::string coordinate(int64_t position, const std::vector<int64_t>& shape) {
  std::vector<int64_t> at(shape.size());
  for (size_t axis = shape.size(); axis-- > 0;) {
    const int64_t extent = std::max<int64_t>(shape[axis], 1);
    at[axis] = position % extent;
    position /= extent;
  }
  std::string out = "[";
  for (size_t axis = 0; axis < at.size(); ++axis)
    out += (axis == 0 ? "" : ", ") + std::to_string(at[axis]);
  return out + "]";
}

}  // namespace rooftile::check
