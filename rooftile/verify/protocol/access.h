// SPDX-License-Identifier: Apache-2.0
// Sets of bytes of shared memory, interned: which bytes an access touches, and by which lanes.
//
// An address may have a symbol in it (a row that only the call knows): then the bytes are known
// relative to the symbol, which settles accesses with the same one, and a hull settles the rest.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rooftile/verify/protocol/terms.h"

namespace rooftile::verify::protocol {

using AccessId = int32_t;
using ExtentId = int32_t;  // a set of bytes; 0: none

struct Run {
  int32_t begin, end;  // offsets in the CTA's window, or from the symbol
  uint32_t lanes;
  bool operator<(const Run& o) const {
    return std::tie(begin, end, lanes) < std::tie(o.begin, o.end, o.lanes);
  }
  bool operator==(const Run&) const = default;
};

struct Access {
  SumId sum = kNoSum;
  bool may = false;  // perhaps not all of it
  uint32_t lanes = 0;
  std::vector<Run> runs;  // disjoint, ascending
  std::vector<Run> hull;  // sum: all that it may be, whatever the symbol
  const std::vector<Run>& widest() const { return sum == kNoSum ? runs : hull; }
};

struct Overlap {
  bool any = false;
  bool lanes_differ = false;  // on a byte, beyond one lane meeting itself
};

class Accesses {
 public:
  // `runs` in any order, overlapping or not.
  AccessId intern(SumId sum, bool may, std::vector<Run> runs, std::vector<Run> hull);
  // All of one sum and `may`.
  AccessId joined(std::vector<AccessId> parts);
  AccessId with_sum(AccessId a, SumId sum);  // renamed
  AccessId widened(AccessId a);              // without its symbol
  const Access& operator[](AccessId a) const { return accesses_[static_cast<size_t>(a)]; }

  Overlap overlap(AccessId a, AccessId b);
  bool self_crossing(AccessId a) const;        // two lanes on one byte
  bool covers(AccessId whole, AccessId part);  // every byte of `part`, for certain

  ExtentId extended(ExtentId extent, AccessId a);
  ExtentId without(ExtentId extent, int32_t begin, int32_t end);
  bool contains(ExtentId extent, AccessId a);
  int32_t first_outside(ExtentId extent, AccessId a) const;

 private:
  struct Key {
    SumId sum;
    bool may;
    std::vector<Run> runs, hull;
    bool operator<(const Key& o) const {
      return std::tie(sum, may, runs, hull) < std::tie(o.sum, o.may, o.runs, o.hull);
    }
  };
  using Extent = std::vector<std::pair<int32_t, int32_t>>;
  static uint64_t pair(int32_t a, int32_t b) {
    return static_cast<uint64_t>(static_cast<uint32_t>(a)) << 32 | static_cast<uint32_t>(b);
  }

  std::deque<Access> accesses_;
  std::map<Key, AccessId> ids_;
  std::map<std::vector<AccessId>, AccessId> joined_;
  std::unordered_map<uint64_t, Overlap> overlaps_;
  std::unordered_map<uint64_t, bool> covers_, contains_;
  std::unordered_map<uint64_t, ExtentId> extended_;
  std::deque<Extent> extents_{Extent()};
  std::map<Extent, ExtentId> extent_ids_{{Extent(), 0}};
};

}  // namespace rooftile::verify::protocol
