// SPDX-License-Identifier: Apache-2.0
// What a warp can still use from an operation on.
#pragma once

#include <cstdint>
#include <vector>

#include "rooftile/verify/protocol/flatten.h"

namespace rooftile::verify::protocol {

using Bits = std::vector<uint64_t>;
inline bool has_bit(const Bits& bits, size_t i) { return (bits[i / 64] >> (i % 64) & 1) != 0; }

// Each by operation, seen from before it.
struct Liveness {
  std::vector<Bits> slots;     // registers that are read before they are written
  std::vector<Bits> reaches;   // operations
  std::vector<bool> products;  // whether there are any to come
  // Bit a: allocation a of the own CTA, or of a peer, may be used from there on.
  std::vector<uint64_t> own, peers;
};
Liveness liveness(const Flat& flat);

}  // namespace rooftile::verify::protocol
