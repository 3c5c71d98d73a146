// SPDX-License-Identifier: Apache-2.0
// What a measurement was made with: this build, the machine, the compiler and the libraries.
#pragma once

#include <string>

namespace rooftile::bench {

struct Provenance {
  std::string version, commit;  // of this build; "-dirty" if the tree was changed
  std::string device;           // the processor's own name
  std::string isa;              // "avx512+bf16+vnni+amx"
  int threads = 1;
  std::string compiler;          // of the kernels; "" if there is none
  std::string onednn, openblas;  // versions as the loaded libraries report them
};

Provenance provenance();
std::string provenance_commit();  // the same as provenance().commit, at no cost
std::string utc_now();            // "2026-11-30T04:45:00Z"

}  // namespace rooftile::bench
