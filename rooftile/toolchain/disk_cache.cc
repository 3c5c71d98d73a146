// SPDX-License-Identifier: Apache-2.0
#include "rooftile/toolchain/disk_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "rooftile/base/env.h"
#include "rooftile/base/hash.h"
#include "rooftile/toolchain/host_cc.h"

namespace rooftile {

namespace fs = std::filesystem;

namespace {

constexpr int kSchemaVersion = 1;  // raised when the meaning of an entry changes

Diag cache_error(const std::string& dir, std::string message, std::string found, std::string fix) {
  return {.code = ErrorCode::kCache,
          .subject = dir,
          .message = std::move(message),
          .found = std::move(found),
          .fix = std::move(fix)};
}

// ---- files -----------------------------------------------------------------------------------

std::optional<std::string> read_file(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  std::string bytes;
  char buffer[1 << 16];
  ssize_t n = 0;
  while ((n = read(fd, buffer, sizeof buffer)) > 0 || (n < 0 && errno == EINTR))
    if (n > 0) bytes.append(buffer, static_cast<size_t>(n));
  close(fd);
  if (n < 0) return std::nullopt;
  return bytes;
}

bool write_synced(const std::string& path, std::string_view bytes) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  const bool ok = bytes.empty() && fsync(fd) == 0;
  return close(fd) == 0 && ok;
}

bool sync_file(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool ok = fsync(fd) == 0;
  return close(fd) == 0 && ok;
}

// A private folder inside the cache, on the same file system, removed with the last holder. What
// cannot be removed (busy on a network file system) is left for sweep_old_work.
constexpr std::string_view kWorkPrefix = "work-";

class WorkDir {
 public:
  static std::shared_ptr<WorkDir> make(const std::string& cache_dir) {
    std::string path = cache_dir + "/" + std::string(kWorkPrefix) + "XXXXXX";
    if (mkdtemp(path.data()) == nullptr) return nullptr;
    return std::shared_ptr<WorkDir>(new WorkDir(path));
  }
  ~WorkDir() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  WorkDir(const WorkDir&) = delete;
  WorkDir& operator=(const WorkDir&) = delete;
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  explicit WorkDir(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// Folders of processes that were killed. A day is longer than any build.
void sweep_old_work(const std::string& dir) {
  std::error_code ignored;
  const auto limit = fs::file_time_type::clock::now() - std::chrono::hours(24);
  for (const fs::directory_entry& entry : fs::directory_iterator(dir, ignored))
    if (entry.path().filename().string().starts_with(kWorkPrefix) &&
        entry.last_write_time(ignored) < limit)
      fs::remove_all(entry.path(), ignored);
}

// ---- entries ---------------------------------------------------------------------------------

std::vector<std::string> sorted(std::vector<std::string> flags) {
  std::sort(flags.begin(), flags.end());
  return flags;
}

// The description: one field a line, all of it determined by the inputs and the object, so that
// checking it is comparing it.
constexpr std::string_view kHashField = "object-sha256 ";

std::string_view text_suffix(ObjectKind kind) { return kind == ObjectKind::kHost ? ".cc" : ".cu"; }

std::string object_name(const ObjectInputs& inputs, const std::string& key,
                        const std::string& object_hash) {
  return key + "-" + object_hash.substr(0, 16) +
         (inputs.kind == ObjectKind::kHost ? ".so" : ".cubin");
}

std::string text_name(const ObjectInputs& inputs, const std::string& key) {
  return key + std::string(text_suffix(inputs.kind));
}

std::string describe(const ObjectInputs& inputs, const std::string& key,
                     const std::string& object_hash, size_t object_bytes) {
  std::string out = "rooftile-object " + std::to_string(kSchemaVersion) + "\n";
  const auto field = [&out](std::string_view name, const std::string& value) {
    out += std::string(name) + value + "\n";
  };
  field(kHashField, object_hash);
  field("object-bytes ", std::to_string(object_bytes));
  field("object ", object_name(inputs, key, object_hash));
  field("text-sha256 ", sha256_hex(inputs.text));
  field("text-bytes ", std::to_string(inputs.text.size()));
  field("compiler ", inputs.compiler);
  field("target ", inputs.target);
  for (const std::string& flag : sorted(inputs.flags)) field("flag ", flag);
  return out;
}

std::string hash_in(const std::string& meta) {
  constexpr size_t kHexDigits = 64;
  const size_t at = meta.find(kHashField);
  if (at == std::string::npos) return "";
  std::string hash = meta.substr(at + kHashField.size(), kHexDigits);
  const bool is_hex = hash.find_first_not_of("0123456789abcdef") == std::string::npos;
  return is_hex && hash.size() == kHexDigits ? hash : "";
}

// The entry, if it is there and sound: the description says what is asked for, the text is the
// text, and the object has the hash that was recorded when it was built.
std::optional<CachedObject> find_sound(const std::string& dir, const ObjectInputs& inputs,
                                       const std::string& key) {
  const std::string stem = dir + "/" + key;
  const std::optional<std::string> meta = read_file(stem + ".meta");
  const std::string hash = meta ? hash_in(*meta) : "";
  if (hash.empty()) return std::nullopt;
  const std::string path = dir + "/" + object_name(inputs, key, hash);
  const std::optional<std::string> object = read_file(path);
  if (!object || sha256_hex(*object) != hash) return std::nullopt;
  if (*meta != describe(inputs, key, hash, object->size())) return std::nullopt;
  const std::string text_path = dir + "/" + text_name(inputs, key);
  if (read_file(text_path) != inputs.text) return std::nullopt;
  return CachedObject{.path = path,
                      .text_path = text_path,
                      .from_cache = true,
                      .compile_ms = 0,
                      .keep_alive = nullptr};
}

// Network file systems may show a renamed file a moment late.
bool rename_into(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) return false;
  for (int wait_ms = 1; access(to.c_str(), R_OK) != 0; wait_ms *= 4) {
    if (wait_ms > 100) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(wait_ms));
  }
  return true;
}

// Builds in a private folder, then publishes text, object and, last, description. If publishing
// fails (a full or odd file system), the object is still good: it is used from the private folder.
Result<CachedObject> build(const std::string& dir, const ObjectInputs& inputs,
                           const std::string& key, const ObjectBuilder& builder) {
  sweep_old_work(dir);
  std::shared_ptr<WorkDir> work = WorkDir::make(dir);
  if (work == nullptr)
    return cache_error(dir, "no file can be made in the kernel cache", std::strerror(errno),
                       "make room, or set ROOFTILE_CACHE_DIR to another folder");
  const std::string object = work->file("kernel.so");
  const auto start = std::chrono::steady_clock::now();
  RT_RETURN_IF_ERROR(builder(object));
  const std::chrono::duration<double, std::milli> elapsed =
      std::chrono::steady_clock::now() - start;
  const std::optional<std::string> bytes = read_file(object);
  if (!bytes) return cache_error(object, "the builder left no object", std::strerror(errno), "");

  CachedObject out{object, "", false, elapsed.count(), work};
  const std::string hash = sha256_hex(*bytes);
  const std::string published = dir + "/" + object_name(inputs, key, hash);
  const std::string meta = describe(inputs, key, hash, bytes->size());
  const std::string stem = dir + "/" + key;
  const std::string text_path = dir + "/" + text_name(inputs, key);
  if (!sync_file(object) || !write_synced(work->file("text"), inputs.text) ||
      !write_synced(work->file("meta"), meta) || !rename_into(work->file("text"), text_path))
    return out;
  out.text_path = text_path;
  if (!rename_into(object, published)) return out;
  out.path = published;
  out.keep_alive = nullptr;
  rename_into(work->file("meta"), stem + ".meta");  // if this fails, the next process builds again
  return out;
}

// Keys that a thread of this process is building.
class InFlight {
 public:
  // Waits until nobody else holds `key`.
  void acquire(const std::string& key) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return held_.insert(key).second; });
  }
  void release(const std::string& key) {
    {
      std::lock_guard lock(mutex_);
      held_.erase(key);
    }
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::string> held_;
};

