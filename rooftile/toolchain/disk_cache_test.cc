// SPDX-License-Identifier: Apache-2.0
// The cache in one process: keys, damage, unsafe folders, threads. Several processes:
// tests/toolchain.
#include "rooftile/toolchain/disk_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "rooftile/runtime/cpu/library.h"
#include "rooftile/toolchain/host_cc.h"
#include "tests/toolchain/temp_dir.h"

namespace rooftile {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing_support::read_text;
using testing_support::TempDir;
using testing_support::write_text;

ObjectInputs inputs_of(const std::string& text) {
  return {text, {"-O3", "-shared"}, "/usr/bin/g++ | g++ 12.2", "cpu-avx512"};
}

// A builder that needs no compiler: the object says what it was built from. Counts its runs.
struct FakeCompiler {
  std::atomic<int> runs = 0;
  ObjectBuilder builder(const ObjectInputs& inputs) {
    return [this, &inputs](const std::string& out_path) -> Status {
      ++runs;
      write_text(out_path, "object of " + inputs.text);
      return {};
    };
  }
};

DiskCache open_cache(const TempDir& dir) {
  auto cache = DiskCache::open(dir.file("cache"));
  EXPECT_TRUE(cache.ok()) << cache.diag().str();
  return *cache;
}

TEST(DiskCache, SecondRequestIsAHitWithTheSameObject) {
  TempDir dir;
  const DiskCache cache = open_cache(dir);
  const ObjectInputs inputs = inputs_of("int x;");
  FakeCompiler compiler;
  auto first = cache.get_or_build(inputs, compiler.builder(inputs));
  auto second = cache.get_or_build(inputs, compiler.builder(inputs));
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_FALSE(first->from_cache);
  EXPECT_TRUE(second->from_cache);
  EXPECT_EQ(second->compile_ms, 0);
  EXPECT_EQ(first->path, second->path);
  EXPECT_EQ(compiler.runs, 1);
  EXPECT_EQ(read_text(second->path), "object of int x;");
  EXPECT_EQ(read_text(second->text_path), "int x;");
  // Nothing is left of the work.
  for (const auto& entry : std::filesystem::directory_iterator(cache.dir()))
    EXPECT_TRUE(entry.is_regular_file()) << entry.path();
}

TEST(DiskCache, FailedBuildIsReportedAndLeavesNothing) {
  TempDir dir;
  const DiskCache cache = open_cache(dir);
  auto out = cache.get_or_build(inputs_of("int x;"), [](const std::string&) -> Status {
    return Diag{.code = ErrorCode::kCompileFailed, .message = "no"};
  });
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.diag().code, ErrorCode::kCompileFailed);
  EXPECT_TRUE(std::filesystem::is_empty(cache.dir()));
}

// kf-jit-01 (options), kf-jit-02 and kf-jit-03 (constants and captured values, which are in the
// text), kf-jit-04 (target, compiler version, flags): each part makes an entry of its own, in
// whatever order they come.
TEST(DiskCache, KfJit01To04EveryInputMakesAnEntryOfItsOwn) {
  TempDir dir;
  const DiskCache cache = open_cache(dir);
  const ObjectInputs base = inputs_of("store(123)");
  std::vector<ObjectInputs> all(6, base);
  all[1].text = "store(1234)";
  all[2].flags.push_back("-ffast-math");
  all[3].compiler = "/usr/bin/g++ | g++ 12.3";
  all[4].target = "cpu-avx2";
  all[5].flags = {"-O3 -shared"};
  for (int round = 0; round < 2; ++round)
    for (size_t i = 0; i < all.size(); ++i) {
      const ObjectInputs& inputs = all[round == 0 ? i : all.size() - 1 - i];
      FakeCompiler compiler;
      auto out = cache.get_or_build(inputs, compiler.builder(inputs));
      ASSERT_TRUE(out.ok()) << out.diag().str();
      EXPECT_EQ(out->from_cache, round == 1);
      EXPECT_EQ(read_text(out->path), "object of " + inputs.text);
    }
  ObjectInputs reordered = base;
  std::swap(reordered.flags[0], reordered.flags[1]);
  EXPECT_EQ(reordered.key(), base.key());
}

