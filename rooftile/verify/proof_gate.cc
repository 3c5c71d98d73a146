// SPDX-License-Identifier: Apache-2.0
#include "rooftile/compile/proof_gate.h"

#include <map>
#include <mutex>

#include "rooftile/verify/finding_text.h"
#include "rooftile/verify/proof_cache.h"
#include "rooftile/verify/prove.h"

namespace rooftile {
namespace {

// Proved earlier, by this process or another: the counts alone are read.
bool known_to_be_proved(const std::string& key) {
  static std::mutex mutex;
  static std::map<std::string, bool> known;
  {
    const std::lock_guard lock(mutex);
    if (const auto it = known.find(key); it != known.end()) return it->second;
  }
  const Result<verify::ProofCache> cache = verify::ProofCache::open();
  if (!cache.ok()) return false;
  const std::optional<verify::Tally> tally = cache->find_tally(key);
  if (!tally || !tally->all_proved()) return false;
  const std::lock_guard lock(mutex);
  return known[key] = true;
}

}  // namespace

Status require_proved(const KernelSource& source) {
  if (source.route == Route::kRaw)
    return Diag{.code = ErrorCode::kUnproved,
                .subject = source.program.name,
                .message = "a hand-written kernel is not proved, and proved ones are demanded",
                .found = "kernel " + source.name,
                .expected = "route tile"};
  if (known_to_be_proved(verify::proof_key(source))) return {};
  const verify::KernelProof proof = verify::prove(source);
  if (!proof.error.empty())
    return Diag{.code = ErrorCode::kUnproved,
                .subject = source.program.name,
                .message = "proved kernels are demanded, and the provers cannot run",
                .found = proof.error};
  if (const verify::Obligation* open = proof.first_open()) return verify::diag_of(proof, *open);
  return {};
}

}  // namespace rooftile
