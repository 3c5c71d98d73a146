// SPDX-License-Identifier: Apache-2.0
#include "rooftile/check/interp_run.h"

#include "rooftile/check/climb.h"
#include "rooftile/ir/interp.h"

namespace rooftile::check {

Result<std::map<std::string, NdArray, std::less<>>> interpret(const OpDef& op,
                                                              const KernelDef& kernel,
                                                              const RefCall& inputs,
                                                              const TargetInfo& target) {
  auto program = op.build(kernel, inputs.config);
  if (!program) return program.status();
  Env ints = inputs.dims;
  for (const auto& [name, size] : rung_schedule(kernel, inputs, target, Rung::kInterp).tile)
    ints[name] = size;
  ir::FloatAttrs floats;
  for (const AttrDef& attr : op.attrs) {
    const double value = inputs.attr(attr.name);
    if (attr.is_float)
      floats[attr.name] = value;
    else
      ints[attr.name] = static_cast<int64_t>(value);
  }
  ir::InterpTensors tensors = inputs.tensors;
  for (const ArgDef& arg : op.args)
    if (arg.role == ir::Role::kOut)
      tensors.erase(arg.name);  // created anew: nothing is written by luck
  RT_RETURN_IF_ERROR(
      ir::interpret(*program, ints, floats, tensors, {.numerics = ir::InterpOptions::kFloat64}));
  for (const ArgDef& arg : op.args)
    if (arg.role == ir::Role::kIn) tensors.erase(arg.name);
  return tensors;
}

}  // namespace rooftile::check
