// SPDX-License-Identifier: Apache-2.0
// What a kernel's source lets pass although no prover can decide it.
#pragma once

#include <string>

namespace rooftile {

// Never lets pass what is refuted. `rooftile prove` lists it, the kernel's certificate carries it,
// and a caller who demands proved kernels is refused all the same.
struct Waiver {
  std::string obligation;  // its id: "lanes.once"; docs/proofs.md lists them
  std::string why;         // who looked instead, and at what
};

}  // namespace rooftile
