// SPDX-License-Identifier: Apache-2.0
// Derives the calling convention of a program: see arg_layout.h for the order of its entries.
#include "rooftile/compile/arg_layout.h"

#include <algorithm>

namespace rooftile {
namespace {

bool contains(const std::vector<std::string>& list, std::string_view item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

Status unbound(const ir::Program& program, const std::string& symbol, const std::string& where) {
  Diag diag;
  diag.code = ErrorCode::kIrStructure;
  diag.subject = program.name;
  diag.message = "the symbol `" + symbol + "` has no value at the call";
  diag.found = "`" + symbol + "` in " + where;
  diag.expected = "a bare extent of an argument tensor, an integer attribute or a tile parameter";
  diag.fix = "give an argument the extent `" + symbol + "`, or pass it as an integer attribute";
  return diag;
}

}  // namespace

int ArgLayout::int_index(std::string_view name) const {
  auto it = std::find(ints.begin(), ints.end(), name);
  return it == ints.end() ? -1 : static_cast<int>(it - ints.begin());
}

Result<ArgLayout> arg_layout(const ir::Program& program) {
  ArgLayout layout;
  std::vector<std::string> attrs;
  for (const ir::ScalarParam& scalar : program.scalars)
    (scalar.is_float ? layout.floats : attrs).push_back(scalar.name);

  for (const ir::TensorParam& tensor : program.tensors) {
    if (tensor.role == ir::Role::kWorkspace) continue;
    layout.tensors.push_back(tensor.name);
    for (const Expr& extent : tensor.shape)
      if (extent.kind() == ExprKind::kSym && !contains(attrs, extent.name()) &&
          !contains(layout.ints, extent.name()))
        layout.ints.push_back(extent.name());
  }
  layout.num_dims = layout.ints.size();
  layout.num_int_attrs = attrs.size();
  layout.ints.insert(layout.ints.end(), attrs.begin(), attrs.end());

  // Loop variables live in the nodes and are bound there; verify() answers for those.
  auto check = [&](const Expr& expr, const std::string& where) -> Status {
    for (const std::string& symbol : symbols_of(expr))
      if (!contains(layout.ints, symbol) && !contains(program.tile_params, symbol))
        return unbound(program, symbol, where);
    return {};
  };
  for (const ir::TensorParam& tensor : program.tensors)
    for (const Expr& extent : tensor.shape) {
      // A GPU's launcher knows its multiprocessors, for workspaces with a part for each.
      if (tensor.role == ir::Role::kWorkspace && symbols_of(extent).count("SMS") > 0) continue;
      RT_RETURN_IF_ERROR(check(extent, "the shape of `" + tensor.name + "`"));
    }
  for (const ir::ScalarParam& scalar : program.scalars)
    if (!scalar.is_float && scalar.has_range)
      for (const Expr& bound : {scalar.min, scalar.max})
        RT_RETURN_IF_ERROR(check(bound, "the range of `" + scalar.name + "`"));
  for (const ir::Clause& clause : program.clauses)
    for (const Expr& part :
         {clause.condition, clause.lo, clause.hi, clause.used_unit, clause.except})
      RT_RETURN_IF_ERROR(check(part, "the contract (" + clause.why + ")"));

  for (const ir::TensorParam& tensor : program.tensors) {
    if (tensor.role == ir::Role::kWorkspace) continue;
    for (size_t i = 0; i < tensor.shape.size(); ++i)
      layout.ints.push_back(tensor.name + ".s" + std::to_string(i));
  }
  return layout;
}

}  // namespace rooftile
