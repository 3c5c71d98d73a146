// SPDX-License-Identifier: Apache-2.0
// Proofs about the code of a GPU kernel that concern addresses: what every thread of every CTA
// touches, whether it is aligned, whether it wraps, and that every output is written once.
//
// It reads lanes::Program alone, by the records of instr.def, and trusts nothing that made it. What
// must hold of a call is given as a LaneContract. The page is docs/decisions/0004-proofs.md.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rooftile/base/expr.h"
#include "rooftile/lanes/lanes.h"
#include "rooftile/verify/arith/arithmetic.h"
#include "rooftile/verify/verdict.h"

namespace rooftile::verify {

// What the contract says of an index tensor's values.
struct IndexClause {
  IndexFacts facts;  // `tensor` names it
  bool has_except = false;
  Expr except;  // one value admitted although outside the range: a marker
  // The range holds of the first ceil(used[r] / used_unit) entries of row r; "": of all.
  std::string used;
  Expr used_unit = 1;
  // No two elements are equal (facts.distinct), but for those that equal this one.
  bool distinct_but = false;
  Expr repeated;
  // Facts of every element, over its value and its indices: the symbols "value", "at.0", ...
  std::vector<Expr> each;
};

// What the launcher has checked, or the caller promised, of every call that gets this kernel. That
// dims are not negative, and that strides are not, goes without saying.
struct LaneContract {
  std::vector<Expr> facts;  // over dims, strides ("x.s0"), integer attributes and index tensors
  std::vector<IndexClause> index;
  // Of a tensor's data and of all its strides but the innermost, in bytes; what TensorUse says of
  // it holds as well.
  std::map<std::string, int, std::less<>> align_bytes;
  // Tensors that are updated: elements that a call does not write keep their values.
  std::set<std::string, std::less<>> kept;
  // Tensors that a call may pass as one (each other's elements at the same place, or not at all).
  std::vector<std::pair<std::string, std::string>> may_alias;
};

// One finding a statement and kind of obligation. Deterministic; never throws.
std::vector<Finding> prove_lanes(const lanes::Program& kernel, const LaneContract& contract);

// What `kernel` leaves in workspaces of integers: ranges that all it stores there lie in. Clauses
// for the contracts of the kernels launched behind it, which read no element that it does not
// write (lanes.once of a workspace).
std::vector<IndexClause> stored_indices(const lanes::Program& kernel, const LaneContract& contract);

}  // namespace rooftile::verify
