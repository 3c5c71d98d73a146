// SPDX-License-Identifier: Apache-2.0
// What a GPU kernel limits beyond the contract: sizes that its loop counters and its grid can hold.
// A larger call is refused by the launcher; no variant takes it.
#pragma once

#include <cstdint>

namespace rooftile::codegen {

// Of every dim: a counter of it may go on by a tile or a vector without leaving i32.
inline constexpr int64_t kLargestSize = (int64_t{1} << 31) - (1 << 16);
inline constexpr int64_t kLargestGrid = (int64_t{1} << 31) - 1;

}  // namespace rooftile::codegen
