// SPDX-License-Identifier: Apache-2.0
// Finds a free place for each point's label: near the point, inside the frame, over nothing else.
#pragma once

#include <string>
#include <vector>

namespace rooftile::report {

struct Box {
  double left = 0, top = 0, right = 0, bottom = 0;
  bool overlaps(const Box& other) const {
    return left < other.right && other.left < right && top < other.bottom && other.top < bottom;
  }
};

struct LabelledPoint {
  double x = 0, y = 0, radius = 0;
  double text_width = 0, text_height = 0;
  double priority = 0;  // higher is placed first
};

struct PlacedLabel {
  double x = 0, baseline = 0;  // left end of the text
  bool leader = false;         // far enough away to need a line back to its point
  double leader_x = 0, leader_y = 0;
};

// One label a point, in the points' order. `taken` are boxes that no label may cover. Where
// everything near is taken, the label overlaps: it is never dropped.
std::vector<PlacedLabel> place_labels(const std::vector<LabelledPoint>& points, Box frame,
                                      std::vector<Box> taken);

}  // namespace rooftile::report
