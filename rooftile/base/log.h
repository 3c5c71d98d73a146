// SPDX-License-Identifier: Apache-2.0
// What a person waiting should see, on standard error: warnings at once, and progress of anything
// that takes more than a second. Quick work prints nothing. Standard output is never touched.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace rooftile {

void log_warning(std::string_view message);  // "rooftile: warning: ..."

// The progress of one piece of work. Not for use from several threads at once.
class Progress {
 public:
  // `total` 0: unknown; then only the time is shown.
  explicit Progress(std::string what, int total = 0);
  ~Progress();  // "<what>: done in 3.2 s", if anything was printed before
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void step(std::string_view detail = "");  // one more of `total` begins
  void tick();                              // still at it; cheap, call as often as convenient

 private:
  using Clock = std::chrono::steady_clock;
  double elapsed_s() const;

  std::string what_;
  std::string detail_;
  int total_ = 0;
  int step_ = 0;
  bool printed_ = false;
  Clock::time_point start_;
  Clock::time_point last_print_;
};

}  // namespace rooftile
