// SPDX-License-Identifier: Apache-2.0
// Proofs on disk, beside the kernels: <cache>/proofs/<key>.proof, where the key is a hash of what
// was asked (programs, texts, schedule) and of whom (the provers' sources). A file is written aside
// and renamed into place. Its first line is a hash of the second, the header; the header has a hash
// of the rest, one obligation a line. Damage of any kind is a miss.
#pragma once

#include <optional>
#include <string>

#include "rooftile/base/diag.h"
#include "rooftile/compile/kernel.h"
#include "rooftile/verify/proof.h"

namespace rooftile::verify {

std::string proof_key(const KernelSource& source);

class ProofCache {
 public:
  // "" means the folder of compiled kernels. RT-T003 if it cannot be used.
  static Result<ProofCache> open(const std::string& dir = "");
  std::optional<KernelProof> find(const std::string& key) const;
  // What a caller who demands proofs needs to know, without reading them all.
  std::optional<Tally> find_tally(const std::string& key) const;
  void keep(const std::string& key, const KernelProof& proof) const;  // as well as possible

 private:
  explicit ProofCache(std::string dir) : dir_(std::move(dir)) {}
  std::string path(const std::string& key) const { return dir_ + "/" + key + ".proof"; }
  std::string dir_;
};

}  // namespace rooftile::verify
