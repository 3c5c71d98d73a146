// SPDX-License-Identifier: Apache-2.0
// The renderers on a sample report: a page that is well formed, whole and self-contained, that a
// real browser lays out with every operator's label in sight; JSON lines and table cells with what
// they must hold.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "rooftile/report/format.h"
#include "rooftile/report/html.h"
#include "rooftile/report/json_lines.h"
#include "rooftile/report/label_placement.h"
#include "rooftile/report/roofline_plot.h"
#include "rooftile/report/svg.h"
#include "rooftile/report/table.h"
#include "tests/report/sample_report.h"

namespace rooftile::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The first tag that does not nest, or "".
std::string nesting_error(const std::string& html) {
  const std::set<std::string> empty = {"!DOCTYPE", "meta", "br"};
  std::vector<std::string> open;
  for (size_t at = html.find('<'); at != std::string::npos; at = html.find('<', at + 1)) {
    const size_t end = html.find('>', at);
    if (end == std::string::npos) return "unfinished tag";
    const std::string tag = html.substr(at + 1, end - at - 1);
    const std::string name =
        tag.substr(tag[0] == '/', tag.find_first_of(" /", 1) - (tag[0] == '/'));
    if (tag[0] == '/') {
      if (open.empty() || open.back() != name) return "</" + name + ">";
      open.pop_back();
    } else if (tag.back() != '/' && empty.count(name) == 0) {
      open.push_back(name);
    }
  }
  return open.empty() ? "" : "<" + open.back() + "> is never closed";
}

TEST(Html, IsWellFormedAndSelfContained) {
  for (const char* model : {"qwen3-8b", "qwen2.5-0.5b", "mistral-7b-v0.1"}) {
    const std::string html = render_html(sample_report(model));
    EXPECT_EQ(nesting_error(html), "") << model;
    // Nothing is fetched: the only address is the name of the SVG namespace.
    for (size_t at = html.find("http"); at != std::string::npos; at = html.find("http", at + 1))
      EXPECT_EQ(html.substr(at, 26), "http://www.w3.org/2000/svg");
    for (const char* fetching : {"<script", "<link", "<img", "@import", "url("})
      EXPECT_THAT(html, Not(HasSubstr(fetching)));
  }
}

TEST(Html, NestingCheckFindsMistakes) {
  EXPECT_EQ(nesting_error("<p><b>x</b></p>"), "");
  EXPECT_EQ(nesting_error("<p><b>x</p></b>"), "</p>");
  EXPECT_EQ(nesting_error("<p>"), "<p> is never closed");
}

TEST(Html, TextIsEscaped) {
  Report report = sample_report("qwen2.5-0.5b");
  report.model.name = "<img src=x>&\"";
  report.ceilings.device = "a <b> c";
  report.steps[0].rows[0].failure = "error[RT-X]: a < b && \"c\"";
  const std::string html = render_html(report);
  EXPECT_EQ(nesting_error(html), "");
  EXPECT_THAT(html, Not(HasSubstr("<img")));
  EXPECT_THAT(html, HasSubstr("&lt;img src=x&gt;&amp;&quot;"));
  EXPECT_THAT(html, HasSubstr("a &lt; b &amp;&amp;"));
}

TEST(Html, FailedAndUncheckedRowsShow) {
  Report report = sample_report("qwen2.5-0.5b");
  report.steps[0].rows[2].failure = "no kernel";
  report.steps[0].rows[3].line.pass = false;
  report.steps[0].rows[4].line.checked = false;
  const std::string html = render_html(report);
  EXPECT_THAT(html, HasSubstr("no kernel"));
  EXPECT_THAT(html, HasSubstr("FAILED"));
  EXPECT_THAT(html, HasSubstr("not checked"));
  EXPECT_FALSE(report.steps[0].complete());
}

TEST(RooflinePlot, HasCeilingsAndEveryOperator) {
  const Report report = sample_report("qwen3-8b");
  for (const StepReport& step : report.steps) {
    const std::string svg = roofline_svg(report.ceilings, step);
    for (const char* ceiling :
         {"i8 6.70 TFLOP/s", "bf16 3.40 TFLOP/s", "read 21.0 GB/s", "copy 17.0 GB/s"})
      EXPECT_THAT(svg, HasSubstr(ceiling));
    for (const Row& row : step.rows) EXPECT_THAT(svg, HasSubstr(">" + row.role + "</text>"));
  }
}

