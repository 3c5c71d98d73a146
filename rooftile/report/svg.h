// SPDX-License-Identifier: Apache-2.0
// Svg: writes the few elements that the pictures need. Colours and fonts come from the page's style
// sheet through class names, so that one picture serves light, dark and print.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rooftile::report {

std::string escape_xml(std::string_view text);

enum class Anchor : uint8_t { kStart, kMiddle, kEnd };

class Svg {
 public:
  Svg(double width, double height, std::string_view title);
  void line(double x1, double y1, double x2, double y2, std::string_view css_class);
  void rect(double x, double y, double width, double height, std::string_view css_class,
            std::string_view tooltip = "");
  void circle(double x, double y, double radius, std::string_view css_class,
              std::string_view tooltip = "");
  void text(double x, double y, std::string_view text, std::string_view css_class,
            Anchor anchor = Anchor::kStart, double rotate_degrees = 0);
  void polyline(const std::vector<std::pair<double, double>>& points, std::string_view css_class);
  std::string str() const;  // complete element

 private:
  std::string body_;
};

}  // namespace rooftile::report
