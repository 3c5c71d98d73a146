// SPDX-License-Identifier: Apache-2.0
// Compiled kernels on disk, found by their content.
//
// The key is the SHA-256 of everything the object depends on. An entry is three files:
//   <key>.cc            the exact text (.cu for a GPU's)
//   <key>-<hash>.so     the object, its name carrying the start of its own SHA-256 (.cubin)
//   <key>.meta          written last: sizes, hashes, compiler, target, flags; the entry exists when
//   this does
// Every file is written aside, synced and renamed into place, and never changed afterwards. There
// are no locks, so none can go stale: processes that build the same key at once all succeed, and
// whichever .meta lands last names an object that is there. A read checks every hash; damage of any
// kind is a miss, and the entry is built again.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rooftile/base/diag.h"

namespace rooftile {

enum class ObjectKind : uint8_t { kHost, kCubin };  // .cc and .so; .cu and .cubin

// All that an object depends on.
struct ObjectInputs {
  std::string text;
  std::vector<std::string> flags;  // their order does not count
  std::string compiler;            // Compiler::identity
  std::string target;              // TargetInfo::key(), or "sm_90a"
  ObjectKind kind = ObjectKind::kHost;
  std::string key() const;  // SHA-256, 64 hex digits
};

struct CachedObject {
  std::string path;       // the shared object
  std::string text_path;  // the text it was built from; "" if it could not be kept
  bool from_cache = false;
  double compile_ms = 0;  // 0 on a hit
  // Set if the object could not be published: it then lives in a private folder that goes with
  // this.
  std::shared_ptr<void> keep_alive;
};

// Writes the object at `out_path`.
using ObjectBuilder = std::function<Status(const std::string& out_path)>;

class DiskCache {
 public:
  // Opens or creates a folder; "" means ROOFTILE_CACHE_DIR or ~/.cache/rooftile. RT-T003 if it
  // cannot be used, belongs to someone else or can be written by others: objects in it will be run
  // with this user's rights.
  static Result<DiskCache> open(const std::string& dir = "");

  // A folder that this process only reads: it must exist and may belong to root. RT-T003.
  static Result<DiskCache> open_read_only(const std::string& dir);

  // The entry, if it is there and sound.
  std::optional<CachedObject> find(const ObjectInputs& inputs) const;

  // Safe from any number of threads and processes; threads of one process build a key once.
  Result<CachedObject> get_or_build(const ObjectInputs& inputs, const ObjectBuilder& builder) const;

  const std::string& dir() const { return dir_; }

 private:
  explicit DiskCache(std::string dir) : dir_(std::move(dir)) {}
  std::string dir_;
};

// The usual way: the system compiler and the default cache. A folder that ROOFTILE_CUBIN_DIR names
// is looked into first: what is there needs no compiler (cubin_cache.h says more).
Result<CachedObject> compile_cached(std::string text, std::vector<std::string> flags,
                                    std::string target_key);

// Makes an entry of a folder that is to be carried. The flags must suit the machine that will use
// it.
Result<CachedObject> carry_object(const std::string& dir, std::string text,
                                  std::vector<std::string> flags, std::string target_key);

}  // namespace rooftile