// kf-jit-04: an entry says what it was built for, and that is compared, not only its name.
TEST(DiskCache, KfJit04EntryCopiedFromAnotherTargetIsRebuilt) {
  TempDir dir;
  const DiskCache cache = open_cache(dir);
  const ObjectInputs wide = inputs_of("int x;");
  ObjectInputs narrow = wide;
  narrow.target = "cpu-avx2";
  FakeCompiler compiler;
  auto built = cache.get_or_build(wide, compiler.builder(wide));
  ASSERT_TRUE(built.ok());
  // Forge the narrow entry from the wide one's files, names and all.
  const auto forged = [&](std::string text) {
    for (size_t at; (at = text.find(wide.key())) != std::string::npos;)
      text.replace(at, 64, narrow.key());
    return text;
  };
  std::filesystem::copy(built->path, forged(built->path));
  std::filesystem::copy(built->text_path, forged(built->text_path));
  const std::string meta = cache.dir() + "/" + wide.key() + ".meta";
  write_text(forged(meta), forged(read_text(meta)));
  auto out = cache.get_or_build(narrow, compiler.builder(narrow));
  ASSERT_TRUE(out.ok());
  EXPECT_FALSE(out->from_cache);
  EXPECT_EQ(compiler.runs, 2);
}

using Damage = std::function<void(const std::string& object, const std::string& text,
                                  const std::string& meta)>;

void expect_rebuilt_after(const std::string& what, const Damage& damage) {
  SCOPED_TRACE(what);
  TempDir dir;
  const DiskCache cache = open_cache(dir);
  const ObjectInputs inputs = inputs_of("int x = 1;");
  FakeCompiler compiler;
  auto built = cache.get_or_build(inputs, compiler.builder(inputs));
  ASSERT_TRUE(built.ok());
  damage(built->path, built->text_path, cache.dir() + "/" + inputs.key() + ".meta");
  auto again = cache.get_or_build(inputs, compiler.builder(inputs));
  ASSERT_TRUE(again.ok()) << again.diag().str();
  EXPECT_FALSE(again->from_cache);
  EXPECT_EQ(compiler.runs, 2);
  EXPECT_EQ(read_text(again->path), "object of int x = 1;");
  // Repaired: the next request is a hit.
  EXPECT_TRUE(cache.get_or_build(inputs, compiler.builder(inputs))->from_cache);
}

TEST(DiskCache, DamagedEntriesAreRebuiltNeverLoaded) {
  using std::filesystem::remove;
  using std::filesystem::resize_file;
  using S = const std::string&;
  expect_rebuilt_after("object truncated", [](S object, S, S) { resize_file(object, 5); });
  expect_rebuilt_after("object emptied", [](S object, S, S) { resize_file(object, 0); });
  expect_rebuilt_after("object edited, same size", [](S object, S, S) {
    std::string bytes = read_text(object);
    bytes[3] ^= 1;
    write_text(object, bytes);
  });
  expect_rebuilt_after("object gone", [](S object, S, S) { remove(object); });
  expect_rebuilt_after("text edited", [](S, S text, S) { write_text(text, "int x = 2;"); });
  expect_rebuilt_after("text gone", [](S, S text, S) { remove(text); });
  expect_rebuilt_after("description gone", [](S, S, S meta) { remove(meta); });
  expect_rebuilt_after("description truncated", [](S, S, S meta) { resize_file(meta, 20); });
  expect_rebuilt_after("description is noise", [](S, S, S meta) { write_text(meta, "[1]"); });
  expect_rebuilt_after("hash cut short", [](S, S, S meta) {
    write_text(meta, "rooftile-object 1\nobject-sha256 abcdef\n");
  });
  expect_rebuilt_after("description names another file", [](S object, S, S meta) {
    std::string text = read_text(meta);
    const std::string name = std::filesystem::path(object).filename();
    text.replace(text.find(name), name.size(), "../" + name);
    write_text(meta, text);
  });
  expect_rebuilt_after("schema of another version", [](S, S, S meta) {
    std::string text = read_text(meta);
    text.replace(text.find("rooftile-object 1"), 17, "rooftile-object 0");
    write_text(meta, text);
  });
}

// The same with the real compiler and loader: a truncated shared object would kill the process if
// it were mapped.
TEST(DiskCache, TruncatedSharedObjectIsRebuiltAndRuns) {
  TempDir dir;
  const DiskCache cache = open_cache(dir);
  auto compiler = find_compiler();
  ASSERT_TRUE(compiler.ok());
  const ObjectInputs inputs = {"extern \"C\" int f() { return 1234; }", cpu_flags(TargetInfo{}),
                               compiler->identity, "cpu-generic"};
  const ObjectBuilder builder = [&](const std::string& out_path) {
    return compile_shared(*compiler, inputs.text, inputs.flags, out_path).status();
  };
  auto built = cache.get_or_build(inputs, builder);
  ASSERT_TRUE(built.ok()) << built.diag().str();
  std::filesystem::resize_file(built->path, std::filesystem::file_size(built->path) / 2);
  auto again = cache.get_or_build(inputs, builder);
  ASSERT_TRUE(again.ok());
  EXPECT_FALSE(again->from_cache);
  auto library = Library::open(again->path);
  ASSERT_TRUE(library.ok()) << library.diag().str();
  EXPECT_EQ(reinterpret_cast<int (*)()>(*(*library)->symbol("f"))(), 1234);
}

