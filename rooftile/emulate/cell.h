// SPDX-License-Identifier: Apache-2.0
// A register of a warp: 32 lanes of up to 64 bits.
#pragma once

#include <cstdint>

namespace rooftile::emulate {

inline constexpr int kLanes = 32;
inline constexpr uint32_t kAllLanes = 0xffffffffu;

struct alignas(64) Cell {
  union {
    float f[kLanes];
    int32_t i[kLanes];
    uint32_t u[kLanes];  // predicates are 0 or 1 here
    int64_t l[kLanes];
    uint64_t ul[kLanes];
  };
};

}  // namespace rooftile::emulate
