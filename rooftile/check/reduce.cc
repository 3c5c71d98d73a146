// SPDX-License-Identifier: Apache-2.0
// Smaller versions of a call, for references that would take minutes at full size.
#include <set>

#include "rooftile/check/case_inputs.h"
#include "rooftile/check/ladder.h"

namespace rooftile::check {
namespace {

// The largest size that may still shrink; empty if none.
std::string largest_dim(const RefCall& call, const std::set<std::string>& fixed) {
  std::string largest;
  for (const auto& [dim, extent] : call.dims)
    if (extent > 1 && fixed.count(dim) == 0 && (largest.empty() || extent > call.dim(largest)))
      largest = dim;
  return largest;
}

bool valid(const OpDef& op, const RefCall& call) {
  if (!check_conditions(op, call).ok()) return false;
  for (const ArgDef& arg : op.args)
    if (call.config.has(arg.name) && !shape_of(op, arg, call)) return false;
  return true;
}

// Elements of all tensors: operators that only move data have no operations to count.
double elements_of(const OpDef& op, const RefCall& call) {
  double elements = 0;
  for (const ArgDef& arg : op.args) {
    if (!call.config.has(arg.name)) continue;
    const auto shape = shape_of(op, arg, call);
    if (!shape) continue;
    double count = 1;
    for (int64_t extent : *shape) count *= static_cast<double>(extent);
    elements += count;
  }
  return elements;
}

// One element in float64 costs about as much as this many operations of a scalar loop.
constexpr double kFlopsPerElement = 16;

bool is_quick(const OpDef& op, const RefCall& call, double max_flops) {
  return (!op.cost_fn || op.cost_fn(call).flops <= max_flops) &&
         elements_of(op, call) * kFlopsPerElement <= max_flops;
}

}  // namespace

RefCall reduced_call(const OpDef& op, const RefCall& call, double max_flops,
                     const std::function<bool(const RefCall&)>& admits) {
  RefCall reduced = call;
  std::set<std::string> fixed;
  while (!is_quick(op, reduced, max_flops)) {
    const std::string dim = largest_dim(reduced, fixed);
    if (dim.empty()) break;
    RefCall smaller = reduced;
    smaller.dims[dim] = reduced.dim(dim) / 2;
    if (valid(op, smaller) && admits(smaller))
      reduced = std::move(smaller);
    else
      fixed.insert(dim);
  }
  return reduced;
}

std::string dims_text(const RefCall& call) {
  std::string out;
  for (const auto& [dim, extent] : call.dims)
    out += (out.empty() ? "" : " ") + dim + "=" + std::to_string(extent);
  return out;
}

}  // namespace rooftile::check
