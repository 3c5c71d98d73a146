// SPDX-License-Identifier: Apache-2.0
#include "rooftile/bench/case_listing.h"

#include <nlohmann/json.hpp>

#include "rooftile/check/case_inputs.h"

namespace rooftile::bench {
namespace {

using nlohmann::ordered_json;

struct Tensors {
  ordered_json json = ordered_json::object();
  double written_bytes = 0;
};

// Those that the case has, in the order of the call.
Result<Tensors> tensors_of(const OpDef& op, const RefCall& call) {
  Tensors out;
  for (const ArgDef& arg : op.args) {
    if (!call.config.has(arg.name)) continue;
    auto shape = check::shape_of(op, arg, call);
    if (!shape) return shape.status();
    const DType dtype = call.config.dtype(arg.name);
    ordered_json tensor = {
        {"shape", *shape}, {"dtype", name(dtype)}, {"role", ir::role_name(arg.role)}};
    if (const auto range = check::index_range(op, arg.name, call))
      tensor["range"] = {range->lo, range->hi};
    out.json[arg.name] = tensor;
    if (arg.role != ir::Role::kOut) continue;
    double bytes = size_bytes(dtype);
    for (int64_t extent : *shape) bytes *= static_cast<double>(extent);
    out.written_bytes += bytes;
  }
  return out;
}

ordered_json attributes_of(const OpDef& op, const RefCall& call) {
  ordered_json out = ordered_json::object();
  for (const AttrDef& attr : op.attrs) {
    const double value = call.attr(attr.name);
    out[attr.name] =
        attr.is_float ? ordered_json(value) : ordered_json(static_cast<int64_t>(value));
  }
  return out;
}

// Flags as bools, choices by name.
ordered_json flags_of(const OpDef& op, const RefCall& call) {
  ordered_json out = ordered_json::object();
  for (const FlagDef& flag : op.flags) {
    const int64_t value = call.config.flag(flag.name);
    if (flag.values == std::vector<std::string>{"0", "1"})
      out[flag.name] = value != 0;
    else
      out[flag.name] = flag.values[static_cast<size_t>(value)];
  }
  return out;
}

}  // namespace

Result<std::string> case_listing(const OpDef& op, const Case& test_case, const std::string& device,
                                 const std::optional<Ceilings>& ceilings) {
  const TargetInfo& target = device == "cuda" ? sm90_target() : host_target();
  const Case there = check::for_target(op, test_case, target);
  auto call = check::resolve_case(op, there);
  if (!call) return call.status();
  auto tensors = tensors_of(op, *call);
  if (!tensors) return tensors.status();
  const DType dtype = check::main_dtype(op, call->config);
  const Cost cost = op.cost_fn ? op.cost_fn(*call) : Cost{};
  ordered_json shape = ordered_json::object();
  for (const auto& [dim, extent] : call->dims) shape[dim] = extent;
  ordered_json line = {{"op", op.name},
                       {"dtype", name(dtype)},
                       {"case", there.text},
                       {"shape", shape},
                       {"tensors", tensors->json},
                       {"attrs", attributes_of(op, *call)},
                       {"flags", flags_of(op, *call)},
                       {"flops", cost.flops},
                       {"bytes", cost.bytes},
                       {"target", target.name}};
  if (ceilings) {
    line["roof_us"] = ceilings->roof_us(cost, dtype, tensors->written_bytes);
    line["bound"] = ceilings->bound(cost, dtype, tensors->written_bytes);
  }
  return line.dump();
}

}  // namespace rooftile::bench
