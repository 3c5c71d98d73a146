// SPDX-License-Identifier: Apache-2.0
// Every thread and copy of an access, looked at one by one: where it goes, as an offset from its
// base.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rooftile/verify/lanes/store_form.h"

namespace rooftile::verify {

struct Hit {
  std::vector<int64_t> at;     // the offset
  std::vector<int64_t> whose;  // values of the symbols that were asked for
};

// Nothing if there are too many, or one of `whose` is not enumerated.
std::optional<std::vector<Hit>> hits_of(const Symbols& symbols, const StoreForm& form,
                                        const std::vector<std::string>& whose = {});

// What accesses of a form have in common: its base, whatever its symbols are called.
std::string key_of(const StoreForm& form);

}  // namespace rooftile::verify
