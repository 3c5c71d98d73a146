// SPDX-License-Identifier: Apache-2.0
#include "rooftile/cli/output.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace rooftile::cli {
namespace {

Diag io_error(const std::string& path, const char* message) {
  Diag diag;
  diag.code = ErrorCode::kIo;
  diag.subject = path;
  diag.message = message;
  diag.found = std::strerror(errno);
  diag.fix = "give --json a file that can be written, or - for standard output";
  return diag;
}

// Columns, not bytes: a UTF-8 continuation byte takes no room.
size_t width(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

bool is_number(const std::string& cell) {
  return !cell.empty() && cell.find_first_not_of("0123456789.,+-%") == std::string::npos;
}

}  // namespace

Result<Output> Output::open(const std::string& json_path) {
  Output out;
  out.path_ = json_path;
  if (json_path == "-") {
    out.json_ = stdout;
    out.text_ = stderr;
  } else if (!json_path.empty()) {
    out.json_ = std::fopen(json_path.c_str(), "w");
    if (out.json_ == nullptr) return io_error(json_path, "cannot be written");
  }
  return out;
}

Output::Output(Output&& other) noexcept
    : path_(std::move(other.path_)),
      json_(std::exchange(other.json_, nullptr)),
      text_(other.text_),
      failed_(other.failed_) {}

Output::~Output() {
  if (json_ != nullptr && json_ != stdout) std::fclose(json_);
}

void Output::json_line(std::string_view object) {
  if (json_ == nullptr) return;
  failed_ |= std::fwrite(object.data(), 1, object.size(), json_) != object.size();
  failed_ |= std::fputc('\n', json_) == EOF;
  failed_ |= std::fflush(json_) != 0;
}

void Output::text(std::string_view line) {
  std::fwrite(line.data(), 1, line.size(), text_);
  std::fputc('\n', text_);
}

Status Output::close() {
  if (json_ != nullptr && json_ != stdout)
    failed_ |= std::fclose(std::exchange(json_, nullptr)) != 0;
  if (failed_) return io_error(path_, "was not written completely");
  return {};
}

Table::Table(std::vector<std::string> header) { rows_.push_back(std::move(header)); }

void Table::row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

std::string Table::str() const {
  std::vector<size_t> widths;
  for (const auto& cells : rows_)
    for (size_t c = 0; c < cells.size(); ++c) {
      if (c == widths.size()) widths.push_back(0);
      widths[c] = std::max(widths[c], width(cells[c]));
    }
  std::string out;
  for (const auto& cells : rows_) {
    std::string line;
    for (size_t c = 0; c < cells.size(); ++c) {
      const std::string padding(widths[c] - width(cells[c]), ' ');
      if (c > 0) line += "  ";
      line += is_number(cells[c]) ? padding + cells[c] : cells[c] + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  if (!out.empty()) out.pop_back();
  return out;
}

}  // namespace rooftile::cli
