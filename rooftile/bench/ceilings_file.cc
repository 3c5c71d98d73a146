// SPDX-License-Identifier: Apache-2.0
#include "rooftile/bench/ceilings_file.h"

#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>

#include "rooftile/base/hash.h"
#include "rooftile/toolchain/disk_cache.h"

namespace rooftile::bench {

Result<CeilingsFile> CeilingsFile::open(const std::string& key) {
  auto cache = DiskCache::open();
  if (!cache) return cache.status();
  return CeilingsFile(cache->dir() + "/ceilings-" + sha256_hex(key).substr(0, 16) + ".json");
}

Result<Ceilings> CeilingsFile::read() const {
  std::ifstream file(path_);
  std::stringstream text;
  text << file.rdbuf();
  return Ceilings::from_json(text.str());
}

// Written aside and renamed: a reader sees the whole file or none.
Status CeilingsFile::write(const Ceilings& ceilings) const {
  const std::string aside = path_ + "." + std::to_string(getpid());
  std::ofstream file(aside);
  file << ceilings.json_line() << "\n";
  file.close();
  if (!file || std::rename(aside.c_str(), path_.c_str()) != 0) {
    std::remove(aside.c_str());
    Diag diag;
    diag.code = ErrorCode::kCache;
    diag.subject = path_;
    diag.message = "the measured ceilings cannot be kept";
    diag.fix = "point ROOFTILE_CACHE_DIR at a folder that can be written";
    return diag;
  }
  return {};
}

}  // namespace rooftile::bench
