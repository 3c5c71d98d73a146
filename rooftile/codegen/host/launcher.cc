// SPDX-License-Identifier: Apache-2.0
#include "rooftile/codegen/host/launcher.h"

#include <fmt/format.h>

#include <algorithm>

#include "rooftile/codegen/host/emit_checks.h"
#include "rooftile/codegen/host/emit_expr.h"
#include "rooftile/codegen/host/prelude.h"

namespace rooftile {
namespace host {
namespace {

std::string kernel_declarations(const std::string& name) {
  return fmt::format(
      "extern \"C\" void {0}_run(void* const* t, const rth::i64* n, const float* f, char* "
      "workspace);\n"
      "extern \"C\" rth::i64 {0}_workspace(const rth::i64* n);\n",
      name);
}

// The arrays of compile/arg_layout.h, filled from the launcher's variables.
std::string argument_arrays(const ir::Program& program, const ArgLayout& layout,
                            bool workspace_strides = false) {
  std::string tensors, ints, floats;
  auto append = [](std::string& list, const std::string& item) {
    list += (list.empty() ? "" : ", ") + item;
  };
  for (const std::string& tensor : layout.tensors) append(tensors, "p_" + identifier(tensor));
  for (size_t i = 0; i < layout.num_dims + layout.num_int_attrs; ++i)
    append(ints, symbol_variable(layout.ints[i]));
  for (const std::string& tensor : layout.tensors)
    for (size_t axis = 0; axis < program.tensor(tensor)->shape.size(); ++axis)
      append(ints, fmt::format("s_{}_{}", identifier(tensor), axis));
  // GPU kernels take strides of workspaces, too; they are compact, outermost first.
  for (const ir::TensorParam& tensor : program.tensors) {
    if (!workspace_strides || tensor.role != ir::Role::kWorkspace) continue;
    for (size_t axis = 0; axis < tensor.shape.size(); ++axis) {
      Expr stride = 1;
      for (size_t inner = axis + 1; inner < tensor.shape.size(); ++inner)
        stride = stride * tensor.shape[inner];
      append(ints, emit_expr(stride));
    }
  }
  for (const std::string& attr : layout.floats) append(floats, "a_" + identifier(attr));
  // A trailing zero keeps the arrays from being empty.
  append(tensors, "nullptr");
  append(ints, "0");
  append(floats, "0.0f");
  return fmt::format(
      "  void* const t[] = {{{}}};\n  const rth::i64 n[] = {{{}}};\n  const float f[] = {{{}}};\n",
      tensors, ints, floats);
}

std::string run(const std::string& name, ErrorSites& sites) {
  const Site no_memory{ErrorCode::kOutOfMemory,
                       "",
                       "no memory for the workspace",
                       "{i0} bytes wanted",
                       "",
                       "",
                       "free memory, or make the problem smaller"};
  return fmt::format(
      "  const rth::i64 bytes = {0}_workspace(n);\n"
      "  if (bytes <= 0) {{\n    {0}_run(t, n, f, nullptr);\n    return 0;\n  }}\n"
      "  rth::Block* block = nullptr;\n"
      "  char* const workspace = rth::take_workspace(handle, bytes, block);\n"
      "  if (!workspace) return {1};\n"
      "  {0}_run(t, n, f, workspace);\n"
      "  rth::return_workspace(block);\n"
      "  return 0;\n",
      name, sites.raise(no_memory, {"bytes"}));
}

std::string skip_empty(const ContractEmitter& checks) {
  std::string any;
  for (const ir::TensorParam* tensor : checks.tensors())
    if (is_output(*tensor))
      any += (any.empty() ? "(" : " || (") + ContractEmitter::non_empty(*tensor) + ")";
  if (any.empty()) return "";
  return fmt::format("\n  if (!({})) return 0;  // nothing to write\n\n", any);
}

Diag unbound_tensor(const ir::Program& program, const std::string& tensor) {
  Diag diag;
  diag.code = ErrorCode::kIrStructure;
  diag.subject = program.name;
  diag.message = "a clause walks a tensor that is not an integer argument";
  diag.argument = tensor;
  diag.expected = "an argument of dtype i32 or i64";
  return diag;
}

// ---- GPU: choosing a variant, handing the call to the runtime
// ------------------------------------

std::string variant_condition(const ir::Program& program, const GpuLaunchVariant& variant) {
  std::string out;
  auto also = [&out](const std::string& condition) {
    out += (out.empty() ? "" : " &&\n      ") + condition;
  };
  for (const Expr& condition : variant.conditions) also(emit_expr(condition) + " != 0");
  for (const AttrRange& range : variant.ranges)
    also(fmt::format("a_{0} >= {1:.9g} && a_{0} <= {2:.9g}", identifier(range.attr), range.least,
                     range.most));
  for (const std::string& name : variant.aligned) {
    const ir::TensorParam& tensor = *program.tensor(name);
    if (tensor.role == ir::Role::kWorkspace) continue;  // the runtime's, aligned
    also(fmt::format("rth::aligned(p_{}, {})", identifier(name), variant.align_bytes));
    for (size_t axis = 0; axis + 1 < tensor.shape.size(); ++axis)
      also(fmt::format("rth::steps_aligned(n_{0}_{1}, s_{0}_{1}, {2}, {3})", identifier(name), axis,
                       size_bytes(tensor.dtype), variant.align_bytes));
  }
  return out.empty() ? "true" : out;
}

std::string workspace_sizes(const ir::Program& program) {
  std::string sizes;
  for (const ir::TensorParam& tensor : program.tensors) {
    if (tensor.role != ir::Role::kWorkspace) continue;
    Expr bytes = size_bytes(tensor.dtype);
    for (const Expr& extent : tensor.shape) bytes = bytes * extent;
    sizes += emit_expr(bytes) + ", ";
  }
  return "  const rth::i64 workspaces[] = {" + sizes + "0};\n";
}

std::string launch_on_gpu(const ir::Program& program, const std::vector<GpuLaunchVariant>& variants,
                          const ContractEmitter& checks, ErrorSites& sites) {
  const Site unbound{ErrorCode::kMachine,
                     "",
                     "the launcher is not bound to a device runtime",
                     "",
                     "",
                     "",
                     "load it through Rooftile, which binds it"};
  const Site no_device{ErrorCode::kMachine,
                       "",
                       "the tensors' device cannot be used",
                       "device {i0}",
                       "a GPU that Rooftile can use",
                       "",
                       "see `rooftile doctor`"};
  const Site no_variant{ErrorCode::kAlignment,
                        "",
                        "no kernel of this operator takes tensors laid out like this",
                        "data or strides that are multiples of less than 16 bytes",
                        "16-byte aligned tensors",
                        "",
                        "allocate the tensors aligned, or copy them"};
  const Site too_large{
      ErrorCode::kSizeLimit, "", "the problem needs more blocks than a grid has", "", "", "",
      "split the call"};
  const std::string device = "t_" + identifier(checks.tensors()[0]->name) + "->device_id";
  std::string shapes;
  for (const ir::TensorParam* tensor : checks.tensors())
    shapes += "t_" + identifier(tensor->name) + "->shape, ";
  std::string out = fmt::format(
      "\n  if (__builtin_expect(!rth::gpu.launch, 0)) return {};\n"
      "  const rth::i64 d_SMS = rth::gpu.multiprocessors(rth::gpu.kernel, {});\n"
      "  if (__builtin_expect(d_SMS == 0, 0)) return {};\n"
      "  const rth::i64* const shapes[] = {{{}nullptr}};\n",
      sites.raise(unbound), device, sites.raise(no_device, {device}), shapes);
  out += workspace_sizes(program);
  size_t phases = 1;
  for (const GpuLaunchVariant& variant : variants) phases = std::max(phases, variant.grids.size());
  out += fmt::format("  rth::u32 grids[{}];\n  rth::i32 variant;\n", 3 * phases);
  for (size_t v = 0; v < variants.size(); ++v) {
    out += fmt::format("  {}if ({}) {{\n    variant = {};\n", v == 0 ? "" : "} else ",
                       variant_condition(program, variants[v]), v);
    for (size_t phase = 0; phase < variants[v].grids.size(); ++phase)
      for (size_t axis = 0; axis < 3; ++axis)
        out += fmt::format("    grids[{}] = rth::grid_extent({}, bad);\n", 3 * phase + axis,
                           emit_expr(variants[v].grids[phase][axis]));
  }
  out += fmt::format("  }} else {{\n    return {};\n  }}\n", sites.raise(no_variant));
  out += fmt::format("  if (__builtin_expect(bad, 0)) return {};\n", sites.raise(too_large));
  out += fmt::format(
      "  const rth::GpuCall call = {{variant, {0}, rth::stream_of(handle, {0}), grids, t, shapes, "
      "n, f, workspaces}};\n"
      "  if (const rth::Error* error = rth::gpu.launch(rth::gpu.kernel, &call)) return "
      "rth::pass_on(handle, *error);\n"
      "  return 0;\n",
      device);
  return out;
}

}  // namespace
}  // namespace host

namespace {

using namespace host;

Status check_clauses(const ir::Program& program) {
  for (const ir::Clause& clause : program.clauses)
    if (const ir::TensorParam* tensor = program.tensor(clause.tensor))
      if (is_float(tensor->dtype) || tensor->role == ir::Role::kWorkspace)
        return unbound_tensor(program, clause.tensor);
  return {};
}

std::string entry(const std::string& name, const std::string& body) {
  return fmt::format(
      "extern \"C\" const char* __rooftile_last_error_{0}() {{ return rth::last_error; }}\n\n"
      "extern \"C\" int __tvm_ffi_{0}(void* handle, const rth::Any* args, rth::i32 num_args, "
      "rth::Any* result) {{\n"
      "  (void)result;  // None: outputs are the caller's\n{1}}}\n",
      name, body);
}

}  // namespace

Result<std::string> emit_launcher(const ir::Program& program, const std::string& name) {
  Result<ArgLayout> layout = arg_layout(program);
  if (!layout.ok()) return layout.diag();
  RT_RETURN_IF_ERROR(check_clauses(program));

  ErrorSites sites(name, program.name);
  ContractEmitter checks(program, *layout, sites);
  // Each stage defines variables that the next ones use: the order is part of the text.
  std::string body = "  bool bad = false;\n";
  body += checks.arguments();
  body += checks.scalars();
  body += checks.shapes();
  body += checks.layouts();
  body += checks.aliasing();
  body += checks.conditions();
  body += checks.index_tensors();
  body += skip_empty(checks);
  body += argument_arrays(program, *layout);
  body += run(name, sites);

  const bool distinct =
      std::any_of(program.clauses.begin(), program.clauses.end(),
                  [](const ir::Clause& clause) { return clause.kind == ir::Clause::kDistinct; });
  return launcher_prelude() + (distinct ? distinct_prelude() : "") + "\n" +
         kernel_declarations(name) + "\nnamespace {\n" + sites.definitions() +
         "}  // namespace\n\n" + entry(name, body);
}

Result<std::string> emit_gpu_launcher(const ir::Program& program, const std::string& name,
                                      const std::vector<GpuLaunchVariant>& variants) {
  Result<ArgLayout> layout = arg_layout(program);
  if (!layout.ok()) return layout.diag();
  RT_RETURN_IF_ERROR(check_clauses(program));

  ErrorSites sites(name, program.name);
  ContractEmitter checks(program, *layout, sites, true);
  std::string body = "  bool bad = false;\n";
  body += checks.arguments();
  body += checks.scalars();
  body += checks.shapes();
  body += checks.layouts();
  body += checks.aliasing();
  body += checks.conditions();
  body += skip_empty(checks);
  body += argument_arrays(program, *layout, true);
  body += launch_on_gpu(program, variants, checks, sites);

  return launcher_prelude() + gpu_prelude() + "\nnamespace {\n" + sites.definitions() +
         "}  // namespace\n\n" +
         fmt::format(
             "extern \"C\" void __rooftile_bind_{}(const rth::GpuLauncher* launcher) {{ "
             "rth::gpu = *launcher; }}\n\n",
             name) +
         entry(name, body);
}

}  // namespace rooftile
