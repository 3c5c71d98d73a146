// SPDX-License-Identifier: Apache-2.0
#include "rooftile/toolchain/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "rooftile/base/log.h"

extern char** environ;

namespace rooftile {

namespace {

// A file descriptor that closes itself.
class Fd {
 public:
  explicit Fd(int fd = -1) : fd_(fd) {}
  ~Fd() { reset(); }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  int get() const { return fd_; }
  void reset(int fd = -1) {
    if (fd_ >= 0) close(fd_);
    fd_ = fd;
  }

 private:
  int fd_;
};

Diag cannot_start(const std::string& program, int error) {
  return {.code = ErrorCode::kNoCompiler,
          .subject = program,
          .message = "the program cannot be started",
          .found = std::strerror(error)};
}

// The input as an unnamed file: unlike a pipe it needs no writer while the child runs.
int open_input(std::string_view input) {
  int fd = memfd_create("rooftile-input", MFD_CLOEXEC);
  while (fd >= 0 && !input.empty()) {
    ssize_t n = write(fd, input.data(), input.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      close(fd);
      return -1;
    }
    input.remove_prefix(static_cast<size_t>(n));
  }
  if (fd >= 0) lseek(fd, 0, SEEK_SET);
  return fd;
}

// Everything from the pipe until the child closes it, ticking four times a second.
std::string drain(int fd, Progress* progress) {
  constexpr int kTickMs = 250;
  std::string text;
  char buffer[4096];
  for (;;) {
    pollfd ready = {.fd = fd, .events = POLLIN, .revents = 0};
    int n = poll(&ready, 1, progress != nullptr ? kTickMs : -1);
    if (progress != nullptr) progress->tick();
    if (n == 0 || (n < 0 && errno == EINTR)) continue;
    ssize_t got = read(fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(buffer, static_cast<size_t>(got));
  }
}

}  // namespace

Result<ChildOutput> run_child(const std::vector<std::string>& argv, std::string_view input,
                              Progress* progress) {
  int ends[2];
  Fd stdin_file(open_input(input));
  if (stdin_file.get() < 0 || pipe2(ends, O_CLOEXEC) != 0) return cannot_start(argv[0], errno);
  Fd read_end(ends[0]), write_end(ends[1]);

  std::vector<char*> args;
  for (const std::string& arg : argv) args.push_back(const_cast<char*>(arg.c_str()));
  args.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, stdin_file.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDERR_FILENO);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, argv[0].c_str(), &actions, nullptr, args.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return cannot_start(argv[0], error);

  write_end.reset();
  ChildOutput out;
  out.text = drain(read_end.get(), progress);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0)
    if (errno != EINTR) return cannot_start(argv[0], errno);
  out.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return out;
}

}  // namespace rooftile
