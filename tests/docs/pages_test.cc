// SPDX-License-Identifier: Apache-2.0
// Pages show code that is compiled and run: every block after `<!-- from FILE ... -->` must stand
// in that file, and every link to a file of the tree must lead somewhere. `docs/embed.py` refreshes
// the blocks. What pages quote from, the results of measurements, must be readable.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<fs::path> pages() {
  const fs::path root = ROOFTILE_SOURCE_DIR;
  std::vector<fs::path> found = {root / "README.md"};
  for (const auto& entry : fs::recursive_directory_iterator(root / "docs"))
    if (entry.path().extension() == ".md") found.push_back(entry.path());
  return found;
}

TEST(Pages, CodeStandsInTheFilesItIsFrom) {
  const std::string mark = "<!-- from ", fence = "```cpp\n";
  int blocks = 0;
  for (const fs::path& page : pages()) {
    const std::string text = read(page);
    for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + 1)) {
      const size_t name = at + mark.size(), code = text.find(fence, at) + fence.size();
      const std::string file = text.substr(name, text.find(' ', name) - name);
      const std::string block = text.substr(code, text.find("```\n", code) - code);
      ASSERT_FALSE(block.empty()) << page;
      EXPECT_NE(read(page.parent_path() / file).find(block), std::string::npos)
          << page << " shows code that " << file << " does not have; run docs/embed.py\n"
          << block;
      ++blocks;
    }
  }
  EXPECT_GE(blocks, 10);
}

// The page without its code, in which `](` is C++.
std::string prose(const std::string& text) {
  std::stringstream in(text);
  std::string out;
  bool block = false, span = false;
  for (std::string line; std::getline(in, line); out += '\n') {
    if (line.starts_with("```")) {
      block = !block;
      continue;
    }
    if (block) continue;
    for (char c : line) {
      if (c == '`') span = !span;
      if (!span && c != '`') out += c;
    }
  }
  return out;
}

TEST(Pages, LinksLeadSomewhere) {
  int links = 0;
  for (const fs::path& page : pages()) {
    const std::string text = prose(read(page));
    for (size_t at = text.find("]("); at != std::string::npos; at = text.find("](", at + 1)) {
      std::string link = text.substr(at + 2, text.find(')', at) - at - 2);
      link = link.substr(0, link.find('#'));
      if (link.empty() || link.find("://") != std::string::npos) continue;
      EXPECT_TRUE(fs::exists(page.parent_path() / link)) << page << ": " << link;
      ++links;
    }
  }
  EXPECT_GE(links, 10);
}

// Lines that were cut on their way here say less than they seem to, or nothing.
TEST(Pages, ResultsAreLinesOfJson) {
  int lines = 0;
  for (const auto& entry :
       fs::recursive_directory_iterator(fs::path(ROOFTILE_SOURCE_DIR) / "bench" / "results")) {
    if (entry.path().extension() != ".jsonl") continue;
    std::ifstream in(entry.path());
    int number = 0;
    for (std::string line; ++number, std::getline(in, line); ++lines)
      EXPECT_TRUE(nlohmann::json::accept(line)) << entry.path() << " line " << number;
  }
  EXPECT_GE(lines, 100);
}

}  // namespace
