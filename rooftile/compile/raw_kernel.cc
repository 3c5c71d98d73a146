// SPDX-License-Identifier: Apache-2.0
#include "rooftile/compile/raw_kernel.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "rooftile/codegen/cuda/hand_written.h"
#include "rooftile/compile/arg_layout.h"
#include "rooftile/compile/gpu_kernel.h"

namespace rooftile {
namespace {

constexpr std::string_view kPrelude = "prelude_sm90.cu";
constexpr int kWidestPromotion = 256;  // bytes fetched into L2 for a miss of a tensor map

Diag mistake(const OpDef& op, const KernelDef& kernel, std::string message, std::string found) {
  Diag diag;
  diag.code = ErrorCode::kInternal;
  diag.subject = op.name;
  diag.message = std::move(message);
  diag.argument = kernel.name;
  diag.found = std::move(found);
  return diag;
}

lanes::Swizzle swizzle_of(int bytes) {
  return bytes == 128  ? lanes::Swizzle::k128
         : bytes == 64 ? lanes::Swizzle::k64
         : bytes == 32 ? lanes::Swizzle::k32
                       : lanes::Swizzle::kNone;
}

// The contract with the raw kernel's workspaces behind those of the tile kernel.
ir::Program with_workspaces(ir::Program program, const RawKernel& raw) {
  for (const RawWorkspace& workspace : raw.workspaces) {
    ir::TensorParam param;
    param.name = workspace.name;
    param.dtype = workspace.dtype;
    param.shape = workspace.shape;
    param.role = ir::Role::kWorkspace;
    program.tensors.push_back(std::move(param));
  }
  return program;
}

// Of a stride, a dim or integer attribute, or a float attribute.
lanes::Ty scalar_type(const ArgLayout& layout, const std::string& name) {
  if (layout.int_index(name) < 0) return lanes::Ty::kF32;
  return name.find(".s") != std::string::npos ? lanes::Ty::kI64 : lanes::Ty::kI32;
}

// Everything that a launch needs, as a program of lanes without a body.
Result<lanes::Program> launch_of(const OpDef& op, const KernelDef& kernel, const RawKernel& raw,
                                 const ir::Program& program, const std::string& name) {
  Result<ArgLayout> layout = arg_layout(program);
  if (!layout.ok()) return layout.diag();
  lanes::Program launch;
  launch.name = name;
  for (const RawMap& map : raw.maps) {
    const ir::TensorParam* tensor = program.tensor(map.tensor);
    if (tensor == nullptr || tensor->shape.size() != map.box.size())
      return mistake(op, kernel, "a tensor map fits no argument", map.name);
    launch.maps.push_back({map.name,
                           map.tensor,
                           {map.box.rbegin(), map.box.rend()},
                           swizzle_of(map.swizzle_bytes),
                           kWidestPromotion});
  }
  for (const std::string& pointer : raw.tensors) {
    const ir::TensorParam* tensor = program.tensor(pointer);
    if (tensor == nullptr)
      return mistake(op, kernel, "a parameter is neither argument nor workspace", pointer);
    launch.tensors.push_back({.name = pointer,
                              .dtype = tensor->dtype,
                              .shape = tensor->shape,
                              .written = tensor->role != ir::Role::kIn,
                              .workspace = tensor->role == ir::Role::kWorkspace});
  }
  for (const std::string& scalar : raw.scalars) {
    const bool is_float = std::count(layout->floats.begin(), layout->floats.end(), scalar) > 0;
    if (!is_float && layout->int_index(scalar) < 0)
      return mistake(op, kernel, "a parameter has no value at a call", scalar);
    launch.scalars.push_back({scalar, scalar_type(*layout, scalar)});
  }
  launch.threads = raw.threads;
  launch.cluster = raw.cluster;
  launch.min_ctas_per_sm = raw.ctas_per_sm;
  launch.grid_x = raw.grid_x, launch.grid_y = raw.grid_y, launch.grid_z = raw.grid_z;
  launch.shared_bytes = raw.shared_bytes;
  launch.ptxas = raw.ptxas;
  return launch;
}

codegen::GpuNeeds needs_of(const RawKernel& raw, const Schedule& schedule) {
  codegen::GpuNeeds needs;
  needs.align_bytes = raw.align_bytes;
  needs.aligned = raw.aligned;
  for (const auto& [dim, value] : schedule.gpu.dims)
    needs.conditions.push_back(Expr::sym(dim) == Expr(value));
  needs.conditions.insert(needs.conditions.end(), raw.conditions.begin(), raw.conditions.end());
  for (const RawRange& range : raw.ranges)
    needs.ranges.push_back({range.attr, range.least, range.most});
  return needs;
}

std::string emit_text(const OpDef& op, const RawKernel& raw, const Config& config,
                      const Schedule& schedule, const lanes::Program& launch,
                      const std::string& text) {
  codegen::HandWritten from;
  from.text = text;
  from.products = raw.products;
  for (const ArgDef& arg : op.args)
    if (arg.optional) from.numbers["has_" + arg.name] = config.has(arg.name) ? 1 : 0;
  for (const FlagDef& flag : op.flags) from.numbers[flag.name] = config.flag(flag.name);
  for (const auto& [dim, value] : schedule.gpu.dims) from.numbers[dim] = value;
  for (const auto& [param, value] : schedule.tile) from.numbers[param] = value;
  return codegen::emit_hand_written(launch, from);
}

// Stage "scheduled": there are no roles or rings that we know of; how it is launched.
std::string description(const RawKernel& raw, const Schedule& schedule) {
  std::string out = fmt::format("// raw, unproved: {}, {}\n", raw.file, schedule.str());
  out +=
      fmt::format("grid ({}, {}, {}), cluster {}, {} threads, {} bytes shared\n", raw.grid_x.str(),
                  raw.grid_y.str(), raw.grid_z.str(), raw.cluster, raw.threads, raw.shared_bytes);
  for (const RawMap& map : raw.maps)
    out += fmt::format("map {} of {}: box ({}), swizzle {} bytes\n", map.name, map.tensor,
                       fmt::join(map.box, ", "), map.swizzle_bytes);
  for (const RawWorkspace& w : raw.workspaces) {
    std::string shape;
    for (const Expr& extent : w.shape) shape += (shape.empty() ? "" : ", ") + extent.str();
    out += fmt::format("workspace {} {} ({}){}\n", w.name, name(w.dtype), shape,
                       w.zeroed ? ", zero before and after" : "");
  }
  return out;
}

// The tile kernel's variants are tried behind the raw one.
void append_variants(const KernelSource& from, KernelSource& to) {
  const size_t first = to.variants.size();
  to.variants.insert(to.variants.end(), from.variants.begin(), from.variants.end());
  for (GpuText text : from.gpu_texts) {
    text.variant += first;
    to.gpu_texts.push_back(std::move(text));
  }
  to.scheduled +=
      "\n// for calls that the text does not take: " + from.name + "\n" + from.scheduled;
  to.kernel_text += "\n" + from.kernel_text;
  to.schedule.otherwise.push_back(from.schedule);
}

}  // namespace

Result<KernelSource> generate_raw(const OpDef& op, const KernelDef& kernel, const Config& config,
                                  const std::string& name, const Schedule& schedule,
                                  const TargetInfo& target, const KernelSource* otherwise) {
  const RawKernel raw = kernel.raw(config, schedule);
  const std::string text(raw_text(raw.file));
  if (text.empty()) return mistake(op, kernel, "there is no such text", raw.file);
  KernelSource source;
  if (otherwise != nullptr) {
    source.program = otherwise->program;
    source.zeroed = otherwise->zeroed;
  } else {
    Result<ir::Program> contract = op.interface(config);
    if (!contract.ok()) return contract.diag();
    source.program = std::move(*contract);
  }
  source.program = with_workspaces(std::move(source.program), raw);
  for (const RawWorkspace& workspace : raw.workspaces)
    if (workspace.zeroed) source.zeroed.push_back(workspace.name);
  source.name = name;
  source.route = Route::kRaw;
  source.schedule = schedule;
  source.target_key = target.key();
  source.scheduled = description(raw, schedule);

  Result<lanes::Program> launch = launch_of(op, kernel, raw, source.program, name + "_raw");
  if (!launch.ok()) return launch.diag();
  source.kernel_text =
      emit_text(op, raw, config, schedule, *launch, std::string(raw_text(kPrelude)) + "\n" + text);
  source.gpu_texts.push_back({0, 0, launch->name, source.kernel_text});
  source.variants.push_back({needs_of(raw, schedule), {std::move(*launch)}});
  if (otherwise != nullptr) append_variants(*otherwise, source);
  Result<std::string> launcher = gpu_launcher_text(source);
  if (!launcher.ok()) return launcher.diag();
  source.launcher_text = std::move(*launcher);
  return source;
}

}  // namespace rooftile
