// SPDX-License-Identifier: Apache-2.0
#include "rooftile/base/log.h"

#include <cstdio>

#include "rooftile/base/env.h"

namespace rooftile {

namespace {

// One write a line, so that lines of several threads do not mix.
void print_line(std::string line) {
  line += '\n';
  std::fwrite(line.data(), 1, line.size(), stderr);
}

std::string seconds(double s) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", s);
  return text;
}

constexpr std::chrono::seconds kFirst{1};  // nothing is shown for work quicker than this
constexpr std::chrono::seconds kBetween{2};

}  // namespace

void log_warning(std::string_view message) {
  print_line("rooftile: warning: " + std::string(message));
}

Progress::Progress(std::string what, int total)
    : what_(std::move(what)), total_(total), start_(Clock::now()), last_print_(start_) {}

Progress::~Progress() {
  if (printed_) print_line(what_ + ": done in " + seconds(elapsed_s()));
}

double Progress::elapsed_s() const {
  return std::chrono::duration<double>(Clock::now() - start_).count();
}

void Progress::step(std::string_view detail) {
  ++step_;
  detail_ = detail;
  tick();
}

void Progress::tick() {
  const Clock::time_point now = Clock::now();
  if (now - start_ < kFirst || (printed_ && now - last_print_ < kBetween)) return;
  if (env_flag(EnvVar::kQuiet)) return;
  std::string line = what_;
  if (total_ > 0) line += " " + std::to_string(step_) + "/" + std::to_string(total_);
  if (!detail_.empty()) line += ": " + detail_;
  print_line(line + " (" + seconds(elapsed_s()) + ")");
  printed_ = true;
  last_print_ = now;
}

}  // namespace rooftile
