// SPDX-License-Identifier: Apache-2.0
#include "rooftile/bench/provenance.h"

#include <ctime>

#include "rooftile/base/version.h"
#include "rooftile/bench/peers/peers.h"
#include "rooftile/compile/target.h"
#include "rooftile/toolchain/host_cc.h"

namespace rooftile::bench {
namespace {

std::string features(const TargetInfo& target) {
  std::string out = target.isa;
  if (target.avx512_bf16) out += "+bf16";
  if (target.avx512_vnni) out += "+vnni";
  if (target.avx512_fp16) out += "+fp16";
  if (target.amx_bf16 || target.amx_int8) out += "+amx";
  return out;
}

}  // namespace

Provenance provenance() {
  const TargetInfo& target = host_target();
  const auto compiler = find_compiler();
  return {kVersion,         kCommit,           target.device,
          features(target), target.threads,    compiler ? compiler->version : "",
          onednn_version(), openblas_version()};
}

std::string provenance_commit() { return kCommit; }

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace rooftile::bench
