// SPDX-License-Identifier: Apache-2.0
#include "rooftile/compile/op_signature.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace rooftile {
namespace {

using nlohmann::ordered_json;

ordered_json arguments(const OpDef& op) {
  ordered_json args = ordered_json::array();
  for (const ArgDef& arg : op.args) {
    std::vector<std::string> shape, dtypes;
    for (const Expr& extent : arg.shape) shape.push_back(extent.str());
    for (DType dtype : arg.dtypes) dtypes.emplace_back(name(dtype));
    args.push_back({{"name", arg.name},
                    {"role", ir::role_name(arg.role)},
                    {"shape", shape},
                    {"dtypes", dtypes},
                    {"same_dtype_as", arg.same_dtype_as},
                    {"optional", arg.optional},
                    {"may_alias", arg.may_alias},
                    {"doc", arg.doc}});
  }
  return args;
}

ordered_json attributes(const OpDef& op) {
  ordered_json attrs = ordered_json::array();
  for (const AttrDef& attr : op.attrs) {
    ordered_json entry = {{"name", attr.name},
                          {"float", attr.is_float},
                          {"default", attr.default_value},
                          {"doc", attr.doc}};
    if (attr.has_range) entry["range"] = range_text(attr);
    attrs.push_back(entry);
  }
  return attrs;
}

ordered_json flags(const OpDef& op) {
  ordered_json out = ordered_json::array();
  for (const FlagDef& flag : op.flags)
    out.push_back({{"name", flag.name},
                   {"values", flag.values},
                   {"default", flag.default_value},
                   {"doc", flag.doc}});
  return out;
}

}  // namespace

std::string range_text(const AttrDef& attr) {
  if (!attr.has_range) return "";
  return fmt::format("{}{:g}, {:g}]", attr.min_exclusive ? "(" : "[", attr.min, attr.max);
}

ordered_json op_signature(const OpDef& op) {
  return {{"op", op.name},         {"family", op.family},     {"summary", op.summary},
          {"args", arguments(op)}, {"attrs", attributes(op)}, {"flags", flags(op)}};
}

}  // namespace rooftile
