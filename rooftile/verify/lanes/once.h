// SPDX-License-Identifier: Apache-2.0
// lanes.once and lanes.global-race: every element of an output is written by one thread of the
// grid, once; and no thread reads an element that another writes.
//
// A store's index is a base (CTA, tile, vector of a strided loop) plus an offset (thread, copies of
// unrolled loops, rank in a cluster). Offsets are enumerated: the stores with one base hit a box,
// each place once. Bases are boxes side by side: what they are made of follows from the element
// (determined.h), and there are as many as the tensor has boxes. Docs: decisions/0004.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "rooftile/verify/lanes/places.h"

namespace rooftile::verify {

// A place where the kernel writes or reads a tensor.
struct TensorSite {
  const lanes::Stmt* stmt = nullptr;
  std::vector<Expr> index;
  std::vector<int64_t> extent;  // elements at once, one a dimension
  std::vector<Expr> facts;
  std::vector<FactKind> kinds;
  std::vector<LoopAt> loops;
  Expr awaited;  // of a wait: what it waits for
};

// All places, by tensor.
struct TensorSites {
  std::map<std::string, std::vector<TensorSite>> writes, reads, adds;
  std::map<const lanes::Stmt*, Expr> barriers;  // the numbers of named ones
  std::set<std::string> images;                 // of sums, whose readers wait for tickets
};

class Once : public Walk::Observer {
 public:
  explicit Once(const lanes::Program& program) : program_(program) {}
  void instruction(Walk& walk, const lanes::Stmt& stmt) override;
  // After the walk.
  void finish(Walk& walk);

 private:
  void all_stored(Walk& walk);

  const lanes::Program& program_;
  TensorSites sites_;
};

}  // namespace rooftile::verify
