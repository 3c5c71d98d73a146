// SPDX-License-Identifier: Apache-2.0
#include "rooftile/report/label_placement.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

namespace rooftile::report {
namespace {

constexpr double kPadding = 2;      // pixels kept free around a label
constexpr double kLeaderFrom = 12;  // gap to the point from which a leader line is drawn, pixels

// The label's box when its nearest corner or edge lies `gap` pixels from the point's rim at
// `angle`.
Box box_at(const LabelledPoint& point, double gap, double angle) {
  const double reach = point.radius + gap;
  const double x = point.x + reach * std::cos(angle), y = point.y + reach * std::sin(angle);
  // The box hangs on the side that faces away from the point.
  const double shift_x = (1 - std::cos(angle)) / 2, shift_y = (1 - std::sin(angle)) / 2;
  const double left = x - shift_x * point.text_width, top = y - shift_y * point.text_height;
  return {left, top, left + point.text_width, top + point.text_height};
}

Box grown(const Box& box) {
  return {box.left - kPadding, box.top - kPadding, box.right + kPadding, box.bottom + kPadding};
}

bool inside(const Box& box, const Box& frame) {
  return box.left >= frame.left && box.right <= frame.right && box.top >= frame.top &&
         box.bottom <= frame.bottom;
}

PlacedLabel placed_in(const Box& box, const LabelledPoint& point) {
  PlacedLabel label;
  label.x = box.left;
  label.baseline = box.bottom - 0.25 * point.text_height;  // room for descenders
  label.leader_x = std::clamp(point.x, box.left, box.right);
  label.leader_y = std::clamp(point.y, box.top, box.bottom);
  label.leader =
      std::hypot(label.leader_x - point.x, label.leader_y - point.y) > point.radius + kLeaderFrom;
  return label;
}

}  // namespace

std::vector<PlacedLabel> place_labels(const std::vector<LabelledPoint>& points, Box frame,
                                      std::vector<Box> taken) {
  for (const LabelledPoint& point : points)
    taken.push_back({point.x - point.radius, point.y - point.radius, point.x + point.radius,
                     point.y + point.radius});
  std::vector<size_t> order(points.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return points[a].priority > points[b].priority; });

  constexpr int kAngles = 16;
  std::vector<PlacedLabel> labels(points.size());
  for (size_t at : order) {
    const LabelledPoint& point = points[at];
    Box chosen = box_at(point, 4, 0);
    bool found = false;
    for (double gap = 4; gap < 160 && !found; gap += 8) {
      for (int step = 0; step < kAngles && !found; ++step) {
        // Right, left, then turning away from them: horizontal neighbours read best.
        const double turn = (step / 2) % 2 == 0 ? step / 4 : -(step / 4 + 1);
        const double angle = (step % 2) * std::numbers::pi + turn * 2 * std::numbers::pi / kAngles;
        const Box box = box_at(point, gap, angle);
        const Box room = grown(box);
        found = inside(box, frame) && std::none_of(taken.begin(), taken.end(),
                                                   [&](const Box& b) { return b.overlaps(room); });
        if (found) chosen = box;
      }
    }
    taken.push_back(chosen);
    labels[at] = placed_in(chosen, point);
  }
  return labels;
}

}  // namespace rooftile::report
