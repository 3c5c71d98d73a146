// SPDX-License-Identifier: Apache-2.0
#include "rooftile/check/sample.h"

#include <algorithm>
#include <set>

#include "rooftile/check/case_inputs.h"
#include "rooftile/check/ladder.h"

namespace rooftile::check {
namespace {

constexpr double kTrialFlops = 1e6;

bool is_output(const ArgDef& arg) { return arg.role != ir::Role::kIn; }

// The chosen indices of an axis; null: all of it.
const std::vector<int64_t>* chosen_of(const Expr& extent, const Chosen& chosen) {
  if (extent.kind() != ExprKind::kSym) return nullptr;
  const auto at = chosen.find(extent.name());
  return at == chosen.end() ? nullptr : &at->second;
}

// The dim is an axis of an output, and in all shapes nothing but an axis: never 2 * H.
bool is_an_axis(const OpDef& op, const RefCall& call, const std::string& dim) {
  bool of_output = false;
  for (const ArgDef& arg : op.args) {
    if (!call.config.has(arg.name)) continue;
    for (const Expr& declared : arg.shape) {
      const Expr extent = call.config.resolve(declared);
      const bool axis = extent.kind() == ExprKind::kSym && extent.name() == dim;
      if (!axis && symbols_of(extent).count(dim) > 0) return false;
      of_output = of_output || (axis && is_output(arg));
    }
  }
  return of_output;
}

bool same_results(const OpDef& op, const RefCall& whole, RefCall part, const Chosen& chosen) {
  op.reference_fn(part);
  for (const ArgDef& arg : op.args)
    if (is_output(arg) && whole.has(arg.name) &&
        part_of(arg, whole, whole[arg.name], chosen).data != part[arg.name].data)
      return false;
  return true;
}

}  // namespace

NdArray part_of(const ArgDef& arg, const RefCall& call, const NdArray& values,
                const Chosen& chosen) {
  NdArray part = values;
  int64_t inner = 1;  // elements of one index of the axis
  for (size_t axis = arg.shape.size(); axis-- > 0;) {
    const int64_t extent = values.shape[axis];
    if (const auto* indices = chosen_of(call.config.resolve(arg.shape[axis]), chosen)) {
      std::vector<double> kept;
      const int64_t outer = extent == 0 ? 0 : part.numel() / (extent * inner);
      kept.reserve(static_cast<size_t>(outer * inner) * indices->size());
      for (int64_t o = 0; o < outer; ++o)
        for (const int64_t index : *indices) {
          const auto from = part.data.begin() + (o * extent + index) * inner;
          kept.insert(kept.end(), from, from + inner);
        }
      part.data = std::move(kept);
      part.shape[axis] = static_cast<int64_t>(indices->size());
    }
    inner *= part.shape[axis];
  }
  return part;
}

std::optional<RefCall> part_of(const OpDef& op, const RefCall& call, const Chosen& chosen) {
  RefCall part;
  part.dims = call.dims;
  part.config = call.config;
  part.attrs = call.attrs;
  for (const auto& [dim, indices] : chosen) part.dims[dim] = static_cast<int64_t>(indices.size());
  if (!check_conditions(op, part).ok()) return std::nullopt;
  for (const ArgDef& arg : op.args)
    if (call.has(arg.name)) part.tensors[arg.name] = part_of(arg, call, call[arg.name], chosen);
  return part;
}

std::vector<std::string> independent_dims(const OpDef& op, const RefCall& call, uint64_t seed) {
  std::vector<std::string> out;
  RefCall whole = reduced_call(op, call, kTrialFlops, [](const RefCall&) { return true; });
  if (!op.reference_fn || !make_inputs(op, whole, seed).ok()) return out;
  const RefCall inputs = whole;
  op.reference_fn(whole);
  for (const auto& [dim, extent] : whole.dims) {
    if (extent < 2 || !is_an_axis(op, whole, dim)) continue;
    Chosen odd;
    for (int64_t index = 1; index < extent; index += 2) odd[dim].push_back(index);
    const auto part = part_of(op, inputs, odd);
    if (part && same_results(op, whole, *part, odd)) out.push_back(dim);
  }
  return out;
}

Chosen choose_indices(const ArgDef& output, const RefCall& call,
                      const std::vector<std::string>& dims, const std::vector<int64_t>& wanted,
                      int64_t limit) {
  std::map<std::string, std::set<int64_t>, std::less<>> sets;
  const auto add = [&](const std::string& dim, int64_t index) {
    auto& set = sets[dim];
    if (static_cast<int64_t>(set.size()) < limit) set.insert(index);
  };
  const auto is_wanted = [&](const std::string& dim) {
    return std::find(dims.begin(), dims.end(), dim) != dims.end();
  };
  for (int64_t position : wanted)
    for (size_t axis = output.shape.size(); axis-- > 0;) {
      const Expr extent = call.config.resolve(output.shape[axis]);
      const int64_t size = std::max<int64_t>(evaluate(extent, call.dims).value_or(1), 1);
      if (extent.kind() == ExprKind::kSym && is_wanted(extent.name()))
        add(extent.name(), position % size);
      position /= size;
    }
  Chosen chosen;
  for (const std::string& dim : dims) {
    const int64_t extent = call.dim(dim), steps = std::min(extent, limit);
    for (int64_t i = 0; i < steps; ++i) add(dim, steps > 1 ? i * (extent - 1) / (steps - 1) : 0);
    chosen[dim].assign(sets[dim].begin(), sets[dim].end());
  }
  return chosen;
}

}  // namespace rooftile::check