TEST(RooflinePlot, BestMechanismOfADtypeOnly) {
  const auto peaks = peaks_by_dtype(sample_report("qwen3-8b").ceilings);
  ASSERT_EQ(peaks.size(), 4u);
  EXPECT_EQ(peaks[0].first, "i8");
  EXPECT_EQ(peaks[1], (std::pair<std::string, double>("bf16", 3400)));
}

TEST(LabelPlacement, CrowdedLabelsDoNotOverlap) {
  std::vector<LabelledPoint> points;
  for (int i = 0; i < 12; ++i)
    points.push_back({400.0 + i % 3, 300.0 + i, 6, 90, 13, static_cast<double>(i)});
  const Box frame = {0, 0, 800, 600};
  const auto labels = place_labels(points, frame, {});
  std::vector<Box> boxes;
  for (const PlacedLabel& label : labels)
    boxes.push_back(
        {label.x, label.baseline - 0.75 * 13, label.x + 90, label.baseline + 0.25 * 13});
  for (size_t i = 0; i < boxes.size(); ++i) {
    EXPECT_GE(boxes[i].left, frame.left);
    EXPECT_LE(boxes[i].right, frame.right);
    for (size_t j = 0; j < i; ++j) EXPECT_FALSE(boxes[i].overlaps(boxes[j])) << i << " " << j;
  }
}

TEST(LabelPlacement, LonelyPointHasItsLabelBesideIt) {
  const auto labels = place_labels({{100, 100, 5, 60, 13, 0}}, {0, 0, 800, 600}, {});
  EXPECT_NEAR(labels[0].x, 109, 1);
  EXPECT_FALSE(labels[0].leader);
}

TEST(LabelPlacement, AvoidsWhatIsTaken) {
  const Box right = {105, 80, 300, 120};
  const auto labels = place_labels({{100, 100, 5, 60, 13, 0}}, {0, 0, 800, 600}, {right});
  const Box box = {labels[0].x, labels[0].baseline - 10, labels[0].x + 60, labels[0].baseline + 3};
  EXPECT_FALSE(box.overlaps(right));
}

TEST(JsonLines, EveryLineIsAnObjectWithItsKind) {
  const Report report = sample_report("qwen2.5-0.5b");
  std::map<std::string, int> kinds;
  for (const std::string& line : json_lines(report)) {
    EXPECT_THAT(line, Not(HasSubstr("\n")));
    const auto object = nlohmann::json::parse(line);
    ++kinds[object.at("kind")];
    if (object.at("kind") == "operator") {
      for (const char* field : {"model", "phase", "role", "count", "share", "intensity",
                                "step_gain_at_roof", "op", "shape", "us_p50", "roofline_fraction"})
        EXPECT_TRUE(object.contains(field)) << field << " in " << line;
    }
    if (object.at("kind") == "step") {
      EXPECT_GT(object.at("tokens_per_s"), 0);
    }
  }
  EXPECT_EQ(kinds["machine"], 1);
  EXPECT_EQ(kinds["step"], 2);
  EXPECT_EQ(kinds["fusion"], 6);
  EXPECT_EQ(kinds["operator"],
            static_cast<int>(report.steps[0].rows.size() + report.steps[1].rows.size()));
}

TEST(ReportTable, HasARowForEveryOperator) {
  const Report report = sample_report("qwen2.5-0.5b");
  const Cells cells = operator_cells(report.steps[0]);
  ASSERT_EQ(cells.size(), report.steps[0].rows.size() + 1);
  for (size_t i = 1; i < cells.size(); ++i) {
    EXPECT_EQ(cells[i].size(), cells[0].size());
    EXPECT_EQ(cells[i][0], report.steps[0].rows[i - 1].role);
  }
  EXPECT_EQ(fusion_cells(report.steps[0]).size(), 4u);
  EXPECT_THAT(step_text(report.steps[0]), HasSubstr("tokens/s"));
}

TEST(StepReport, AmdahlAndShares) {
  StepReport step;
  step.tokens = 10;
  for (double us : {60.0, 40.0}) {
    Row row;
    row.count = 2;
    row.line.us.p50 = us;
    row.line.roof_us = 30;
    step.rows.push_back(row);
  }
  EXPECT_DOUBLE_EQ(step.total_us(), 200);
  EXPECT_DOUBLE_EQ(step.share(step.rows[0]), 0.6);
  EXPECT_DOUBLE_EQ(step.tokens_per_s(), 10 / 200e-6);
  EXPECT_DOUBLE_EQ(step.gain_at_roof(step.rows[0]), 200.0 / 140);
  EXPECT_DOUBLE_EQ(step.total_at_roof_us(), 120);
  step.rows[1].line.roof_us = 50;  // faster than memory allows: the data was in a cache
  EXPECT_DOUBLE_EQ(step.gain_at_roof(step.rows[1]), 1);
}

