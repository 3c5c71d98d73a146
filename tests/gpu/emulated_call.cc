// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/emulated_call.h"

#include <algorithm>

#include "rooftile/check/case_inputs.h"
#include "rooftile/check/host_tensor.h"
#include "rooftile/emulate/emulate.h"
#include "rooftile/lanes/lanes.h"

namespace rooftile::testing {

Result<std::vector<codegen::GpuVariant>> lower_case(const OpDef& op, const KernelDef& kernel,
                                                    const RefCall& call, const Schedule& schedule,
                                                    std::string* scheduled) {
  Result<ir::Program> program = op.build(kernel, call.config);
  if (!program.ok()) return program.diag();
  std::map<std::string, Expr, std::less<>> tiles;
  for (const auto& [name, value] : schedule.tile) tiles.emplace(name, Expr(value));
  ir::Program specialised = ir::substitute_symbols(*program, tiles);
  specialised.tile_params.clear();
  std::string text;
  Result<std::vector<codegen::GpuVariant>> variants =
      codegen::lower_strips(specialised, op.name + "_" + kernel.name, schedule, text);
  if (scheduled != nullptr) *scheduled = text;
  if (!variants.ok()) return variants.diag();
  for (const codegen::GpuVariant& variant : *variants)
    for (const lanes::Program& phase : variant.phases) RT_RETURN_IF_ERROR(lanes::verify(phase));
  return variants;
}

Result<EmulatedCase> EmulatedCase::make(const OpDef& op, const std::string& text, uint64_t seed) {
  EmulatedCase out;
  out.op_ = &op;
  Result<Case> parsed = check::parse_case(text);
  if (!parsed.ok()) return parsed.diag();
  Result<RefCall> call = check::resolve_case(op, *parsed);
  if (!call.ok()) return call.diag();
  out.call_ = *call;
  RT_RETURN_IF_ERROR(check::make_inputs(op, out.call_, seed));
  out.wanted_ = out.call_;
  op.reference_fn(out.wanted_);
  return out;
}

bool EmulatedCase::meets(const codegen::GpuNeeds& needs) const {
  Env env = call_.dims;
  for (const AttrDef& attr : op_->attrs)
    if (!attr.is_float) env[attr.name] = static_cast<int64_t>(call_.attr(attr.name));
  // Dense tensors begin aligned; their strides are products of the extents.
  for (const std::string& tensor : needs.aligned) {
    if (!call_.has(tensor) || op_->arg(tensor) == nullptr) continue;
    int64_t bytes = size_bytes(call_.config.dtype(tensor));
    const std::vector<int64_t>& shape = call_[tensor].shape;
    for (size_t d = shape.size(); d-- > 1;) {
      bytes *= shape[d];
      if (bytes == 0 || bytes % needs.align_bytes != 0) return false;
    }
  }
  return std::all_of(needs.conditions.begin(), needs.conditions.end(), [&](const Expr& condition) {
    return evaluate(condition, env).value_or(0) != 0;
  });
}

Result<check::Comparison> EmulatedCase::run(const codegen::GpuVariant& variant, bool padded,
                                            uint64_t seed) const {
  std::map<std::string, check::HostTensor> memory;
  emulate::Launch launch;
  launch.seed = seed;
  for (const auto& [dim, value] : call_.dims) launch.ints[dim] = value;
  for (const AttrDef& attr : op_->attrs) {
    if (attr.is_float)
      launch.floats[attr.name] = call_.attr(attr.name);
    else
      launch.ints[attr.name] = static_cast<int64_t>(call_.attr(attr.name));
  }
  const auto add = [&](const std::string& name, check::HostTensor tensor, bool initialised) {
    const TensorView view = tensor.view();
    emulate::TensorArg arg;
    arg.data = view.data;
    arg.dtype = tensor.dtype();
    arg.shape = tensor.shape();
    arg.strides.assign(view.strides.begin(), view.strides.begin() + view.rank);
    arg.initialised = initialised;
    launch.tensors[name] = arg;
    memory[name] = std::move(tensor);
  };
  for (const ArgDef& arg : op_->args) {
    if (!call_.has(arg.name)) continue;
    check::TensorLayout layout;
    layout.padded = padded;
    layout.align_bytes = arg.align_bytes;
    layout.unit_inner_stride = arg.unit_inner_stride;
    const NdArray& values = call_[arg.name];
    check::HostTensor tensor(call_.config.dtype(arg.name), values.shape, layout);
    if (arg.role == ir::Role::kOut)
      tensor.poison(check::Poison::kFirst);
    else
      tensor.store(values);
    add(arg.name, std::move(tensor), arg.role != ir::Role::kOut);
  }
  bool first = true;
  for (const lanes::Program& phase : variant.phases) {
    Env env = launch.ints;
    env["SMS"] = launch.sms;
    for (const lanes::TensorUse& use : phase.tensors) {
      if (!use.workspace || memory.count(use.name) != 0) continue;
      std::vector<int64_t> shape;
      for (const Expr& extent : use.shape) shape.push_back(evaluate(extent, env).value_or(0));
      check::HostTensor tensor(use.dtype, shape);
      add(use.name, std::move(tensor), false);
    }
    if (!first)
      for (auto& [name, arg] : launch.tensors)
        if (op_->arg(name) == nullptr) arg.initialised = true;
    first = false;
    if (evaluate(phase.grid_x, env).value_or(0) == 0) continue;
    RT_RETURN_IF_ERROR(emulate::run(phase, launch));
  }
  const Tolerance tolerance = op_->tolerance_fn(wanted_);
  check::Comparison worst;
  for (const ArgDef& arg : op_->args) {
    if (arg.role == ir::Role::kIn || !call_.has(arg.name)) continue;
    const check::HostTensor& tensor = memory.at(arg.name);
    check::Comparison one = check::compare(tensor.load(), wanted_[arg.name], tolerance);
    if (auto damage = tensor.guard_damage()) {
      one.pass = false;
      one.reason = "`" + arg.name + "`: " + *damage;
    }
    if (!one.pass) one.reason = arg.name + ": " + one.reason;
    worst.merge(one);
  }
  return worst;
}

}  // namespace rooftile::testing