InFlight& in_flight() {
  static InFlight keys;
  return keys;
}

Result<std::string> default_dir() {
  if (std::optional<std::string> dir = env_value(EnvVar::kCacheDir)) return *dir;
  if (std::optional<std::string> dir = env_value(EnvVar::kXdgCache)) return *dir + "/rooftile";
  if (std::optional<std::string> dir = env_value(EnvVar::kHome)) return *dir + "/.cache/rooftile";
  return cache_error("kernel cache", "there is no home folder to keep it in", "HOME is not set",
                     "set ROOFTILE_CACHE_DIR to a folder of your own");
}

// Whoever can replace a file in `dir` can run code as this user. `root_too`: root's folders will
// do.
Status check_private(const std::string& dir, bool root_too) {
  struct stat info;
  if (stat(dir.c_str(), &info) != 0)
    return cache_error(dir, "the kernel cache cannot be used", std::strerror(errno),
                       "set ROOFTILE_CACHE_DIR to a folder of your own");
  if (!S_ISDIR(info.st_mode))
    return cache_error(dir, "the kernel cache cannot be used", "a file that is no folder",
                       "set ROOFTILE_CACHE_DIR to a folder of your own");
  if (info.st_uid != geteuid() && !(root_too && info.st_uid == 0))
    return cache_error(
        dir, "the kernel cache belongs to another user",
        "owner " + std::to_string(info.st_uid) + ", you are " + std::to_string(geteuid()),
        "set ROOFTILE_CACHE_DIR to a folder of your own");
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return cache_error(dir, "the kernel cache can be written by other users",
                       (info.st_mode & S_IWOTH) != 0 ? "write permission for others"
                                                     : "write permission for the group",
                       "chmod go-w '" + dir + "', or set ROOFTILE_CACHE_DIR to another folder");
  return {};
}

}  // namespace

