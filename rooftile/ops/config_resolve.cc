// SPDX-License-Identifier: Apache-2.0
// Flags in the shapes and clauses of an operator: constants once a config is chosen.
#include "rooftile/ops/op_def.h"

namespace rooftile {

Expr Config::resolve(const Expr& expr) const {
  std::map<std::string, Expr, std::less<>> values;
  for (const auto& [flag, value] : flags) values.emplace(flag, Expr(value));
  return substitute(expr, values);
}

}  // namespace rooftile
