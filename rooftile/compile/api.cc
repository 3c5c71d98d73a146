// SPDX-License-Identifier: Apache-2.0
// rooftile/api.h: names to positions.
#include "rooftile/compile/api.h"

#include <algorithm>
#include <vector>

#include "rooftile/ops/op_def.h"

namespace rooftile {
namespace {

Diag refused(const OpDef& op, ErrorCode code, std::string message, std::string_view argument,
             std::string found, std::string expected) {
  Diag diag;
  diag.code = code;
  diag.subject = op.name;
  diag.message = std::move(message);
  diag.argument = argument;
  diag.found = std::move(found);
  diag.expected = std::move(expected);
  return diag;
}

template <class List>
std::string names_of(const List& list) {
  std::string out;
  for (const auto& item : list) out += (out.empty() ? "" : ", ") + item.name;
  return out.empty() ? "none" : out;
}

template <class List>
size_t position(const List& list, std::string_view name) {
  auto it =
      std::find_if(list.begin(), list.end(), [&](const auto& item) { return item.name == name; });
  return static_cast<size_t>(it - list.begin());
}

}  // namespace

Scalar default_value(const AttrDef& attr) {
  return attr.is_float ? Scalar(attr.default_value)
                       : Scalar(static_cast<int64_t>(attr.default_value));
}

Result<Scalar> attribute_value(const OpDef& op, const AttrDef& attr, const NamedValue& value) {
  const bool is_number = value.kind == NamedValue::Kind::kFloat;
  if (value.kind == NamedValue::Kind::kText || (!attr.is_float && is_number))
    return refused(op, ErrorCode::kArgKind, "`" + attr.name + "` is of the wrong kind", attr.name,
                   is_number ? "a float" : "a text", attr.is_float ? "a number" : "an integer");
  if (!attr.is_float) return Scalar(value.integer);
  return Scalar(is_number ? value.number : static_cast<double>(value.integer));
}

Result<int64_t> flag_value(const OpDef& op, const FlagDef& flag, const NamedValue& value) {
  std::string values;
  for (const std::string& name : flag.values) values += (values.empty() ? "" : ", ") + name;
  if (value.kind == NamedValue::Kind::kText) {
    auto it = std::find(flag.values.begin(), flag.values.end(), value.text);
    if (it != flag.values.end()) return it - flag.values.begin();
    return refused(op, ErrorCode::kUnsupported, "`" + flag.name + "` has no such value", flag.name,
                   "\"" + std::string(value.text) + "\"", values);
  }
  if (value.kind == NamedValue::Kind::kFloat)
    return refused(op, ErrorCode::kArgKind, "`" + flag.name + "` is of the wrong kind", flag.name,
                   "a float", values);
  return value.integer;
}

namespace {

// The arguments of a call in the order of the declaration, with defaults filled in.
struct Positional {
  std::vector<TensorView> tensors;
  std::vector<Scalar> attrs;
  std::vector<int64_t> flags;
  OpArgs args() const { return {tensors, attrs, flags}; }
};

Status place_tensors(const OpDef& op, NamedTensors tensors, Positional& out) {
  out.tensors.resize(op.args.size());
  std::vector<bool> given(op.args.size());
  for (const auto& [name, view] : tensors) {
    const std::string quoted = "`" + std::string(name) + "`";
    const size_t at = position(op.args, name);
    if (at == op.args.size())
      return refused(op, ErrorCode::kUnsupported, "the operator has no tensor " + quoted, name,
                     std::string(name), names_of(op.args));
    if (given[at])
      return refused(op, ErrorCode::kArgCount, quoted + " is given twice", name, "two", "one");
    given[at] = true;
    out.tensors[at] = view;
  }
  return {};
}

Status place_values(const OpDef& op, NamedValues values, Positional& out) {
  for (const AttrDef& attr : op.attrs) out.attrs.push_back(default_value(attr));
  for (const FlagDef& flag : op.flags) out.flags.push_back(flag.default_value);
  for (const auto& [name, value] : values) {
    if (size_t at = position(op.attrs, name); at < op.attrs.size()) {
      Result<Scalar> scalar = attribute_value(op, op.attrs[at], value);
      if (!scalar.ok()) return scalar.diag();
      out.attrs[at] = *scalar;
    } else if (size_t flag_at = position(op.flags, name); flag_at < op.flags.size()) {
      Result<int64_t> flag = flag_value(op, op.flags[flag_at], value);
      if (!flag.ok()) return flag.diag();
      out.flags[flag_at] = *flag;
    } else {
      return refused(op, ErrorCode::kUnsupported,
                     "the operator has no attribute or flag `" + std::string(name) + "`", name,
                     std::string(name), names_of(op.attrs) + "; " + names_of(op.flags));
    }
  }
  return {};
}

Result<Positional> place(const OpDef& op, NamedTensors tensors, NamedValues values) {
  Positional out;
  RT_RETURN_IF_ERROR(place_tensors(op, tensors, out));
  RT_RETURN_IF_ERROR(place_values(op, values, out));
  return out;
}

}  // namespace

Status call(const OpDef& op, NamedTensors tensors, NamedValues values, const CallOptions& options) {
  Result<Positional> placed = place(op, tensors, values);
  if (!placed.ok()) return placed.diag();
  return call(op, placed->args(), options);
}

Result<std::shared_ptr<const CompiledKernel>> kernel_for(const OpDef& op, NamedTensors tensors,
                                                         NamedValues values,
                                                         const CallOptions& options) {
  Result<Positional> placed = place(op, tensors, values);
  if (!placed.ok()) return placed.diag();
  return kernel_for(op, placed->args(), options);
}

Status call(std::string_view name, NamedTensors tensors, NamedValues values,
            const CallOptions& options) {
  const OpDef* op = find_op(name);
  if (op != nullptr) return call(*op, tensors, values, options);
  Diag diag;
  diag.code = ErrorCode::kUsage;
  diag.subject = name;
  diag.message = "there is no such operator";
  diag.found = name;
  diag.expected = names_of(all_ops());
  return diag;
}

}  // namespace rooftile
