// SPDX-License-Identifier: Apache-2.0
#include "rooftile/codegen/gpu/size_limits.h"

#include <set>

#include "rooftile/codegen/gpu/strips_facts.h"

namespace rooftile::codegen {

void add_condition(const Expr& condition, GpuNeeds* needs) {
  if (condition.is_const(1)) return;
  for (const Expr& known : needs->conditions)
    if (known.same_as(condition)) return;
  needs->conditions.push_back(condition);
}

void add_size_conditions(const ir::Program& program, const ir::Node& phase, GpuNeeds* needs) {
  Expr tiles = 1;
  for (const Expr& extent : phase.extents) tiles = tiles * extent;
  if (walked(phase.extents).size() > 1) add_condition(tiles <= Expr(kLargestGrid), needs);
  std::set<std::string> symbols;
  for (const ir::TensorParam& t : program.tensors)
    for (const Expr& extent : t.shape) collect_symbols(extent, symbols);
  for (const std::string& symbol : symbols)
    add_condition(Expr::sym(symbol) <= Expr(kLargestSize), needs);
  // An extent made of several sizes (2 H) is indexed as any other.
  for (const ir::TensorParam& t : program.tensors)
    for (const Expr& extent : t.shape)
      if (extent.kind() != ExprKind::kSym) add_condition(extent <= Expr(kLargestSize), needs);
}

}  // namespace rooftile::codegen
