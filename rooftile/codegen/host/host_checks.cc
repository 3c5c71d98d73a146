// SPDX-License-Identifier: Apache-2.0
#include "rooftile/codegen/host/host_checks.h"

#include <algorithm>
#include <set>

namespace rooftile::host {
namespace {

std::vector<const ir::TensorParam*> arguments(const ir::Program& program) {
  std::vector<const ir::TensorParam*> out;
  for (const ir::TensorParam& tensor : program.tensors)
    if (tensor.role != ir::Role::kWorkspace) out.push_back(&tensor);
  return out;
}

}  // namespace

bool is_output(const ir::TensorParam& tensor) {
  return tensor.role == ir::Role::kOut || tensor.role == ir::Role::kInOut;
}

int required_alignment(const ir::TensorParam& tensor) {
  return std::max(tensor.align_bytes, size_bytes(tensor.dtype));
}

std::vector<DimSource> dim_sources(const ir::Program& program) {
  std::vector<DimSource> out;
  std::set<std::string> bound;
  for (const ir::TensorParam* tensor : arguments(program))
    for (size_t axis = 0; axis < tensor->shape.size(); ++axis) {
      const Expr& extent = tensor->shape[axis];
      if (extent.kind() != ExprKind::kSym) continue;
      const ir::ScalarParam* scalar = program.scalar(extent.name());
      const bool is_attr = scalar != nullptr && !scalar->is_float;
      if (!is_attr && bound.insert(extent.name()).second)
        out.push_back({extent.name(), tensor, axis});
    }
  return out;
}

std::vector<HostCheck> host_checks(const ir::Program& program, bool on_gpu) {
  const std::vector<const ir::TensorParam*> tensors = arguments(program);
  std::vector<HostCheck> out;
  auto add = [&out](HostCheck::Kind kind, const ir::TensorParam* tensor) -> HostCheck& {
    out.push_back({kind, tensor});
    return out.back();
  };
  for (const ir::TensorParam* tensor : tensors)
    if (!tensor->shape.empty()) add(HostCheck::kExtents, tensor);
  const std::vector<DimSource> sources = dim_sources(program);
  for (const ir::TensorParam* tensor : tensors)
    for (size_t axis = 0; axis < tensor->shape.size(); ++axis) {
      const bool source = std::any_of(sources.begin(), sources.end(), [&](const DimSource& s) {
        return s.tensor == tensor && s.axis == axis;
      });
      if (!source) add(HostCheck::kExtentIs, tensor).axis = axis;
    }
  for (const ir::TensorParam* tensor : tensors) {
    if (tensor->unit_inner_stride && !tensor->shape.empty()) add(HostCheck::kUnitStride, tensor);
    if (required_alignment(*tensor) > 1) add(HostCheck::kAligned, tensor);
    add(HostCheck::kReach, tensor);
    if (is_output(*tensor) && !tensor->shape.empty()) add(HostCheck::kApart, tensor);
  }
  for (size_t i = 0; i < tensors.size(); ++i)
    for (size_t j = 0; j < tensors.size(); ++j) {
      if (i == j || !is_output(*tensors[i])) continue;
      if (is_output(*tensors[j]) && j < i) continue;  // this pair is done
      add(HostCheck::kNoOverlap, tensors[i]).other = tensors[j];
    }
  for (const ir::ScalarParam& scalar : program.scalars)
    if (!scalar.is_float && scalar.has_range) add(HostCheck::kAttrRange, nullptr).scalar = &scalar;
  for (const ir::Clause& clause : program.clauses)
    if (clause.kind == ir::Clause::kCondition) add(HostCheck::kCondition, nullptr).clause = &clause;
  for (const ir::Clause& clause : program.clauses)
    if (clause.kind != ir::Clause::kCondition && !on_gpu && program.tensor(clause.tensor))
      add(HostCheck::kIndex, program.tensor(clause.tensor)).clause = &clause;
  return out;
}

}  // namespace rooftile::host
