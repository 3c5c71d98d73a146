// SPDX-License-Identifier: Apache-2.0
// lanes.once, refuted: a small call at which two stores meet, or an element is left out.
//
// Where the general proof does not go through, the stores are carried out on paper: sizes that the
// contract admits are chosen, and every CTA, thread and iteration is walked. A store that depends
// on what is not known (a register that a loop changes, a value from memory) makes no claim that
// something is left out, and none of its own.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "rooftile/verify/lanes/once.h"

namespace rooftile::verify {

struct BadStore {
  const lanes::Stmt* stmt = nullptr;
  std::string what;
  Env call;
  std::vector<std::pair<std::string, int64_t>> at;
  std::vector<std::string> story;
};

// `all`: every element must be stored, not just none twice.
std::optional<BadStore> try_stores(Walk& walk, const lanes::TensorUse& tensor,
                                   const std::vector<TensorSite>& sites, bool all);

}  // namespace rooftile::verify
