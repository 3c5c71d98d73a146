// SPDX-License-Identifier: Apache-2.0
#include "rooftile/check/case_inputs.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <random>
#include <set>
#include <sstream>

#include "rooftile/check/host_tensor.h"

namespace rooftile::check {
namespace {

Diag usage(const OpDef& op, std::string message, std::string found, std::string expected) {
  Diag diag;
  diag.code = ErrorCode::kUsage;
  diag.subject = op.name;
  diag.message = std::move(message);
  diag.found = std::move(found);
  diag.expected = std::move(expected);
  return diag;
}

template <class T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ", ") + word;
  return out;
}

const AttrDef* find_attr(const OpDef& op, std::string_view name) {
  for (const AttrDef& attr : op.attrs)
    if (attr.name == name) return &attr;
  return nullptr;
}

const FlagDef* find_flag(const OpDef& op, std::string_view name) {
  for (const FlagDef& flag : op.flags)
    if (flag.name == name) return &flag;
  return nullptr;
}

// Symbols that a case must bind: those of the shapes of all tensors that are present, and of the
// conditions.
std::set<std::string> needed_symbols(const OpDef& op, const Config& config) {
  std::set<std::string> needed;
  for (const ArgDef& arg : op.args)
    if (config.has(arg.name))
      for (const Expr& extent : arg.shape) collect_symbols(config.resolve(extent), needed);
  for (const AttrDef& attr : op.attrs) needed.erase(attr.name);
  return needed;
}

// Every symbol that has a meaning for the operator, present tensors or not.
std::set<std::string> known_symbols(const OpDef& op) {
  std::set<std::string> known;
  for (const ArgDef& arg : op.args)
    for (const Expr& extent : arg.shape) collect_symbols(extent, known);
  for (const ir::Clause& clause : op.clauses) {
    collect_symbols(clause.condition, known);
    collect_symbols(clause.lo, known);
    collect_symbols(clause.hi, known);
  }
  return known;
}

// Applies one NAME=VALUE word; the dtypes of tensors are settled afterwards.
Status apply_word(const OpDef& op, const std::set<std::string>& symbols, const std::string& key,
                  const std::string& value, RefCall& call) {
  if (key == "dtype") {
    const auto dtype = dtype_from_name(value);
    const bool admitted =
        dtype && std::any_of(op.args.begin(), op.args.end(), [&](const ArgDef& arg) {
          return std::count(arg.dtypes.begin(), arg.dtypes.end(), *dtype) > 0;
        });
    if (!admitted)
      return usage(op, "no tensor takes this dtype", "dtype=" + value,
                   "see `rooftile ops " + op.name + "`");
    return {};
  }
  if (const ArgDef* arg = op.arg(key)) {
    if (const auto dtype = dtype_from_name(value)) {
      call.config.dtypes[key] = *dtype;
      if (arg->optional) call.config.present[key] = true;
      return {};
    }
    if (arg->optional && (value == "0" || value == "1")) {
      call.config.present[key] = value == "1";
      return {};
    }
    return usage(op, "not a dtype for a tensor", key + "=" + value,
                 arg->optional ? "a dtype, 0 or 1" : "a dtype");
  }
  if (const FlagDef* flag = find_flag(op, key)) {
    const auto at = std::find(flag->values.begin(), flag->values.end(), value);
    const auto position = parse_number<int64_t>(value);
    if (at != flag->values.end())
      call.config.flags[key] = at - flag->values.begin();
    else if (position && *position >= 0 && *position < static_cast<int64_t>(flag->values.size()))
      call.config.flags[key] = *position;
    else
      return usage(op, "not a value of this flag", key + "=" + value, joined(flag->values));
    return {};
  }
  const AttrDef* attr = find_attr(op, key);
  if (attr != nullptr && attr->is_float) {
    const auto number = parse_number<double>(value);
    if (!number) return usage(op, "not a number", key + "=" + value, "a number");
    call.attrs[key] = *number;
    return {};
  }
  if (attr == nullptr && symbols.count(key) == 0) {
    std::vector<std::string> known(symbols.begin(), symbols.end());
    for (const FlagDef& f : op.flags) known.push_back(f.name);
    for (const AttrDef& a : op.attrs) known.push_back(a.name);
    for (const ArgDef& a : op.args) known.push_back(a.name);
    known.push_back("dtype");
    return usage(op, "the case names something the operator does not have", key, joined(known));
  }
  const auto number = parse_number<int64_t>(value);
  if (!number || (attr == nullptr && *number < 0))
    return usage(op, "not a size", key + "=" + value, "a whole number, 0 or more");
  if (attr != nullptr)
    call.attrs[key] = static_cast<double>(*number);
  else
    call.dims[key] = *number;
  return {};
}