TEST(Format, NumbersForPeople) {
  EXPECT_EQ(significant(0.01234), "0.0123");
  EXPECT_EQ(significant(12345), "12345");
  EXPECT_EQ(si(8.03e9, ""), "8.03 G");
  EXPECT_EQ(si(999.7, "B"), "1.00 kB");
  EXPECT_EQ(time_text(0.6), "0.600 us");
  EXPECT_EQ(time_text(1234), "1.23 ms");
  EXPECT_EQ(time_text(-2.5e6), "-2.50 s");
  EXPECT_EQ(range_text({900, 1000, 1100}), "0.900 - 1.10 ms");
  EXPECT_EQ(percent(0.999), "100 %");
  EXPECT_EQ(percent(0.0123), "1.2 %");
}

// ---- in a real browser
// ---------------------------------------------------------------------------------------

std::string browser() {
  for (const char* name : {"chromium", "chromium-browser", "google-chrome"}) {
    const std::string command = "command -v " + std::string(name) + " >/dev/null 2>&1";
    if (std::system(command.c_str()) == 0) return name;
  }
  return "";
}

std::string output_of(const std::string& command) {
  std::string out;
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return out;
  char buffer[65536];
  for (size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) out.append(buffer, n);
  pclose(pipe);
  return out;
}

// Appended to a copy of the page: measures what the browser laid out and writes it where --dump-dom
// shows it.
constexpr const char* kProbe = R"js(<script>
const seen = [];
for (const svg of document.querySelectorAll('svg')) {
  const frame = svg.getBoundingClientRect();
  for (const text of svg.querySelectorAll('text.label')) {
    const box = text.getBoundingClientRect();
    const inside = box.width > 0 && box.left >= frame.left && box.right <= frame.right &&
        box.top >= frame.top && box.bottom <= frame.bottom;
    seen.push(text.textContent + (inside ? ':in' : ':out'));
  }
}
const wide = document.documentElement.scrollWidth > window.innerWidth;
document.body.insertAdjacentHTML('beforeend', '<pre>[labels ' + seen.join(' ') + '][wide ' + wide + ']</pre>');
</script></body>)js";

TEST(Browser, LaysOutEveryOperatorsLabel) {
  const std::string chromium = browser();
  if (chromium.empty()) GTEST_SKIP() << "no chromium in PATH (Debian: apt-get install chromium)";
  const Report report = sample_report("qwen3-8b");
  const std::string html = render_html(report);
  const std::filesystem::path folder = std::filesystem::path(ROOFTILE_BINARY_DIR) / "report_test";
  std::filesystem::create_directories(folder);
  const std::string page = (folder / "report.html").string();
  const std::string probed = (folder / "report_probed.html").string();
  const std::string picture = (folder / "report.png").string();
  std::ofstream(page) << html;
  std::string copy = html;
  copy.replace(copy.rfind("</body>"), 7, kProbe);
  std::ofstream(probed) << copy;
  std::filesystem::remove(picture);

  const std::string headless = "timeout 100 " + chromium +
                               " --headless --no-sandbox --disable-gpu --hide-scrollbars"
                               " --window-size=1340,4600 --user-data-dir='" +
                               (folder / "profile").string() + "' ";
  const std::string dom = output_of(headless + "--dump-dom 'file://" + probed + "' 2>/dev/null");
  const size_t found = dom.rfind("[labels ");
  ASSERT_NE(found, std::string::npos) << "the page's probe did not run; " << dom.size() << " bytes";
  const std::string layout = dom.substr(found, dom.find("</pre>", found) - found);
  for (const StepReport& step : report.steps)
    for (const Row& row : step.rows) {
      EXPECT_THAT(layout, HasSubstr(" " + row.role + ":in")) << "not laid out inside the picture";
      EXPECT_NE(dom.find("class=\"label\">" + row.role + "</text>"), std::string::npos) << row.role;
    }
  EXPECT_THAT(layout, Not(HasSubstr(":out")));
  EXPECT_THAT(layout, HasSubstr("[wide false]"));  // no sideways scrolling of the page

  output_of(headless + "--screenshot='" + picture + "' 'file://" + page + "' 2>/dev/null");
  ASSERT_TRUE(std::filesystem::exists(picture));
  // A blank page of this size compresses to a few kilobytes.
  EXPECT_GT(std::filesystem::file_size(picture), 100'000u) << picture;
}

}  // namespace
}  // namespace rooftile::report
