// SPDX-License-Identifier: Apache-2.0
#include "rooftile/compile/ops_header.h"

#include <fmt/format.h>

#include <cctype>
#include <cmath>

namespace rooftile {
namespace {

// gelu_tanh -> GeluTanh
std::string camel(std::string_view snake) {
  std::string out;
  bool upper = true;
  for (char c : snake) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) {
      upper = true;
      continue;
    }
    out += upper ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    upper = false;
  }
  return out;
}

bool is_switch(const FlagDef& flag) { return flag.values == std::vector<std::string>{"0", "1"}; }

std::string one_line(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c == '\n') c = ' ';
  return out;
}

std::string comment(const std::string& text, int indent = 0) {
  return text.empty() ? "" : fmt::format("{:{}}// {}\n", "", indent, one_line(text));
}

std::string shape(const ArgDef& arg) {
  std::string out = "[";
  for (size_t i = 0; i < arg.shape.size(); ++i) out += (i ? ", " : "") + arg.shape[i].str();
  return out + "]";
}

std::string dtypes(const ArgDef& arg) {
  if (!arg.same_dtype_as.empty()) return "dtype of " + arg.same_dtype_as;
  std::string out;
  for (DType dtype : arg.dtypes) out += (out.empty() ? "" : "|") + std::string(name(dtype));
  return out;
}

std::string_view direction(ir::Role role) {
  return role == ir::Role::kOut ? "out" : role == ir::Role::kInOut ? "in, out" : "in";
}

std::string argument_line(const ArgDef& arg) {
  std::string line =
      fmt::format("{} ({}): {} {}", arg.name, direction(arg.role), dtypes(arg), shape(arg));
  if (arg.optional) line += ", optional";
  if (arg.align_bytes > 0) line += fmt::format(", aligned to {} bytes", arg.align_bytes);
  for (const std::string& other : arg.may_alias) line += ", may be " + other;
  if (!arg.doc.empty()) line += "; " + one_line(arg.doc);
  return line;
}

std::string number(double value, bool is_float) {
  if (!is_float) return fmt::format("{}", static_cast<int64_t>(value));
  if (std::isnan(value)) return "std::numeric_limits<double>::quiet_NaN()";
  if (std::isinf(value))
    return std::string(value < 0 ? "-" : "") + "std::numeric_limits<double>::infinity()";
  std::string text = fmt::format("{}", value);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

std::string range_text(const AttrDef& attr) {
  if (!attr.has_range) return "";
  return fmt::format("{}{}, {}]", attr.min_exclusive ? "(" : "[", attr.min, attr.max);
}

std::string options_struct(const OpDef& op) {
  std::string out = fmt::format("struct {}Options {{\n", camel(op.name));
  for (const FlagDef& flag : op.flags) {
    if (is_switch(flag)) continue;
    out += fmt::format("  enum class {} : int64_t {{ ", camel(flag.name));
    for (size_t i = 0; i < flag.values.size(); ++i)
      out += (i ? ", k" : "k") + camel(flag.values[i]);
    out += " };\n";
  }
  for (const ArgDef& arg : op.args)
    if (arg.optional)
      out += comment(argument_line(arg), 2) + fmt::format("  TensorView {} = {{}};\n", arg.name);
  for (const AttrDef& attr : op.attrs) {
    std::string text = one_line(attr.doc);
    if (attr.has_range) text += (text.empty() ? "in " : "; in ") + range_text(attr);
    out += comment(text, 2);
    out += fmt::format("  {} {} = {};\n", attr.is_float ? "double" : "int64_t", attr.name,
                       number(attr.default_value, attr.is_float));
  }
  for (const FlagDef& flag : op.flags) {
    out += comment(flag.doc, 2);
    if (is_switch(flag))
      out += fmt::format("  bool {} = {};\n", flag.name, flag.default_value != 0);
    else
      out += fmt::format("  {0} {1} = {0}::k{2};\n", camel(flag.name), flag.name,
                         camel(flag.values[static_cast<size_t>(flag.default_value)]));
  }
  return out + "  CallOptions call = {};\n};\n";
}

// "const Scalar attrs[] = {...};", or an empty span, since C++ has no empty arrays.
std::string list(std::string_view type, std::string_view variable, const std::string& items) {
  if (items.empty()) return fmt::format("  const std::span<const {}> {};\n", type, variable);
  return fmt::format("  const {} {}[] = {{{}}};\n", type, variable, items);
}

std::string function(const OpDef& op) {
  std::string params, tensors, attrs, flags;
  auto append = [](std::string& to, const std::string& item) {
    to += (to.empty() ? "" : ", ") + item;
  };
  for (const ArgDef& arg : op.args) {
    if (!arg.optional) append(params, "const TensorView& " + arg.name);
    append(tensors, (arg.optional ? "options." : "") + arg.name);
  }
  for (const AttrDef& attr : op.attrs) append(attrs, "options." + attr.name);
  for (const FlagDef& flag : op.flags)
    append(flags, "static_cast<int64_t>(options." + flag.name + ")");
  std::string out = comment(op.summary);
  for (const ArgDef& arg : op.args)
    if (!arg.optional) out += comment("  " + argument_line(arg));
  for (const ir::Clause& clause : op.clauses)
    if (!clause.why.empty()) out += comment("  needs: " + clause.why);
  if (!op.maths_source.empty()) out += comment("Source: " + op.maths_source);
  out += fmt::format("inline Status {}({}, const {}Options& options = {{}}) {{\n", op.name, params,
                     camel(op.name));
  out += fmt::format("  static const OpDef& op = built_in(\"{}\");\n", op.name);
  out += list("TensorView", "tensors", tensors) + list("Scalar", "attrs", attrs) +
         list("int64_t", "flags", flags);
  return out + "  return rooftile::call(op, OpArgs{tensors, attrs, flags}, options.call);\n}\n";
}

}  // namespace

std::string ops_header(const std::vector<OpDef>& ops) {
  std::string out = R"(// SPDX-License-Identifier: Apache-2.0
// One typed function an operator. Generated by tools/write_ops_header.cc from the operators' definitions.
//
// Every function returns a Status. A broken contract (RT-C001 to RT-C016), a missing compiler (RT-T001), no workspace
// memory (RT-R003): the status says what, nothing has been written. Tensors are views of the caller's memory; the
// functions are synchronous and safe to call from any number of threads.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "rooftile/api.h"

namespace rooftile::ops {

)";
  for (const OpDef& op : ops) out += options_struct(op) + function(op) + "\n";
  return out + "}  // namespace rooftile::ops\n";
}

}  // namespace rooftile
