// SPDX-License-Identifier: Apache-2.0
// Replacing symbols everywhere in a program: tile parameters by the schedule's numbers, dims by
// specialised sizes. A replaced tile parameter is no longer one. Indices of regions are names of
// their own and are never replaced.
#include <algorithm>

#include "rooftile/ir/ir.h"

namespace rooftile::ir {

Program substitute_symbols(const Program& program,
                           const std::map<std::string, Expr, std::less<>>& values) {
  Program out = program;
  auto replace = [&values](Expr& e) { e = substitute(e, values); };
  for (TensorParam& t : out.tensors)
    for (Expr& extent : t.shape) replace(extent);
  for (ScalarParam& s : out.scalars)
    for (Expr* e : {&s.min, &s.max}) replace(*e);
  for (Clause& c : out.clauses)
    for (Expr* e : {&c.condition, &c.lo, &c.hi, &c.used_unit, &c.except}) replace(*e);
  for (Node& n : out.nodes) {
    for (Expr& extent : n.shape) replace(extent);
    for (DimIndex& dim : n.region)
      for (Expr* e : {&dim.begin, &dim.extent}) replace(*e);
    for (Expr* e : {&n.expr, &n.begin, &n.end, &n.step}) replace(*e);
    for (Expr& extent : n.extents) replace(extent);
  }
  auto& params = out.tile_params;
  params.erase(std::remove_if(params.begin(), params.end(),
                              [&](const std::string& p) { return values.count(p) > 0; }),
               params.end());
  return out;
}

}  // namespace rooftile::ir
