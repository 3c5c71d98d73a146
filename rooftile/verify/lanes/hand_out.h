// SPDX-License-Identifier: Apache-2.0
// Loops that hand out the parts of tiles: a contraction split over the grid.
//
// Which steps of which tile a CTA (a cluster, where there are some) computes, who owns the sums of
// a tile, and how many others send theirs, a kernel computes from the number of the CTA. That this
// comes out right for every number of tiles, steps and CTAs is a matter of a few lemmas on integers
// (docs/decisions/0004-proofs.md, "Parts"), not of a solver: the arithmetic here is compared,
// operation by operation, with the two forms that the lemmas are about. What differs is no
// hand-out.
//
// The walk then takes the registers of the pattern for numbers of which the lemmas tell:
//   every tile has one owner; an owner's number is not below that of the slot that sends to it;
//   each slot sends once at most; an owner o waits once at most, for exactly the slots
//   o - others .. o - 1; and nothing in the pattern wraps.
// What the lemmas ask for (sizes, and a grid of whole tiles) the walk asks (parts.cc).
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "rooftile/lanes/lanes.h"

namespace rooftile::verify {

struct HandOut {
  enum Form : uint8_t {
    kEqualParts,  // `ways` parts a tile, walked by stride; a slot a part
    kRuns,        // whole tiles, then runs of the steps of the rest; a slot a CTA
  };
  Form form = kEqualParts;
  int ways = 0;             // kEqualParts
  lanes::Val count, steps;  // kEqualParts: of all parts; kRuns: of tiles. Steps of a tile
  std::string slot;         // registers; the slot of this CTA, or of the loop's item
  std::string tile, first, last;
  std::string owner, others;  // "" in a role that computes no sums
};

class HandOuts {
 public:
  explicit HandOuts(const lanes::Program& program);
  // The hand-out that a loop is, or null.
  const HandOut* at(const lanes::Stmt& loop) const;
  // Whether there is one in a role that computes sums.
  bool of_sums() const {
    for (const auto& [loop, form] : found_)
      if (!form.owner.empty()) return true;
    return false;
  }
  // Whether the statement is one of a pattern's: its registers are what the lemmas say of them.
  bool has(const lanes::Stmt& stmt) const { return members_.count(&stmt) > 0; }

 private:
  void look(const lanes::Body& body);
  bool equal_parts(const lanes::Stmt& loop);
  bool runs(const lanes::Body& body, size_t at);
  bool keep(const lanes::Stmt& loop, HandOut found, std::vector<const lanes::Stmt*> members);

  const int size_;  // CTAs of a cluster
  std::unordered_map<const lanes::Stmt*, HandOut> found_;
  std::unordered_map<const lanes::Stmt*, const lanes::Stmt*> members_;
};

}  // namespace rooftile::verify