void settle_dtypes(const OpDef& op, const Case& test_case, Config& config) {
  std::optional<DType> common;
  if (auto at = test_case.values.find("dtype"); at != test_case.values.end())
    common = dtype_from_name(at->second);
  for (const ArgDef& arg : op.args) {
    if (config.dtypes.count(arg.name) > 0 || arg.dtypes.empty()) continue;
    const bool admits = common && std::count(arg.dtypes.begin(), arg.dtypes.end(), *common) > 0;
    config.dtypes[arg.name] = admits ? *common : arg.dtypes.front();
  }
  // A tensor that follows another may itself be followed.
  for (size_t pass = 0; pass < op.args.size(); ++pass)
    for (const ArgDef& arg : op.args)
      if (!arg.same_dtype_as.empty() && test_case.values.count(arg.name) == 0)
        if (auto leader = config.dtypes.find(arg.same_dtype_as); leader != config.dtypes.end())
          config.dtypes[arg.name] = leader->second;
  // "bias=1" names a tensor without choosing its dtype.
  for (const ArgDef& arg : op.args)
    if (!arg.same_dtype_as.empty() && config.dtypes.count(arg.name) == 0)
      config.dtypes[arg.name] = config.dtype(arg.same_dtype_as);
}

// Sizes, flags and integer attributes: what expressions may read.
Env environment(const OpDef& op, const RefCall& call) {
  Env env = call.dims;
  for (const auto& [flag, value] : call.config.flags) env[flag] = value;
  for (const AttrDef& attr : op.attrs)
    if (!attr.is_float)
      if (auto at = call.attrs.find(attr.name); at != call.attrs.end())
        env[attr.name] = static_cast<int64_t>(at->second);
  return env;
}

