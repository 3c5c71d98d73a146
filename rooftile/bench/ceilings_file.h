// SPDX-License-Identifier: Apache-2.0
// Where measured ceilings are kept: a file of the cache folder, found by what they depend on.
#pragma once

#include <string>

#include "rooftile/base/diag.h"
#include "rooftile/bench/roofline.h"

namespace rooftile::bench {

class CeilingsFile {
 public:
  static Result<CeilingsFile> open(const std::string& key);
  Result<Ceilings> read() const;  // RT-T003 if there is none, or it is damaged
  Status write(const Ceilings& ceilings) const;

 private:
  explicit CeilingsFile(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace rooftile::bench
