// SPDX-License-Identifier: Apache-2.0
#include "rooftile/report/roofline_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "rooftile/report/format.h"
#include "rooftile/report/label_placement.h"
#include "rooftile/report/svg.h"

namespace rooftile::report {
namespace {

// Pixels of the picture's own coordinate system; the page scales it.
constexpr double kWidth = 960, kHeight = 560;
constexpr Box kFrame = {70, 18, 942, 504};
// Of the style sheet's 11.5 px fonts; wide enough for the widest fallback font.
constexpr double kLabelChar = 7.3, kTextChar = 6.7, kLabelHeight = 13;

// Maps decades to pixels: begin at `low` px, end at `high` px.
struct LogAxis {
  double first, last;  // values at the ends
  double low, high;
  double at(double value) const {
    const double fraction = std::log(value / first) / std::log(last / first);
    return low + fraction * (high - low);
  }
  double decade_px() const { return (high - low) / std::log10(last / first); }
};

struct Plot {
  LogAxis x, y;  // FLOP per byte; GFLOP/s
  double intensity(const Row& row) const { return row.line.flops > 0 ? row.intensity() : x.first; }
  double height(const Row& row) const {
    return row.line.flops > 0 ? row.line.tflops * 1e3 : row.line.gb_per_s * x.first;
  }
};

bool has_point(const Row& row) { return row.measured() && row.line.bytes > 0; }

double highest_peak(const bench::Ceilings& ceilings) {
  const auto peaks = peaks_by_dtype(ceilings);
  return peaks.empty() ? 0 : peaks.front().second;
}

Plot axes(const bench::Ceilings& ceilings, const StepReport& step) {
  const double peak = highest_peak(ceilings);
  const double bandwidth = std::max(ceilings.read_gb_per_s, 1.0);
  double low_x = 0.1, high_x = std::max(10.0, 4 * peak / bandwidth);
  for (const Row& row : step.rows) {
    if (!has_point(row) || row.line.flops <= 0) continue;
    low_x = std::min(low_x, row.intensity() / 2);
    high_x = std::max(high_x, row.intensity() * 2);
  }
  Plot plot{{low_x, high_x, kFrame.left, kFrame.right}, {1, 1, kFrame.bottom, kFrame.top}};
  double low_y = bandwidth * low_x, high_y = std::max(peak, bandwidth * low_x * 10);
  for (const Row& row : step.rows) {
    if (!has_point(row)) continue;
    low_y = std::min(low_y, plot.height(row));
    high_y = std::max(high_y, plot.height(row));
  }
  plot.y.first = low_y / 2;
  plot.y.last = high_y * 1.8;
  return plot;
}

// "0.01", "1", "1k", "1M"
std::string decade_text(int exponent) {
  if (exponent < 3) return fmt::format("{:g}", std::pow(10.0, exponent));
  return fmt::format("{:g}{}", std::pow(10.0, exponent % 3), exponent < 6 ? "k" : "M");
}

void draw_grid(Svg& svg, const Plot& plot) {
  svg.rect(kFrame.left, kFrame.top, kFrame.right - kFrame.left, kFrame.bottom - kFrame.top,
           "frame");
  auto decades = [](const LogAxis& axis, auto&& major, auto&& minor) {
    const int first = static_cast<int>(std::floor(std::log10(axis.first)));
    const int last = static_cast<int>(std::ceil(std::log10(axis.last)));
    for (int decade = first; decade <= last; ++decade)
      for (int digit = 1; digit < 10; ++digit) {
        const double value = digit * std::pow(10.0, decade);
        if (value < axis.first || value > axis.last) continue;
        if (digit == 1)
          major(axis.at(value), decade);
        else
          minor(axis.at(value));
      }
  };
  decades(
      plot.x,
      [&](double x, int decade) {
        svg.line(x, kFrame.top, x, kFrame.bottom, "grid");
        svg.text(x, kFrame.bottom + 18, decade_text(decade), "tick", Anchor::kMiddle);
      },
      [&](double x) { svg.line(x, kFrame.bottom - 4, x, kFrame.bottom, "grid"); });
  decades(
      plot.y,
      [&](double y, int decade) {
        svg.line(kFrame.left, y, kFrame.right, y, "grid");
        svg.text(kFrame.left - 8, y + 4, decade_text(decade), "tick", Anchor::kEnd);
      },
      [&](double y) { svg.line(kFrame.left, y, kFrame.left + 4, y, "grid"); });
  svg.text((kFrame.left + kFrame.right) / 2, kFrame.bottom + 42,
           "arithmetic intensity, FLOP per byte", "axis", Anchor::kMiddle);
  svg.text(20, (kFrame.top + kFrame.bottom) / 2, "attained, GFLOP/s", "axis", Anchor::kMiddle, -90);
}

struct Slope {
  double gb_per_s;
  std::string_view name, css_class;
  bool label_above;  // the line; else below
};

// A memory ceiling: the line y = bandwidth * x up to the highest compute ceiling, its name along
// it.
void draw_slope(Svg& svg, const Plot& plot, const Slope& slope, double peak,
                std::vector<Box>& taken) {
  const double gb_per_s = slope.gb_per_s;
  if (gb_per_s <= 0) return;
  const double ridge = peak > 0 ? peak / gb_per_s : plot.x.last;
  const double from = std::max(plot.x.first, plot.y.first / gb_per_s);
  const double to = std::min(ridge, plot.x.last);
  if (from >= to) return;
  const double x1 = plot.x.at(from), y1 = plot.y.at(gb_per_s * from);
  const double x2 = plot.x.at(to), y2 = plot.y.at(gb_per_s * to);
  svg.line(x1, y1, x2, y2, slope.css_class);
  for (double x = x1; x < x2; x += 6) {
    const double y = y1 + (y2 - y1) * (x - x1) / (x2 - x1);
    taken.push_back({x - 3, y - 3, x + 3, y + 3});
  }

  const std::string text = fmt::format("{} {} GB/s", slope.name, significant(gb_per_s));
  const double angle = std::atan2(y2 - y1, x2 - x1);
  constexpr double kLabelAt = 0.04;  // of the line's length
  const double x = x1 + kLabelAt * (x2 - x1), y = y1 + kLabelAt * (y2 - y1);
  const double lift = slope.label_above ? -6 : 15;
  svg.text(x - lift * std::sin(angle), y + lift * std::cos(angle), text, "ceiling", Anchor::kStart,
           angle * 180 / std::numbers::pi);
  for (double along = 0; along < kTextChar * static_cast<double>(text.size()); along += 8) {
    const double cx = x + along * std::cos(angle) - lift * std::sin(angle);
    const double cy = y + along * std::sin(angle) + lift * std::cos(angle);
    taken.push_back({cx - 5, cy - 10, cx + 5, cy + 3});
  }
}

// Compute ceilings from their ridge to the right edge. Names of lines that nearly coincide share
// one label.
void draw_peaks(Svg& svg, const Plot& plot, const bench::Ceilings& ceilings,
                std::vector<Box>& taken) {
  double label_y = -1e9;
  std::vector<std::pair<double, std::string>> labels;  // line's y, text
  for (const auto& [dtype, gflops] : peaks_by_dtype(ceilings)) {
    const double y = plot.y.at(gflops);
    const double ridge =
        ceilings.read_gb_per_s > 0 ? gflops / ceilings.read_gb_per_s : plot.x.first;
    svg.line(plot.x.at(std::clamp(ridge, plot.x.first, plot.x.last)), y, kFrame.right, y, "roof");
    const std::string text = dtype + " " + si(gflops * 1e9, "FLOP/s");
    if (!labels.empty() && std::abs(y - label_y) < kLabelHeight + 2)
      labels.back().second += ", " + text;
    else
      labels.emplace_back(label_y = y, text);
  }
  for (const auto& [y, text] : labels) {
    svg.text(kFrame.right - 6, y - 5, text, "ceiling", Anchor::kEnd);
    taken.push_back({kFrame.right - 6 - kTextChar * static_cast<double>(text.size()), y - 16,
                     kFrame.right, y + 2});
  }
}

std::string tooltip(const StepReport& step, const Row& row) {
  return fmt::format(
      "{}: {} {}\n{} x {}, {} of the step\n{} FLOP/byte, {}, {} GB/s\n{} bound, {} of the roof",
      row.role, row.line.op, row.shape_text(), time_text(row.line.us.p50), row.count,
      percent(step.share(row)), significant(row.intensity()), si(row.line.tflops * 1e12, "FLOP/s"),
      significant(row.line.gb_per_s), row.line.bound, percent(row.line.roofline_fraction));
}

void draw_points(Svg& svg, const Plot& plot, const bench::Ceilings& ceilings,
                 const StepReport& step, std::vector<Box> taken) {
  std::vector<const Row*> rows;
  std::vector<LabelledPoint> points;
  for (const Row& row : step.rows) {
    if (!has_point(row)) continue;
    LabelledPoint point;
    point.x = plot.x.at(plot.intensity(row));
    point.y = plot.y.at(plot.height(row));
    point.radius = 4 + 16 * std::sqrt(step.share(row));
    point.text_width = kLabelChar * static_cast<double>(row.role.size());
    point.text_height = kLabelHeight;
    point.priority = step.share(row);
    rows.push_back(&row);
    points.push_back(point);
  }
  const Box frame = {kFrame.left + 2, kFrame.top + 2, kFrame.right - 2, kFrame.bottom - 2};
  const std::vector<PlacedLabel> labels = place_labels(points, frame, std::move(taken));

  // Large points below small ones, labels above all.
  std::vector<size_t> order(rows.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return points[a].radius > points[b].radius; });
  for (size_t i : order) {
    const double roof = plot.intensity(*rows[i]) * ceilings.read_gb_per_s;
    const auto dtype = dtype_from_name(rows[i]->line.dtype);
    const double peak = dtype ? ceilings.peak_gflops(*dtype) : 0;
    const double limit = peak > 0 ? std::min(roof, peak) : roof;
    const double limit_y = limit > 0 ? plot.y.at(limit) : points[i].y;
    if (limit_y < points[i].y - points[i].radius)
      svg.line(points[i].x, points[i].y - points[i].radius, points[i].x, limit_y, "gap");
    svg.circle(points[i].x, points[i].y, points[i].radius,
               fmt::format("point {}", family_class(rows[i]->family)), tooltip(step, *rows[i]));
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    if (labels[i].leader)
      svg.line(points[i].x, points[i].y, labels[i].leader_x, labels[i].leader_y, "leader");
    svg.text(labels[i].x, labels[i].baseline, rows[i]->role, "label");
  }
}

}  // namespace