// 64 random bits from a counter (splitmix64): the same values whatever the number of threads.
uint64_t mix(uint64_t counter) {
  uint64_t z = counter * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// Close to a standard normal: the sum of four 16-bit uniforms has variance 4/12.
double near_normal(uint64_t bits) {
  double sum = 0;
  for (int part = 0; part < 4; ++part)
    sum += static_cast<double>(bits >> (16 * part) & 0xffff) / 65536.0;
  return (sum - 2.0) * std::sqrt(3.0);
}

// The values that an index tensor may take, from the contract's clauses.
struct IndexRule {
  int64_t lo = 0, hi = 1;
  bool ranged = false, sorted = false, distinct = false;
  bool partly = false;  // the range holds of entries in use alone
  std::optional<int64_t> first, last;
  std::optional<int64_t> marker;  // admitted although outside the range, or more than once
};

IndexRule index_rule(const OpDef& op, const std::string& tensor, const Env& env) {
  IndexRule rule;
  for (const ir::Clause& clause : op.clauses) {
    if (clause.tensor != tensor) continue;
    switch (clause.kind) {
      case ir::Clause::kIndexRange:
        rule.ranged = true;
        rule.partly = !clause.used.empty();
        rule.lo = evaluate(clause.lo, env).value_or(0);
        rule.hi = evaluate(clause.hi, env).value_or(1);
        if (clause.has_except) rule.marker = evaluate(clause.except, env);
        break;
      case ir::Clause::kNonDecreasing:
        rule.sorted = true;
        break;
      case ir::Clause::kFirstIs:
        rule.first = evaluate(clause.lo, env);
        break;
      case ir::Clause::kLastIs:
        rule.last = evaluate(clause.lo, env);
        break;
      case ir::Clause::kDistinct:
        rule.distinct = true;
        if (clause.has_except) rule.marker = evaluate(clause.except, env);
        break;
      case ir::Clause::kCondition:
        break;
    }
  }
  return rule;
}

void fill_indices(const IndexRule& rule, uint64_t seed, NdArray& out) {
  int64_t lo = rule.lo, hi = rule.hi;
  if (!rule.ranged && rule.last) lo = rule.first.value_or(0), hi = *rule.last + 1;
  const auto span = static_cast<uint64_t>(std::max<int64_t>(hi - lo, 1));
  for (size_t i = 0; i < out.data.size(); ++i)
    out.data[i] = static_cast<double>(lo + static_cast<int64_t>(mix(seed + i) % span));
  if (rule.marker)
    for (size_t i = 0; i < out.data.size(); ++i)
      if (mix(~seed + i) % 8 == 0) out.data[i] = static_cast<double>(*rule.marker);
  if (rule.sorted) std::sort(out.data.begin(), out.data.end());
  if (rule.distinct) {
    std::set<double> seen;
    for (double& index : out.data)
      if (!seen.insert(index).second) index = static_cast<double>(rule.marker.value_or(lo));
  }
  if (rule.first && !out.data.empty()) out.data.front() = static_cast<double>(*rule.first);
  if (rule.last && !out.data.empty()) out.data.back() = static_cast<double>(*rule.last);
}

void fill_random(DType dtype, const IndexRule& rule, uint64_t seed, NdArray& out) {
  const int64_t count = out.numel();
  if (is_float(dtype)) {
#pragma omp parallel for schedule(static) if (count > (1 << 20))
    for (int64_t i = 0; i < count; ++i)
      out.data[static_cast<size_t>(i)] = near_normal(mix(seed + static_cast<uint64_t>(i)));
  } else if (!rule.ranged && (dtype == DType::kI8 || dtype == DType::kU8)) {
    const int64_t lo = dtype == DType::kI8 ? -127 : 0;  // symmetric quantisation never gives -128
    for (size_t i = 0; i < out.data.size(); ++i)
      out.data[i] = static_cast<double>(lo + static_cast<int64_t>(mix(seed + i) % 255));
  } else {
    fill_indices(rule, seed, out);
  }
}

}  // namespace

