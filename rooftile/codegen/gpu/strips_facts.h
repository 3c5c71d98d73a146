// SPDX-License-Identifier: Apache-2.0
// What the lowering to strips must know of a program before it writes anything: who uses a value,
// which sizes are bounded, which are multiples of a vector, and which accesses can meet.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rooftile/ir/ir.h"

namespace rooftile::codegen {

using ir::ValueId;

// The largest value of an expression whatever its symbols are (sizes are at least 0); nullopt if no
// bound is evident. Both sides of a min() serve.
std::optional<int64_t> most(const Expr& e);

// The extents that are not 1: what a loop over the elements of a tile walks.
std::vector<Expr> walked(const std::vector<Expr>& shape);
std::string shape_key(const std::vector<Expr>& shape);
bool is_scalar(const ir::Node& node);  // every extent is 1

// Whether a size is a multiple of a vector: always, if a condition on the call holds, or not
// evidently.
class Multiples {
 public:
  explicit Multiples(const ir::Program& program);
  // A loop variable whose values are all multiples of `unit`.
  void bind(const std::string& variable, int64_t unit) { unit_of_[variable] = unit; }
  // True if `e` is a multiple of `unit` under the conditions collected so far and those added now.
  bool holds(const Expr& e, int64_t unit, std::vector<Expr>* conditions) const;
  // The largest power of two up to `unit` that surely divides `e`.
  int64_t unit_of(const Expr& e, int64_t unit) const;
  bool is_closed(const Expr& e) const;  // known before the launch: dims and integer attributes only

 private:
  bool surely(const Expr& e, int64_t unit) const;
  std::set<std::string> given_;
  std::map<std::string, int64_t> unit_of_;
};

// The two regions share no element, or every element at the same position of the tile.
enum class Meeting { kApart, kSameElement, kUnknown };
Meeting meeting(const ir::Node& a, const ir::Node& b);

class Uses {
 public:
  Uses(const ir::Program& program, const ir::Block& block);
  // Operands, index tiles of regions and yields together.
  const std::vector<ValueId>& users(ValueId id) const { return users_[static_cast<size_t>(id)]; }
  size_t count(ValueId id) const { return users(id).size(); }
  // Used by products only, through transposes.
  bool operand_only(ValueId id) const;
  bool feeds_product(ValueId id) const;
  // Part of an index tile: wanted at the rows of every load that it indexes, whichever thread asks.
  bool feeds_index(ValueId id) const;

 private:
  void visit(const ir::Block& block);
  const ir::Program& program_;
  std::vector<std::vector<ValueId>> users_;
};

// All values that computing `id` reads directly: operands and index tiles.
std::vector<ValueId> inputs_of(const ir::Node& node);
bool contains(const ir::Program& program, const ir::Block& block, ir::Op op);
// Two tensors that a call may pass as one.
bool may_alias(const ir::Program& program, const std::string& a, const std::string& b);

}  // namespace rooftile::codegen