std::string_view family_class(Family family) {
  switch (family) {
    case Family::kProduct:
      return "product";
    case Family::kAttention:
      return "attention";
    case Family::kRows:
      return "rows";
    case Family::kMovement:
      return "movement";
  }
  return "";
}

std::string roofline_svg(const bench::Ceilings& ceilings, const StepReport& step) {
  const Plot plot = axes(ceilings, step);
  Svg svg(kWidth, kHeight, "Roofline of " + step_title(step));
  draw_grid(svg, plot);
  const double peak = highest_peak(ceilings);
  std::vector<Box> taken;
  const double read = ceilings.read_gb_per_s, copy = ceilings.copy_gb_per_s;
  draw_slope(svg, plot, {copy, "copy", "roof copy", copy > read}, peak, taken);
  draw_slope(svg, plot, {read, "read", "roof", copy <= read}, peak, taken);
  draw_peaks(svg, plot, ceilings, taken);
  draw_points(svg, plot, ceilings, step, std::move(taken));
  return svg.str();
}

std::string time_bar_svg(const StepReport& step) {
  constexpr double kBarHeight = 34, kTop = 2, kBarWidth = kWidth - 4;
  Svg svg(kWidth, kBarHeight + 22, "Time of " + step_title(step) + " by operator");
  double x = 2;
  for (const Row& row : step.rows) {
    const double width = kBarWidth * step.share(row);
    if (width <= 0) continue;
    svg.rect(
        x, kTop, width, kBarHeight, fmt::format("slice {}", family_class(row.family)),
        fmt::format("{}: {}, {}", row.role, time_text(row.step_us()), percent(step.share(row))));
    const double text_width = kLabelChar * static_cast<double>(row.role.size());
    if (width > text_width + 8) {
      svg.text(x + width / 2, kTop + kBarHeight / 2 + 4, row.role, "slice-label", Anchor::kMiddle);
      svg.text(x + width / 2, kTop + kBarHeight + 16, percent(step.share(row)), "tick",
               Anchor::kMiddle);
    }
    x += width;
  }
  return svg.str();
}

}  // namespace rooftile::report
