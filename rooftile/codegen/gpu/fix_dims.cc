// SPDX-License-Identifier: Apache-2.0
#include "rooftile/codegen/gpu/fix_dims.h"

#include <set>

namespace rooftile::codegen {

Result<ir::Program> fix_dims(const ir::Program& program,
                             const std::map<std::string, int64_t>& dims) {
  std::set<std::string> bound;
  for (const ir::TensorParam& tensor : program.tensors)
    for (const Expr& extent : tensor.shape)
      if (extent.kind() == ExprKind::kSym) bound.insert(extent.name());
  std::map<std::string, Expr, std::less<>> values;
  for (const auto& [dim, value] : dims) {
    if (bound.count(dim) == 0) {
      Diag diag;
      diag.code = ErrorCode::kSchedule;
      diag.subject = program.name;
      diag.message = "the schedule fixes a dim that no tensor's shape names";
      diag.found = dim;
      return diag;
    }
    values.emplace(dim, Expr(value));
  }
  return ir::substitute_symbols(program, values);
}

}  // namespace rooftile::codegen