Result<Case> parse_case(std::string_view text) {
  Case out;
  out.text = std::string(text);
  size_t at = 0;
  while (at < text.size()) {
    const size_t begin = text.find_first_not_of(" \t,", at);
    if (begin == std::string_view::npos) break;
    const size_t end = std::min(text.find_first_of(" \t,", begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    const size_t equals = word.find('=');
    if (equals == std::string_view::npos || equals == 0 || equals + 1 == word.size()) {
      Diag diag;
      diag.code = ErrorCode::kUsage;
      diag.message = "a word of a case is not NAME=VALUE";
      diag.found = std::string(word);
      diag.fix = "write the sizes, dtypes and flags as in \"T=8 H=4096 dtype=bf16\"";
      return diag;
    }
    out.values[std::string(word.substr(0, equals))] = std::string(word.substr(equals + 1));
    at = end;
  }
  return out;
}

Case for_target(const OpDef& op, const Case& test_case, const TargetInfo& target) {
  if (!target.gpu) return test_case;
  Case out;
  out.tags = test_case.tags;
  std::istringstream words(test_case.text);
  for (std::string word; words >> word;) {
    const std::string key = word.substr(0, word.find('='));
    const FlagDef* flag = find_flag(op, key);
    if (flag != nullptr && flag->cpu_only) continue;
    out.text += (out.text.empty() ? "" : " ") + word;
    out.values[key] = test_case.values.find(key)->second;
  }
  return out;
}

Result<RefCall> resolve_case(const OpDef& op, const Case& test_case) {
  RefCall call;
  for (const AttrDef& attr : op.attrs) call.attrs[attr.name] = attr.default_value;
  for (const FlagDef& flag : op.flags) call.config.flags[flag.name] = flag.default_value;
  for (const ArgDef& arg : op.args)
    if (arg.optional) call.config.present[arg.name] = false;

  const std::set<std::string> symbols = known_symbols(op);
  for (const auto& [key, value] : test_case.values)
    RT_RETURN_IF_ERROR(apply_word(op, symbols, key, value, call));
  settle_dtypes(op, test_case, call.config);

  std::vector<std::string> missing;
  for (const std::string& symbol : needed_symbols(op, call.config))
    if (call.dims.count(symbol) == 0) missing.push_back(symbol);
  if (!missing.empty()) {
    Diag diag = usage(op, "the case leaves sizes open", test_case.text, joined(missing));
    diag.fix = "add " + missing.front() + "=...";
    return diag;
  }
  RT_RETURN_IF_ERROR(op.check_config(call.config));
  RT_RETURN_IF_ERROR(check_conditions(op, call));
  return call;
}

Status check_conditions(const OpDef& op, const RefCall& call) {
  const Env env = environment(op, call);
  for (const ir::Clause& clause : op.clauses) {
    if (clause.kind != ir::Clause::kCondition) continue;
    // A condition on an absent tensor's sizes cannot be evaluated, and does not apply.
    const auto holds = evaluate(clause.condition, env);
    if (holds && *holds == 0)
      return usage(op, "the sizes are outside the contract: " + clause.why, "",
                   clause.condition.str());
  }
  return {};
}

Result<std::vector<int64_t>> shape_of(const OpDef& op, const ArgDef& arg, const RefCall& call) {
  const Env env = environment(op, call);
  std::vector<int64_t> shape;
  for (const Expr& extent : arg.shape) {
    const auto value = evaluate(extent, env);
    if (!value || *value < 0)
      return usage(op, "an extent of `" + arg.name + "` has no value", extent.str(),
                   "a size, 0 or more");
    shape.push_back(*value);
  }
  return shape;
}

std::optional<IndexRange> index_range(const OpDef& op, const std::string& tensor,
                                      const RefCall& call) {
  const IndexRule rule = index_rule(op, tensor, environment(op, call));
  if (!rule.ranged) return std::nullopt;
  return IndexRange{rule.lo, rule.hi};
}

Status make_inputs(const OpDef& op, RefCall& call, uint64_t seed) {
  const Env env = environment(op, call);
  for (size_t index = 0; index < op.args.size(); ++index) {
    const ArgDef& arg = op.args[index];
    if (!call.config.has(arg.name)) continue;
    auto shape = shape_of(op, arg, call);
    if (!shape) return shape.status();
    NdArray values;
    values.shape = *shape;
    int64_t count = 1;
    for (int64_t extent : *shape) count *= extent;
    values.data.assign(static_cast<size_t>(count), 0.0);
    if (arg.role != ir::Role::kOut) {
      const IndexRule rule = index_rule(op, arg.name, env);
      if (rule.ranged && !rule.partly && !rule.marker && rule.lo >= rule.hi && count > 0)
        return usage(op, "no value of `" + arg.name + "` meets the contract at these sizes",
                     std::to_string(rule.lo) + " <= element < " + std::to_string(rule.hi),
                     "sizes that leave one");
      fill_random(call.config.dtype(arg.name), rule, mix(seed + index), values);
    }
    call.tensors[arg.name] = std::move(values);
  }
  if (op.inputs_fn) op.inputs_fn(call, seed);
  for (const ArgDef& arg : op.args)
    if (arg.role != ir::Role::kOut && call.config.has(arg.name))
      quantize(call.tensors.find(arg.name)->second, call.config.dtype(arg.name));
  return {};
}

DType main_dtype(const OpDef& op, const Config& config) {
  for (const ArgDef& arg : op.args) {
    if (arg.role == ir::Role::kOut || !config.has(arg.name)) continue;
    const DType dtype = config.dtype(arg.name);
    if (is_float(dtype) || dtype == DType::kI8 || dtype == DType::kU8) return dtype;
  }
  return config.dtype(op.args.front().name);
}

uint64_t fresh_seed() {
  std::random_device device;
  // 31 bits: short enough to type back in.
  return device() & 0x7fffffffu;
}

}  // namespace rooftile::check
