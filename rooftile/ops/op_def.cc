// SPDX-License-Identifier: Apache-2.0
// OpDef: recording what an operator's author declares, and the lookups of a call's values. How a
// declaration and a config become a tile program is in op_build.cc.
#include "rooftile/ops/op_def.h"

#include <algorithm>
#include <limits>
#include <sstream>

namespace rooftile {

// ---- values of a call
// --------------------------------------------------------------------------------------

DType Config::dtype(std::string_view tensor) const {
  auto it = dtypes.find(tensor);
  return it == dtypes.end() ? DType::kF32 : it->second;
}

int64_t Config::flag(std::string_view flag_name) const {
  auto it = flags.find(flag_name);
  return it == flags.end() ? 0 : it->second;
}

bool Config::has(std::string_view tensor) const {
  auto it = present.find(tensor);
  return it == present.end() || it->second;
}

std::string Config::str() const {
  std::string out;
  auto add = [&out](const std::string& key, const std::string& value) {
    out += (out.empty() ? "" : ",") + key + "=" + value;
  };
  for (const auto& [tensor, dtype] : dtypes)
    if (has(tensor)) add(tensor, std::string(rooftile::name(dtype)));
  for (const auto& [flag_name, value] : flags) add(flag_name, std::to_string(value));
  for (const auto& [tensor, given] : present) add(tensor, given ? "given" : "absent");
  return out;
}

NdArray& RefCall::operator[](std::string_view tensor) { return tensors[std::string(tensor)]; }

const NdArray& RefCall::operator[](std::string_view tensor) const {
  static const NdArray none;
  auto it = tensors.find(tensor);
  return it == tensors.end() ? none : it->second;
}

// NaN for an attribute that nobody set, so that a result computed from it cannot pass.
double RefCall::attr(std::string_view attr_name) const {
  if (auto it = attrs.find(attr_name); it != attrs.end()) return it->second;
  if (auto it = dims.find(attr_name); it != dims.end()) return static_cast<double>(it->second);
  return std::numeric_limits<double>::quiet_NaN();
}

int64_t RefCall::dim(std::string_view dim_name) const {
  if (auto it = dims.find(dim_name); it != dims.end()) return it->second;
  if (auto it = attrs.find(dim_name); it != attrs.end()) return static_cast<int64_t>(it->second);
  return 0;
}

bool Case::tagged(std::string_view tag) const {
  return std::find(tags.begin(), tags.end(), tag) != tags.end();
}

// ---- declarations
// ------------------------------------------------------------------------------------------

OpDef::OpDef(std::string op_family, std::string op_name, std::string op_summary)
    : family(std::move(op_family)), name(std::move(op_name)), summary(std::move(op_summary)) {}

namespace {

void add_arg(std::vector<ArgDef>& args, ArgDef arg, ir::Role role) {
  arg.role = role;
  args.push_back(std::move(arg));
}

ir::Clause index_clause(ir::Clause::Kind kind, std::string tensor, Expr lo, Expr hi,
                        std::string why) {
  ir::Clause clause;
  clause.kind = kind;
  clause.tensor = std::move(tensor);
  clause.lo = std::move(lo);
  clause.hi = std::move(hi);
  clause.why = std::move(why);
  return clause;
}

}  // namespace

OpDef& OpDef::in(ArgDef arg) {
  add_arg(args, std::move(arg), ir::Role::kIn);
  return *this;
}
OpDef& OpDef::out(ArgDef arg) {
  add_arg(args, std::move(arg), ir::Role::kOut);
  return *this;
}
OpDef& OpDef::inout(ArgDef arg) {
  add_arg(args, std::move(arg), ir::Role::kInOut);
  return *this;
}
OpDef& OpDef::attr(AttrDef attr) {
  attr.is_float = true;
  attrs.push_back(std::move(attr));
  return *this;
}
OpDef& OpDef::int_attr(AttrDef attr) {
  attr.is_float = false;
  attrs.push_back(std::move(attr));
  return *this;
}
OpDef& OpDef::flag(std::string flag_name, bool default_value, std::string doc) {
  flags.push_back({std::move(flag_name), {"0", "1"}, default_value ? 1 : 0, std::move(doc)});
  return *this;
}
OpDef& OpDef::cpu_flag(std::string flag_name, bool default_value, std::string doc) {
  flag(std::move(flag_name), default_value, std::move(doc));
  flags.back().cpu_only = true;
  return *this;
}
OpDef& OpDef::choice(std::string choice_name, std::vector<std::string> values, std::string doc) {
  flags.push_back({std::move(choice_name), std::move(values), 0, std::move(doc)});
  return *this;
}

OpDef& OpDef::needs(Expr condition, std::string why) {
  ir::Clause clause;
  clause.condition = std::move(condition);
  clause.why = std::move(why);
  clauses.push_back(std::move(clause));
  return *this;
}
OpDef& OpDef::index_range(std::string tensor, Expr lo, Expr hi, std::string why) {
  clauses.push_back(index_clause(ir::Clause::kIndexRange, std::move(tensor), std::move(lo),
                                 std::move(hi), std::move(why)));
  return *this;
}
OpDef& OpDef::index_range_or(std::string tensor, Expr lo, Expr hi, Expr except, std::string why) {
  index_range(std::move(tensor), std::move(lo), std::move(hi), std::move(why));
  clauses.back().has_except = true;
  clauses.back().except = std::move(except);
  return *this;
}
OpDef& OpDef::index_range_used(std::string tensor, Expr lo, Expr hi, std::string used, Expr unit,
                               std::string why) {
  index_range(std::move(tensor), std::move(lo), std::move(hi), std::move(why));
  clauses.back().used = std::move(used);
  clauses.back().used_unit = std::move(unit);
  return *this;
}
OpDef& OpDef::non_decreasing(std::string tensor, std::string why) {
  clauses.push_back(
      index_clause(ir::Clause::kNonDecreasing, std::move(tensor), 0, 0, std::move(why)));
  return *this;
}
OpDef& OpDef::first_is(std::string tensor, Expr value, std::string why) {
  clauses.push_back(
      index_clause(ir::Clause::kFirstIs, std::move(tensor), std::move(value), 0, std::move(why)));
  return *this;
}
OpDef& OpDef::last_is(std::string tensor, Expr value, std::string why) {
  clauses.push_back(
      index_clause(ir::Clause::kLastIs, std::move(tensor), std::move(value), 0, std::move(why)));
  return *this;
}
OpDef& OpDef::distinct_but(std::string tensor, Expr except, std::string why) {
  clauses.push_back(index_clause(ir::Clause::kDistinct, std::move(tensor), 0, 0, std::move(why)));
  clauses.back().has_except = true;
  clauses.back().except = std::move(except);
  return *this;
}
OpDef& OpDef::limit(std::string dim, int64_t max_value) {
  std::string why = dim + " is at most " + std::to_string(max_value);
  return needs(Expr::sym(std::move(dim)) <= Expr(max_value), std::move(why));
}
OpDef& OpDef::refuse(std::function<Status(const Config&)> rule) {
  refusals.push_back(std::move(rule));
  return *this;
}

OpDef& OpDef::reference(std::function<void(RefCall&)> fn) {
  reference_fn = std::move(fn);
  return *this;
}
OpDef& OpDef::kernel(KernelDef kernel) {
  kernels.push_back(std::move(kernel));
  return *this;
}
OpDef& OpDef::cost(std::function<Cost(const RefCall&)> fn) {
  cost_fn = std::move(fn);
  return *this;
}
OpDef& OpDef::tolerance(std::function<Tolerance(const RefCall&)> fn) {
  tolerance_fn = std::move(fn);
  return *this;
}
OpDef& OpDef::inputs(std::function<void(RefCall&, uint64_t seed)> fn) {
  inputs_fn = std::move(fn);
  return *this;
}
OpDef& OpDef::rounds_inside(std::string why) {
  inner_rounding = std::move(why);
  return *this;
}

OpDef& OpDef::replaces(std::vector<std::string> ops, std::function<Status(RefCall&)> unfused) {
  replaced_ops = std::move(ops);
  unfused_fn = std::move(unfused);
  return *this;
}
OpDef& OpDef::source(std::string text) {
  maths_source = std::move(text);
  return *this;
}

// One case a line, `k=v k=v ... : tag,tag`; `#` starts a comment. A word without `=` becomes a key
// without a value, which whoever resolves the case refuses by name.
OpDef& OpDef::cases(std::string text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    line = line.substr(0, line.find('#'));
    const size_t colon = line.find(':');
    Case parsed;
    std::istringstream words(line.substr(0, colon));
    for (std::string word; words >> word;) {
      const size_t equals = word.find('=');
      parsed.values[word.substr(0, equals)] =
          equals == std::string::npos ? "" : word.substr(equals + 1);
      parsed.text += (parsed.text.empty() ? "" : " ") + word;
    }
    if (colon != std::string::npos) {
      std::string tags = line.substr(colon + 1);
      std::replace(tags.begin(), tags.end(), ',', ' ');
      std::istringstream tag_words(tags);
      for (std::string tag; tag_words >> tag;) parsed.tags.push_back(tag);
    }
    if (!parsed.text.empty() || !parsed.tags.empty()) case_list.push_back(std::move(parsed));
  }
  return *this;
}

const ArgDef* OpDef::arg(std::string_view arg_name) const {
  auto it =
      std::find_if(args.begin(), args.end(), [&](const ArgDef& a) { return a.name == arg_name; });
  return it == args.end() ? nullptr : &*it;
}

const OpDef* find_op(std::string_view name) {
  const std::vector<OpDef>& ops = all_ops();
  auto it = std::find_if(ops.begin(), ops.end(), [&](const OpDef& op) { return op.name == name; });
  return it == ops.end() ? nullptr : &*it;
}

}  // namespace rooftile
