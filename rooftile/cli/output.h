// SPDX-License-Identifier: Apache-2.0
// Where a verb writes: tables for people, and JSON lines for programs if --json was given. With
// --json - standard output carries JSON only and the tables go to standard error.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "rooftile/base/diag.h"

namespace rooftile::cli {

class Output {
 public:
  // `json_path`: "" none, "-" standard output, or a file that is created or replaced.
  static Result<Output> open(const std::string& json_path);
  Output(Output&& other) noexcept;
  Output& operator=(Output&&) = delete;
  ~Output();

  bool has_json() const { return json_ != nullptr; }
  void json_line(std::string_view object);  // flushed: a reader sees each line at once
  void text(std::string_view line);         // adds the line end
  Status close();                           // reports a full disk

 private:
  Output() = default;
  std::string path_;
  std::FILE* json_ = nullptr;
  std::FILE* text_ = stdout;
  bool failed_ = false;
};

// Rows of cells as aligned columns: left, or right for numbers.
class Table {
 public:
  explicit Table(std::vector<std::string> header);
  void row(std::vector<std::string> cells);
  std::string str() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace rooftile::cli
