// SPDX-License-Identifier: Apache-2.0
#include "rooftile/report/svg.h"

#include <fmt/format.h>

namespace rooftile::report {
namespace {

std::string_view anchor_name(Anchor anchor) {
  switch (anchor) {
    case Anchor::kStart:
      return "start";
    case Anchor::kMiddle:
      return "middle";
    case Anchor::kEnd:
      return "end";
  }
  return "";
}

std::string tooltip_element(std::string_view tooltip) {
  return tooltip.empty() ? "" : "<title>" + escape_xml(tooltip) + "</title>";
}

}  // namespace

std::string escape_xml(std::string_view text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

Svg::Svg(double width, double height, std::string_view title) {
  body_ = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" "
      "aria-label=\"{}\">\n",
      width, height, escape_xml(title));
}

void Svg::line(double x1, double y1, double x2, double y2, std::string_view css_class) {
  body_ +=
      fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" class=\"{}\"/>\n",
                  x1, y1, x2, y2, css_class);
}

void Svg::rect(double x, double y, double width, double height, std::string_view css_class,
               std::string_view tooltip) {
  body_ += fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" class=\"{}\">{}</rect>\n",
      x, y, width, height, css_class, tooltip_element(tooltip));
}

void Svg::circle(double x, double y, double radius, std::string_view css_class,
                 std::string_view tooltip) {
  body_ +=
      fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\" class=\"{}\">{}</circle>\n", x,
                  y, radius, css_class, tooltip_element(tooltip));
}

void Svg::text(double x, double y, std::string_view text, std::string_view css_class, Anchor anchor,
               double rotate_degrees) {
  const std::string turn =
      rotate_degrees == 0
          ? ""
          : fmt::format(" transform=\"rotate({:.1f} {:.1f} {:.1f})\"", rotate_degrees, x, y);
  body_ +=
      fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" class=\"{}\"{}>{}</text>\n",
                  x, y, anchor_name(anchor), css_class, turn, escape_xml(text));
}

void Svg::polyline(const std::vector<std::pair<double, double>>& points,
                   std::string_view css_class) {
  body_ += "<polyline points=\"";
  for (const auto& [x, y] : points) body_ += fmt::format("{:.1f},{:.1f} ", x, y);
  body_ += fmt::format("\" class=\"{}\"/>\n", css_class);
}

std::string Svg::str() const { return body_ + "</svg>\n"; }

}  // namespace rooftile::report
