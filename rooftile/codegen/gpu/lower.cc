// SPDX-License-Identifier: Apache-2.0
#include "rooftile/codegen/gpu/lower.h"

#include "rooftile/codegen/gpu/fix_dims.h"

namespace rooftile::codegen {

Result<GpuKernelLanes> lower_gpu(const ir::Program& program, const std::string& name,
                                 const Schedule& schedule) {
  Result<ir::Program> fixed = fix_dims(program, schedule.gpu.dims);
  if (!fixed.ok()) return fixed.diag();
  GpuKernelLanes out;
  Result<std::vector<GpuVariant>> variants =
      schedule.gpu.roles.empty() ? lower_strips(*fixed, name, schedule, out.scheduled)
                                 : lower_fragments(*fixed, name, schedule, out.scheduled);
  if (!variants.ok()) return variants.diag();
  const auto tiles = std::make_shared<const ir::Program>(std::move(*fixed));
  for (GpuVariant& variant : *variants) {
    variant.program = tiles;
    variant.placed.resize(variant.phases.size());
    for (const auto& [dim, value] : schedule.gpu.dims)
      variant.needs.conditions.push_back(Expr::sym(dim) == Expr(value));
  }
  out.variants = std::move(*variants);
  return out;
}

}  // namespace rooftile::codegen
