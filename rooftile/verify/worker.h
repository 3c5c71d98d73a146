// SPDX-License-Identifier: Apache-2.0
// A child process that answers requests until it is stopped or dies; the parent's end of it.
// Messages are texts, whole or not at all.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace rooftile::verify {

class Worker {
 public:
  using Send = std::function<void(const std::string&)>;
  using Serve = std::function<void(const std::string& request, const Send& send)>;

  // Forks. `others`: sockets of this process that the child must not keep. nullopt: no process can
  // be made.
  static std::optional<Worker> start(const Serve& serve, const std::vector<int>& others);
  Worker(Worker&& other) noexcept;
  Worker& operator=(Worker&& other) noexcept;
  ~Worker();  // kills it

  bool request(const std::string& text);
  int socket() const { return socket_; }
  // The messages that have come, after poll() says that there are some. False: the child is gone.
  bool receive(std::vector<std::string>& messages);
  double silent_seconds() const;  // since it was last heard of, or asked
  // Kills it and waits; how it ended, in words.
  std::string stop();

 private:
  Worker(pid_t child, int socket) : child_(child), socket_(socket) {}
  pid_t child_ = -1;
  int socket_ = -1;
  std::string pending_;
  std::chrono::steady_clock::time_point heard_ = std::chrono::steady_clock::now();
};

}  // namespace rooftile::verify