std::string ObjectInputs::key() const {
  Sha256 hash;
  hash.field("rooftile object " + std::to_string(kSchemaVersion));
  hash.field(text).field(compiler).field(target);
  for (const std::string& flag : sorted(flags)) hash.field(flag);
  return hash.hex();
}

Result<DiskCache> DiskCache::open(const std::string& dir) {
  std::string path = dir;
  if (path.empty()) {
    Result<std::string> standard = default_dir();
    if (!standard.ok()) return standard.diag();
    path = *standard;
  }
  std::error_code error;
  path = fs::absolute(path, error).string();
  if (!fs::exists(path, error)) {
    fs::create_directories(fs::path(path).parent_path(), error);
    // 0700 whatever the umask; EEXIST: another process was quicker.
    if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
      return cache_error(path, "the kernel cache cannot be created", std::strerror(errno),
                         "set ROOFTILE_CACHE_DIR to a folder of your own");
  }
  RT_RETURN_IF_ERROR(check_private(path, /*root_too=*/false));
  return DiskCache(path);
}

Result<DiskCache> DiskCache::open_read_only(const std::string& dir) {
  std::error_code error;
  const std::string path = fs::absolute(dir, error).string();
  RT_RETURN_IF_ERROR(check_private(path, /*root_too=*/true));
  return DiskCache(path);
}

std::optional<CachedObject> DiskCache::find(const ObjectInputs& inputs) const {
  return find_sound(dir_, inputs, inputs.key());
}

Result<CachedObject> DiskCache::get_or_build(const ObjectInputs& inputs,
                                             const ObjectBuilder& builder) const {
  const std::string key = inputs.key();
  if (std::optional<CachedObject> hit = find_sound(dir_, inputs, key)) return *hit;
  const std::string held = dir_ + "/" + key;
  in_flight().acquire(held);
  struct Release {
    const std::string& key;
    ~Release() { in_flight().release(key); }
  } release{held};
  // A thread that held the key before may have built it.
  if (std::optional<CachedObject> hit = find_sound(dir_, inputs, key)) return *hit;
  return build(dir_, inputs, key, builder);
}

namespace {

// Carried entries are found without knowing a compiler: this stands for whichever made them.
constexpr const char* kAnyCompiler = "any compiler";

Result<CachedObject> build_in(const DiskCache& cache, const ObjectInputs& inputs) {
  return cache.get_or_build(inputs, [&](const std::string& out_path) -> Status {
    return compile_shared(inputs.text, inputs.flags, out_path).status();
  });
}

}  // namespace

Result<CachedObject> carry_object(const std::string& dir, std::string text,
                                  std::vector<std::string> flags, std::string target_key) {
  Result<DiskCache> folder = DiskCache::open(dir);
  if (!folder.ok()) return folder.diag();
  return build_in(*folder,
                  {std::move(text), sorted(std::move(flags)), kAnyCompiler, std::move(target_key)});
}

Result<CachedObject> compile_cached(std::string text, std::vector<std::string> flags,
                                    std::string target_key) {
  if (const auto dir = env_value(EnvVar::kCubinDir)) {
    Result<DiskCache> carried = DiskCache::open_read_only(*dir);
    if (!carried.ok()) return carried.diag();
    if (auto hit = carried->find({text, sorted(flags), kAnyCompiler, target_key})) return *hit;
  }
  Result<Compiler> compiler = find_compiler();
  if (!compiler.ok()) return compiler.diag();
  Result<DiskCache> cache = DiskCache::open();
  if (!cache.ok()) return cache.diag();
  // Sorted for the compiler too, so that one key is one command line.
  const ObjectInputs inputs = {std::move(text), sorted(std::move(flags)), compiler->identity,
                               std::move(target_key)};
  return cache->get_or_build(inputs, [&](const std::string& out_path) -> Status {
    return compile_shared(*compiler, inputs.text, inputs.flags, out_path).status();
  });
}

}  // namespace rooftile
