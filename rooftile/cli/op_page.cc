// SPDX-License-Identifier: Apache-2.0
#include "rooftile/cli/op_page.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "rooftile/check/case_inputs.h"
#include "rooftile/cli/output.h"
#include "rooftile/compile/op_signature.h"

namespace rooftile::cli {
namespace {

using nlohmann::ordered_json;

std::string join(const std::vector<std::string>& words, const char* separator) {
  return fmt::format("{}", fmt::join(words, separator));
}

std::string shape_text(const ArgDef& arg) {
  std::vector<std::string> extents;
  for (const Expr& extent : arg.shape) extents.push_back(extent.str());
  return "[" + join(extents, ", ") + "]";
}

std::string dtype_text(const ArgDef& arg) {
  if (!arg.same_dtype_as.empty()) return "as " + arg.same_dtype_as;
  std::vector<std::string> names;
  for (DType dtype : arg.dtypes) names.emplace_back(name(dtype));
  return join(names, " ");
}

std::string clause_text(const ir::Clause& clause) {
  switch (clause.kind) {
    case ir::Clause::kCondition:
      return clause.condition.str();
    case ir::Clause::kIndexRange:
      return clause.lo.str() + " <= " + clause.tensor + "[...] < " + clause.hi.str() +
             (clause.used.empty() ? "" : " in the entries in use") +
             (clause.has_except ? ", or " + clause.except.str() : "");
    case ir::Clause::kNonDecreasing:
      return clause.tensor + " is non-decreasing";
    case ir::Clause::kFirstIs:
      return clause.tensor + "[0] == " + clause.lo.str();
    case ir::Clause::kLastIs:
      return "the last of " + clause.tensor + " == " + clause.lo.str();
    case ir::Clause::kDistinct:
      return "no value stands twice in " + clause.tensor +
             (clause.has_except ? ", but for " + clause.except.str() : "");
  }
  return "";
}

// Every message by which a combination of dtypes and flags is refused: tried out, since refusals
// are code.
std::vector<std::string> refusals(const OpDef& op) {
  std::vector<std::string> found;
  auto note = [&](const Config& config, const std::string& when) {
    for (const auto& rule : op.refusals)
      if (const Status status = rule(config); !status.ok()) {
        std::string text = status.diag().message;
        if (!status.diag().expected.empty()) text += "; expected " + status.diag().expected;
        text += " (" + when + ")";
        found.push_back(text);
      }
  };
  Config defaults;
  for (const ArgDef& arg : op.args) {
    if (!arg.dtypes.empty()) defaults.dtypes[arg.name] = arg.dtypes.front();
    if (arg.optional) defaults.present[arg.name] = false;
  }
  for (const ArgDef& arg : op.args)
    if (auto leader = defaults.dtypes.find(arg.same_dtype_as); leader != defaults.dtypes.end())
      defaults.dtypes[arg.name] = leader->second;
  for (const FlagDef& flag : op.flags) defaults.flags[flag.name] = flag.default_value;
  for (const ArgDef& arg : op.args)
    for (DType dtype : arg.dtypes) {
      Config config = defaults;
      config.dtypes[arg.name] = dtype;
      if (arg.optional) config.present[arg.name] = true;
      note(config, arg.name + " " + std::string(name(dtype)));
    }
  for (const FlagDef& flag : op.flags)
    for (size_t value = 0; value < flag.values.size(); ++value) {
      Config config = defaults;
      config.flags[flag.name] = static_cast<int64_t>(value);
      note(config, flag.name + "=" + flag.values[value]);
    }
  return found;
}

std::string tolerance_text(const OpDef& op) {
  // The bound depends on the sizes: shown for the first case that is not empty.
  for (const Case& test_case : op.case_list) {
    auto call = check::resolve_case(op, test_case);
    if (!call || !op.cost_fn || op.cost_fn(*call).flops == 0 || op.cost_fn(*call).flops > 1e7)
      continue;
    if (!check::make_inputs(op, *call, 1).ok()) continue;
    op.reference_fn(*call);
    const Tolerance t = op.tolerance_fn ? op.tolerance_fn(*call) : Tolerance{};
    return fmt::format("abs {:.3g}, rel {:.3g}, norm {:.3g} for {}\n  {}", t.abs, t.rel, t.norm,
                       test_case.text, t.why);
  }
  return "exact";
}

void add_section(std::string& page, const std::string& title, const std::string& body) {
  if (body.empty()) return;
  page += "\n\n" + title + "\n  ";
  for (char c : body) {
    page += c;
    if (c == '\n') page += "  ";
  }
}

std::string arguments_table(const OpDef& op) {
  Table table({"name", "role", "shape", "dtype", "", "meaning"});
  for (const ArgDef& arg : op.args) {
    std::string notes = arg.optional ? "optional" : "";
    if (!arg.may_alias.empty())
      notes += (notes.empty() ? "may be " : ", may be ") + join(arg.may_alias, " or ");
    table.row({arg.name, std::string(ir::role_name(arg.role)), shape_text(arg), dtype_text(arg),
               notes, arg.doc});
  }
  return table.str();
}

std::string settings_table(const OpDef& op) {
  if (op.attrs.empty() && op.flags.empty()) return "";
  Table table({"name", "kind", "default", "values", "meaning"});
  for (const AttrDef& attr : op.attrs)
    table.row({attr.name, attr.is_float ? "float" : "integer",
               fmt::format("{:g}", attr.default_value), range_text(attr), attr.doc});
  for (const FlagDef& flag : op.flags)
    table.row({flag.name, "compile time", flag.values[static_cast<size_t>(flag.default_value)],
               join(flag.values, " "), flag.doc});
  return table.str();
}

}  // namespace

std::string kernel_words(const KernelDef& kernel) {
  return kernel.is_raw() ? kernel.name + " (raw, unproved)" : kernel.name;
}

std::string op_page(const OpDef& op) {
  std::string page = op.name + ": " + op.summary;
  add_section(page, "Arguments, in call order", arguments_table(op));
  add_section(page, "Attributes and flags", settings_table(op));
  std::vector<std::string> clauses, kernels;
  for (const ir::Clause& clause : op.clauses)
    clauses.push_back(clause_text(clause) + "  (" + clause.why + ")");
  add_section(page, "Contract", join(clauses, "\n"));
  add_section(page, "Refused", join(refusals(op), "\n"));
  add_section(page, "Tolerance against the float64 reference", tolerance_text(op));
  for (const KernelDef& kernel : op.kernels) kernels.push_back(kernel_words(kernel));
  add_section(page, "Kernels", join(kernels, ", "));
  add_section(page, "Replaces", join(op.replaced_ops, " + "));
  add_section(page, "Source", op.maths_source);
  return page;
}

std::string op_page_json(const OpDef& op) {
  ordered_json clauses = ordered_json::array(), kernels = ordered_json::array();
  for (const ir::Clause& clause : op.clauses)
    clauses.push_back({{"clause", clause_text(clause)}, {"why", clause.why}});
  for (const KernelDef& kernel : op.kernels)
    kernels.push_back({{"name", kernel.name}, {"route", route_name(kernel.route())}});
  ordered_json page = op_signature(op);
  page.update({{"clauses", clauses},
               {"refused", refusals(op)},
               {"tolerance", tolerance_text(op)},
               {"kernels", kernels},
               {"replaces", op.replaced_ops},
               {"source", op.maths_source}});
  return page.dump();
}

}  // namespace rooftile::cli
