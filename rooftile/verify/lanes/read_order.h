// SPDX-License-Identifier: Apache-2.0
// Reads of a tensor that the kernel writes, by this name or by one that may be the same tensor: why
// no write comes before, or beside, the read of the same element.
#pragma once

#include "rooftile/verify/lanes/once.h"

namespace rooftile::verify {

// Every element that is read is stored by the thread that reads it, in the same tile.
bool read_by_the_same_threads(Walk& walk, const TensorSite& read,
                              const std::vector<TensorSite>& writes);

// Every element that is read is stored in the same tile and round of the loops around both, by a
// thread that has met the reader at a barrier in between; and where the copy engine stores it, past
// a proxy fence of the reader.
bool read_before_the_group_meets(Walk& walk, const TensorSite& read,
                                 const std::vector<TensorSite>& writes, const TensorSites& sites);

// Whether a named barrier is one of 128 threads, those of one warpgroup.
bool is_of_a_group(Walk& walk, const lanes::Stmt& barrier, const TensorSites& sites);

}  // namespace rooftile::verify
