// SPDX-License-Identifier: Apache-2.0
// What tests run in processes of its own: a small program, started with its orders as arguments.
//
//   rooftile_test_child target                         prints what host_target() finds in a fresh
//   process rooftile_test_child cache ORDER DIR GO OBJECT      uses the cache in DIR once the file
//   GO exists
//
// ORDER: compile (real compiler), copy (OBJECT, after a pause), hang (as copy, for a minute), load
// or rebuild (in a loop for 1.5 s). Exit status 0: every object that was asked for came, loaded and
// answered.
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "rooftile/compile/target.h"
#include "rooftile/runtime/cpu/library.h"
#include "rooftile/toolchain/disk_cache.h"
#include "tests/toolchain/cache_subject.h"

namespace rooftile::testing_support {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

int print_target() {
  const TargetInfo& t = host_target();
  std::printf("isa=%s amx=%d bf16=%d threads=%d\n", t.isa.c_str(), t.amx_bf16 || t.amx_int8,
              t.avx512_bf16, t.threads);
  return 0;
}

bool build_once(const DiskCache& cache, const ObjectBuilder& builder) {
  Result<CachedObject> out = cache.get_or_build(subject_inputs(), builder);
  const Status status = out.ok() ? load_and_ask(out->path) : out.status();
  if (!status.ok()) std::printf("%s\n", status.str().c_str());
  return status.ok();
}

bool loop(const DiskCache& cache, const ObjectBuilder& builder, bool force_rebuild) {
  const std::string meta = cache.dir() + "/" + subject_inputs().key() + ".meta";
  for (const auto end = Clock::now() + milliseconds(1500); Clock::now() < end;) {
    std::error_code ignored;
    if (force_rebuild) std::filesystem::remove(meta, ignored);
    if (!build_once(cache, builder)) return false;
  }
  return true;
}

bool use_cache(const std::string& order, const std::string& dir, const std::string& go,
               const std::string& object) {
  while (!std::filesystem::exists(go)) std::this_thread::sleep_for(milliseconds(1));
  Result<DiskCache> cache = DiskCache::open(dir);
  if (!cache.ok()) {
    std::printf("%s\n", cache.diag().str().c_str());
    return false;
  }
  if (order == "compile") return build_once(*cache, compile_subject);
  if (order == "copy") return build_once(*cache, copy_of(object, milliseconds(20)));
  if (order == "hang") return build_once(*cache, copy_of(object, milliseconds(60000)));
  if (order == "load") return loop(*cache, copy_of(object), /*force_rebuild=*/false);
  if (order == "rebuild") return loop(*cache, copy_of(object), /*force_rebuild=*/true);
  std::printf("unknown order %s\n", order.c_str());
  return false;
}

}  // namespace
}  // namespace rooftile::testing_support

int main(int argc, char** argv) {
  using namespace rooftile::testing_support;
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "target") return print_target();
  if (what == "cache" && argc == 6) return use_cache(argv[2], argv[3], argv[4], argv[5]) ? 0 : 1;
  return 2;
}
