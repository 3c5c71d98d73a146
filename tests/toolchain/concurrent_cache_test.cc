// SPDX-License-Identifier: Apache-2.0
// The kernel cache under several processes at once. Each child is this test program again, running
// the disabled test ConcurrentCacheChild.DISABLED_Run with its orders in environment variables.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "rooftile/runtime/cpu/library.h"
#include "rooftile/toolchain/disk_cache.h"
#include "rooftile/toolchain/host_cc.h"
#include "tests/toolchain/temp_dir.h"

extern char** environ;

namespace rooftile {
namespace {

using testing_support::TempDir;
using testing_support::write_text;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kAnswer = 4242;
constexpr const char* kText = "extern \"C\" int answer() { return 4242; }";

std::string env(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

bool eventually(const std::function<bool()>& condition, milliseconds limit) {
  for (const auto end = Clock::now() + limit; Clock::now() < end;) {
    if (condition()) return true;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return condition();
}

ObjectInputs real_inputs() {
  return {kText, cpu_flags(TargetInfo{}), find_compiler()->identity, "cpu-generic"};
}

Status compile(const std::string& out_path) {
  return compile_shared(kText, cpu_flags(TargetInfo{}), out_path).status();
}

bool loads_and_answers(const std::string& path) {
  auto library = Library::open(path);
  if (!library.ok()) return false;
  auto symbol = (*library)->symbol("answer");
  return symbol.ok() && reinterpret_cast<int (*)()>(*symbol)() == kAnswer;
}

// ---- the child -------------------------------------------------------------------------------

void build_once(const DiskCache& cache, const ObjectBuilder& builder) {
  auto out = cache.get_or_build(real_inputs(), builder);
  ASSERT_TRUE(out.ok()) << out.diag().str();
  EXPECT_TRUE(loads_and_answers(out->path)) << out->path;
}

// A builder that copies an object made before: quick, so that publishing is what the test is about.
ObjectBuilder copier(milliseconds pause) {
  return [pause](const std::string& out_path) -> Status {
    std::this_thread::sleep_for(pause);
    std::filesystem::copy_file(env("RT_TEST_OBJECT"), out_path);
    return {};
  };
}

TEST(ConcurrentCacheChild, DISABLED_Run) {
  const std::string order = env("RT_TEST_ORDER");
  if (order.empty()) GTEST_SKIP() << "started by the other tests of this file only";
  ASSERT_TRUE(
      eventually([] { return std::filesystem::exists(env("RT_TEST_GO")); }, milliseconds(20000)));
  auto cache = DiskCache::open(env("RT_TEST_CACHE"));
  ASSERT_TRUE(cache.ok()) << cache.diag().str();
  if (order == "compile") {
    build_once(*cache, compile);
  } else if (order == "copy") {
    build_once(*cache, copier(milliseconds(20)));
  } else if (order == "hang") {
    build_once(*cache, copier(milliseconds(60000)));
  } else if (order == "load" || order == "rebuild") {
    const auto end = Clock::now() + milliseconds(1500);
    while (Clock::now() < end && !testing::Test::HasFailure()) {
      std::error_code ignored;
      if (order == "rebuild")
        std::filesystem::remove(cache->dir() + "/" + real_inputs().key() + ".json", ignored);
      build_once(*cache, copier(milliseconds(0)));
    }
  } else {
    FAIL() << "unknown order " << order;
  }
}

// ---- the parent ------------------------------------------------------------------------------

class ConcurrentCache : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(compile(dir_.file("ready.so")).ok());
    setenv("RT_TEST_CACHE", cache_dir().c_str(), 1);
    setenv("RT_TEST_GO", dir_.file("go").c_str(), 1);
    setenv("RT_TEST_OBJECT", dir_.file("ready.so").c_str(), 1);
  }
  void TearDown() override {
    for (const char* name : {"RT_TEST_CACHE", "RT_TEST_GO", "RT_TEST_OBJECT", "RT_TEST_ORDER"})
      unsetenv(name);
  }

  std::string cache_dir() const { return dir_.file("cache"); }

  // Children wait for go(), so that all begin together.
  pid_t start(const char* order) {
    setenv("RT_TEST_ORDER", order, 1);
    const char* argv[] = {"rooftile_tests", "--gtest_also_run_disabled_tests",
                          "--gtest_filter=ConcurrentCacheChild.DISABLED_Run", nullptr};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    const std::string log = dir_.file("log." + std::to_string(num_started_++));
    posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT, 0600);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    pid_t pid = -1;
    EXPECT_EQ(
        posix_spawn(&pid, "/proc/self/exe", &actions, nullptr, const_cast<char**>(argv), environ),
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
          << testing_support::read_text(dir_.file("log." + std::to_string(i)));
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
  auto out =
      DiskCache::open(cache_dir())->get_or_build(real_inputs(), [](const std::string&) -> Status {
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
  auto out = DiskCache::open(cache_dir())->get_or_build(real_inputs(), copier(milliseconds(0)));
  ASSERT_TRUE(out.ok()) << out.diag().str();
  EXPECT_TRUE(loads_and_answers(out->path));
  EXPECT_LT(Clock::now() - begin, milliseconds(5000));
}

}  // namespace
}  // namespace rooftile
