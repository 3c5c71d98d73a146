// SPDX-License-Identifier: Apache-2.0
#include "rooftile/codegen/host/launcher.h"

#include <fmt/format.h>

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
std::string argument_arrays(const ir::Program& program, const ArgLayout& layout) {
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

}  // namespace
}  // namespace host

Result<std::string> emit_launcher(const ir::Program& program, const std::string& name) {
  using namespace host;
  Result<ArgLayout> layout = arg_layout(program);
  if (!layout.ok()) return layout.diag();
  for (const ir::Clause& clause : program.clauses)
    if (const ir::TensorParam* tensor = program.tensor(clause.tensor))
      if (is_float(tensor->dtype) || tensor->role == ir::Role::kWorkspace)
        return unbound_tensor(program, clause.tensor);

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

  std::string out = launcher_prelude();
  out += "\n" + kernel_declarations(name) + "\nnamespace {\n" + sites.definitions() +
         "}  // namespace\n\n";
  out += fmt::format(
      "extern \"C\" const char* __rooftile_last_error_{}() {{ return rth::last_error; }}\n\n",
      name);
  out += fmt::format(
      "extern \"C\" int __tvm_ffi_{}(void* handle, const rth::Any* args, rth::i32 num_args, "
      "rth::Any* result) {{\n"
      "  (void)result;  // None: outputs are the caller's\n",
      name);
  return out + body + "}\n";
}

}  // namespace rooftile
