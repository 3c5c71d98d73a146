// SPDX-License-Identifier: Apache-2.0
// Contract expressions as C++ text over the launcher's variables, in checked 64-bit arithmetic.
#pragma once

#include <string>
#include <vector>

#include "rooftile/base/expr.h"

namespace rooftile::host {

// `d_<symbol>`: the variable that holds a dim or an integer attribute.
std::string symbol_variable(std::string_view symbol);
std::string identifier(std::string_view name);  // letters, digits and underscores

// A value of type i64. Overflow, division by zero and an index load out of bounds set the variable
// `bad`. An index load of tensor t is a call of the lambda `at_<t>(i, ..., bad)`.
std::string emit_expr(const Expr& expr);

// "T = {i2}, H = {i3}" for the symbols of `exprs`, appending their variables to `values` (at most
// the site's room).
std::string value_pattern(const std::vector<Expr>& exprs, std::vector<std::string>& values);

}  // namespace rooftile::host
