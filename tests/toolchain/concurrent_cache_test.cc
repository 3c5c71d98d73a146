// SPDX-License-Identifier: Apache-2.0
// The kernel cache under several processes at once (test_child.cc is what each of them runs).
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "rooftile/toolchain/disk_cache.h"
#include "tests/toolchain/cache_subject.h"
#include "tests/toolchain/temp_dir.h"

extern char** environ;

namespace rooftile {
namespace {

using namespace testing_support;  // NOLINT: test vocabulary
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

bool eventually(const std::function<bool()>& condition, milliseconds limit) {
  for (const auto end = Clock::now() + limit; Clock::now() < end;) {
    if (condition()) return true;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return condition();
}

class ConcurrentCache : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(compile_subject(dir_.file("ready.so")).ok()); }

  std::string cache_dir() const { return dir_.file("cache"); }

  // Children wait for go(), so that all begin together.
  pid_t start(const char* order) {
    const std::string program = ROOFTILE_BINARY_DIR "/rooftile_test_child";
    const std::string dir = cache_dir(), go = dir_.file("go"), object = dir_.file("ready.so");
    const char* argv[] = {program.c_str(), "cache",        order,  dir.c_str(),
                          go.c_str(),      object.c_str(), nullptr};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    const std::string log = dir_.file("log." + std::to_string(num_started_++));
    posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT, 0600);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    pid_t pid = -1;
    EXPECT_EQ(
        posix_spawn(&pid, program.c_str(), &actions, nullptr, const_cast<char**>(argv), environ),
        0);
    posix_spawn_file_actions_destroy(&actions);
    return pid;
  }
  void go() { write_text(dir_.file("go"), ""); }

  void expect_all_succeed(const std::vector<pid_t>& children) {
    for (size_t i = 0; i < children.size(); ++i) {
      int status = 0;
      ASSERT_EQ(waitpid(children[i], &status, 0), children[i]);
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
          << "child " << i << ":\n"
          << read_text(dir_.file("log." + std::to_string(i)));
    }
  }

  TempDir dir_;
  int num_started_ = 0;
};

TEST_F(ConcurrentCache, TwoProcessesOnAnEmptyCacheBothSucceed) {
  const std::vector<pid_t> children = {start("compile"), start("compile")};
  go();
  expect_all_succeed(children);
  // What they left is one sound entry.
  auto out = DiskCache::open(cache_dir())
                 ->get_or_build(subject_inputs(), [](const std::string&) -> Status {
                   return Diag{.message = "must not be built again"};
                 });
  ASSERT_TRUE(out.ok()) << out.diag().str();
  EXPECT_TRUE(out->from_cache);
}

// kf-jit-05: many processes, one key, a pause between building and publishing.
TEST_F(ConcurrentCache, KfJit05SixteenProcessesPublishTheSameKey) {
  std::vector<pid_t> children;
  for (int i = 0; i < 16; ++i) children.push_back(start("copy"));
  go();
  expect_all_succeed(children);
}

// kf-jit-06: some load in a loop while others build the same entry again and again.
TEST_F(ConcurrentCache, KfJit06LoadingWhileOthersRebuild) {
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i) children.push_back(start(i % 2 == 0 ? "load" : "rebuild"));
  go();
  expect_all_succeed(children);
}

// kf-jit-07: a process is killed in the middle of a build. Nothing it leaves makes the next one
// wait.
TEST_F(ConcurrentCache, KfJit07KilledBuilderLeavesNoLockBehind) {
  const pid_t child = start("hang");
  go();
  const bool building = eventually(
      [this] {
        std::error_code ignored;
        for (const auto& entry : std::filesystem::directory_iterator(cache_dir(), ignored))
          if (entry.is_directory()) return true;
        return false;
      },
      milliseconds(20000));
  kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(building);
  ASSERT_TRUE(WIFSIGNALED(status));

  const auto begin = Clock::now();
  auto out =
      DiskCache::open(cache_dir())->get_or_build(subject_inputs(), copy_of(dir_.file("ready.so")));
  ASSERT_TRUE(out.ok()) << out.diag().str();
  EXPECT_TRUE(load_and_ask(out->path).ok()) << out->path;
  EXPECT_LT(Clock::now() - begin, milliseconds(5000));
}

}  // namespace
}  // namespace rooftile
