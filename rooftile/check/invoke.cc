// SPDX-License-Identifier: Apache-2.0
#include "rooftile/check/invoke.h"

#include <algorithm>

#include "rooftile/compile/dispatch.h"

namespace rooftile::check {
namespace {

Diag missing(const std::string& kernel, const std::string& name) {
  Diag diag;
  diag.code = ErrorCode::kInternal;
  diag.subject = kernel;
  diag.message = "the kernel wants an argument that the operator does not have";
  diag.argument = name;
  return diag;
}

bool is_prepacked(const CompiledKernel& kernel, const std::string& tensor) {
  for (const PrepackedOperand& operand : kernel.source.prepacked)
    if (operand.tensor == tensor) return true;
  return false;
}

}  // namespace

HostTensor& Arguments::tensor(std::string_view name) {
  const auto alias = aliases.find(name);
  return tensors.find(alias == aliases.end() ? name : std::string_view(alias->second))->second;
}

Arguments place(const OpDef& op, const RefCall& call, bool padded, int align_bytes) {
  Arguments out;
  out.attrs = call.attrs;
  for (const ArgDef& arg : op.args) {
    if (!call.has(arg.name)) continue;
    const NdArray& values = call[arg.name];
    const DType dtype = call.config.dtype(arg.name);
    HostTensor tensor(dtype, values.shape,
                      {padded, std::max(arg.align_bytes, align_bytes), arg.unit_inner_stride});
    if (arg.role != ir::Role::kOut) tensor.store(values);
    out.tensors.emplace(arg.name, std::move(tensor));
  }
  return out;
}

Views views_of(Arguments& arguments) {
  Views out;
  for (const auto& [name, tensor] : arguments.tensors)
    out.emplace(name, arguments.tensor(name).view());
  return out;
}

Result<BoundCall> BoundCall::bind(const CompiledKernel& kernel, Arguments& arguments) {
  return bind(kernel, views_of(arguments), arguments.attrs);
}

Result<BoundCall> BoundCall::bind(const CompiledKernel& kernel, const Views& views,
                                  const std::map<std::string, double, std::less<>>& attrs) {
  BoundCall bound;
  bound.launch_ = kernel.launch;
  for (const ir::TensorParam& param : kernel.source.program.tensors) {
    if (param.role == ir::Role::kWorkspace) continue;
    const auto at = views.find(param.name);
    if (at == views.end()) return missing(kernel.source.name, param.name);
    TensorView view = at->second;
    if (is_prepacked(kernel, param.name)) {
      auto packed = prepack(kernel, param.name, view);
      if (!packed) return packed.status();
      view = packed->view();
      bound.packed_.push_back(std::move(*packed));
    }
    bound.tensors_.push_back(view);
  }
  for (const ir::ScalarParam& scalar : kernel.source.program.scalars) {
    const auto value = attrs.find(scalar.name);
    if (value == attrs.end()) return missing(kernel.source.name, scalar.name);
    if (scalar.is_float)
      bound.scalars_.emplace_back(value->second);
    else
      bound.scalars_.emplace_back(static_cast<int64_t>(value->second));
  }
  return bound;
}

Status BoundCall::call() const { return invoke(launch_, tensors_, scalars_); }

}  // namespace rooftile::check