// kf-jit-08: publishing fails because something odd sits at the target; the object is used all the
// same.
TEST(DiskCache, KfJit08ObjectThatCannotBePublishedIsStillUsable) {
  TempDir dir;
  const DiskCache cache = open_cache(dir);
  const ObjectInputs inputs = inputs_of("int x;");
  FakeCompiler compiler;
  std::filesystem::create_directories(cache.dir() + "/" + inputs.key() + ".cc/full");
  std::string path;
  {
    auto out = cache.get_or_build(inputs, compiler.builder(inputs));
    ASSERT_TRUE(out.ok()) << out.diag().str();
    path = out->path;
    EXPECT_EQ(read_text(path), "object of int x;");
  }
  EXPECT_FALSE(std::filesystem::exists(path)) << "the private copy goes with its last holder";
}

TEST(DiskCache, FoldersThatOthersCanWriteAreRefused) {
  TempDir dir;
  const std::string path = dir.file("cache");
  mkdir(path.c_str(), 0700);
  for (mode_t mode : {0777, 0770, 0702}) {
    chmod(path.c_str(), mode);
    auto cache = DiskCache::open(path);
    ASSERT_FALSE(cache.ok()) << std::oct << mode;
    EXPECT_EQ(cache.diag().code, ErrorCode::kCache);
    EXPECT_THAT(cache.diag().fix, HasSubstr("chmod go-w"));
  }
  chmod(path.c_str(), 0755);
  EXPECT_TRUE(DiskCache::open(path).ok());
}

TEST(DiskCache, FolderOfAnotherUserIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can make a folder that belongs to someone else";
  TempDir dir;
  const std::string path = dir.file("cache");
  mkdir(path.c_str(), 0700);
  ASSERT_EQ(chown(path.c_str(), 12345, 12345), 0);
  auto cache = DiskCache::open(path);
  ASSERT_FALSE(cache.ok());
  EXPECT_EQ(cache.diag().code, ErrorCode::kCache);
  EXPECT_THAT(cache.diag().message, HasSubstr("another user"));
}

TEST(DiskCache, FileInPlaceOfTheFolderIsRefused) {
  TempDir dir;
  write_text(dir.file("cache"), "a file");
  auto cache = DiskCache::open(dir.file("cache"));
  ASSERT_FALSE(cache.ok());
  EXPECT_EQ(cache.diag().code, ErrorCode::kCache);
}

TEST(DiskCache, DefaultFolderFollowsTheEnvironment) {
  TempDir dir;
  setenv("ROOFTILE_CACHE_DIR", dir.file("mine").c_str(), 1);
  auto cache = DiskCache::open();
  unsetenv("ROOFTILE_CACHE_DIR");
  ASSERT_TRUE(cache.ok()) << cache.diag().str();
  EXPECT_THAT(cache->dir(), EndsWith("/mine"));
}

// kf-jit-09: threads on a cold cache, the same key and then different keys.
TEST(DiskCache, KfJit09EightThreadsBuildEachKeyOnce) {
  TempDir dir;
  const DiskCache cache = open_cache(dir);
  for (int round = 0; round < 50; ++round) {
    const bool same_key = round % 2 == 0;
    std::vector<ObjectInputs> inputs;
    for (int i = 0; i < 8; ++i)
      inputs.push_back(inputs_of(std::to_string(round) + "." + std::to_string(same_key ? 0 : i)));
    FakeCompiler compiler;
    std::atomic<int> right = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i)
      threads.emplace_back([&, i] {
        const ObjectInputs& mine = inputs[static_cast<size_t>(i)];
        auto out = cache.get_or_build(mine, compiler.builder(mine));
        if (out.ok() && read_text(out->path) == "object of " + mine.text) ++right;
      });
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(right, 8) << "round " << round;
    ASSERT_EQ(compiler.runs, same_key ? 1 : 8) << "round " << round;
  }
}

}  // namespace
}  // namespace rooftile
