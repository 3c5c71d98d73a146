// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/worker.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstring>
#include <utility>

namespace rooftile::verify {
namespace {

// A length of eight bytes, then the text.
bool write_message(int socket, const std::string& text) {
  std::string frame(sizeof(uint64_t), '\0');
  const auto size = static_cast<uint64_t>(text.size());
  std::memcpy(frame.data(), &size, sizeof size);
  frame += text;
  for (size_t done = 0; done < frame.size();) {
    const ssize_t n = ::send(socket, frame.data() + done, frame.size() - done, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<size_t>(n);
  }
  return true;
}

bool take_message(std::string& pending, std::string& message) {
  uint64_t size = 0;
  if (pending.size() < sizeof size) return false;
  std::memcpy(&size, pending.data(), sizeof size);
  if (pending.size() < sizeof size + size) return false;
  message = pending.substr(sizeof size, size);
  pending.erase(0, sizeof size + size);
  return true;
}

// A prover that wants all the memory there is dies alone. Not under the address sanitizer, whose
// shadow is larger than any limit.
void limit_memory() {
  rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
#ifndef __SANITIZE_ADDRESS__
  constexpr rlim_t kMost = rlim_t{8} << 30;
  rlimit data{kMost, kMost};
  ::setrlimit(RLIMIT_DATA, &data);
#endif
}

[[noreturn]] void serve_until_closed(int socket, const Worker::Serve& serve) {
  std::string pending, request;
  while (true) {
    while (take_message(pending, request))
      serve(request, [socket](const std::string& text) {
        if (!write_message(socket, text)) ::_exit(0);
      });
    char bytes[4096];
    const ssize_t n = ::recv(socket, bytes, sizeof bytes, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) ::_exit(0);
    pending.append(bytes, static_cast<size_t>(n));
  }
}

}  // namespace

std::optional<Worker> Worker::start(const Serve& serve, const std::vector<int>& others) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return std::nullopt;
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) {
    ::close(ends[0]);
    ::close(ends[1]);
    return std::nullopt;
  }
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(0);
    ::close(ends[0]);
    for (const int other : others) ::close(other);
    limit_memory();
    serve_until_closed(ends[1], serve);
  }
  ::close(ends[1]);
  return Worker(child, ends[0]);
}

Worker::Worker(Worker&& other) noexcept
    : child_(std::exchange(other.child_, -1)),
      socket_(std::exchange(other.socket_, -1)),
      pending_(std::move(other.pending_)),
      heard_(other.heard_) {}

Worker& Worker::operator=(Worker&& other) noexcept {
  std::swap(child_, other.child_);
  std::swap(socket_, other.socket_);
  std::swap(pending_, other.pending_);
  std::swap(heard_, other.heard_);
  return *this;
}

Worker::~Worker() { stop(); }

bool Worker::request(const std::string& text) {
  heard_ = std::chrono::steady_clock::now();
  return write_message(socket_, text);
}

bool Worker::receive(std::vector<std::string>& messages) {
  char bytes[65536];
  ssize_t n = -1;
  do {
    n = ::recv(socket_, bytes, sizeof bytes, 0);
  } while (n < 0 && errno == EINTR);
  if (n <= 0) return false;
  heard_ = std::chrono::steady_clock::now();
  pending_.append(bytes, static_cast<size_t>(n));
  for (std::string message; take_message(pending_, message);) messages.push_back(message);
  return true;
}

double Worker::silent_seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - heard_).count();
}

std::string Worker::stop() {
  if (child_ < 0) return "";
  ::close(socket_);
  ::kill(child_, SIGKILL);
  int status = 0;
  while (::waitpid(child_, &status, 0) < 0 && errno == EINTR) {
  }
  child_ = -1;
  if (WIFEXITED(status)) return "exited with status " + std::to_string(WEXITSTATUS(status));
  const int signal = WTERMSIG(status);
  return signal == SIGKILL ? "was stopped" : std::string("died of ") + ::strsignal(signal);
}

}  // namespace rooftile::verify
