// SPDX-License-Identifier: Apache-2.0
// From a declaration and a config to a tile program: defaults, refusals, and the interface that the
// kernel's builder starts from. Tensors that the config leaves out are not in the program, nor are
// the clauses about them.
#include <algorithm>
#include <set>

#include "rooftile/ops/op_def.h"

namespace rooftile {
namespace {

// The dtype of an argument under a config that may leave it to the default or to another tensor.
DType settled_dtype(const OpDef& op, const ArgDef& arg, const Config& config, int depth = 0) {
  if (auto it = config.dtypes.find(arg.name); it != config.dtypes.end()) return it->second;
  const ArgDef* source = op.arg(arg.same_dtype_as);
  constexpr int kMaxChain = 8;  // x like y like z; a cycle is the author's mistake and ends here
  if (source != nullptr && depth < kMaxChain) return settled_dtype(op, *source, config, depth + 1);
  return arg.dtypes.empty() ? DType::kF32 : arg.dtypes.front();
}

std::string dtype_list(const std::vector<DType>& dtypes) {
  std::string out;
  for (DType dtype : dtypes) out += (out.empty() ? "" : ", ") + std::string(name(dtype));
  return out;
}

Diag refusal(const OpDef& op, ErrorCode code, std::string message, std::string argument,
             std::string found, std::string expected) {
  Diag diag;
  diag.code = code;
  diag.subject = op.name;
  diag.message = std::move(message);
  diag.argument = std::move(argument);
  diag.found = std::move(found);
  diag.expected = std::move(expected);
  return diag;
}

Status check_dtype(const OpDef& op, const ArgDef& arg, const Config& config) {
  const DType dtype = config.dtype(arg.name);
  if (!arg.same_dtype_as.empty() && config.has(arg.same_dtype_as)) {
    const DType other = config.dtype(arg.same_dtype_as);
    if (dtype != other)
      return refusal(op, ErrorCode::kDType,
                     "`" + arg.name + "` has another dtype than `" + arg.same_dtype_as + "`",
                     arg.name, std::string(name(dtype)), std::string(name(other)));
  }
  const bool admitted =
      arg.dtypes.empty() || std::count(arg.dtypes.begin(), arg.dtypes.end(), dtype) > 0;
  if (admitted) return {};
  return refusal(op, ErrorCode::kDType,
                 "`" + arg.name + "` has a dtype that the operator does not take", arg.name,
                 std::string(name(dtype)), dtype_list(arg.dtypes));
}

Status check_flag(const OpDef& op, const FlagDef& flag, const Config& config) {
  const int64_t value = config.flag(flag.name);
  const auto count = static_cast<int64_t>(flag.values.size());
  if (value >= 0 && value < count) return {};
  std::string values;
  for (const std::string& v : flag.values) values += (values.empty() ? "" : ", ") + v;
  return refusal(op, ErrorCode::kUnsupported, "`" + flag.name + "` has no such value", flag.name,
                 std::to_string(value), "0 to " + std::to_string(count - 1) + " (" + values + ")");
}

// Names in the config that the operator does not have: a misspelling, never to be ignored.
Status check_names(const OpDef& op, const Config& config) {
  auto unknown = [&](const std::string& what, const std::string& given) {
    return refusal(op, ErrorCode::kUnsupported, "the operator has no " + what + " `" + given + "`",
                   given, given, "a name that the operator declares");
  };
  for (const auto& [tensor, dtype] : config.dtypes)
    if (op.arg(tensor) == nullptr) return unknown("tensor", tensor);
  for (const auto& entry : config.flags)  // clang 14 cannot capture a structured binding
    if (std::none_of(op.flags.begin(), op.flags.end(),
                     [&](const FlagDef& f) { return f.name == entry.first; }))
      return unknown("flag", entry.first);
  for (const auto& [tensor, given] : config.present) {
    const ArgDef* arg = op.arg(tensor);
    if (arg == nullptr) return unknown("tensor", tensor);
    if (!arg->optional && !given)
      return refusal(op, ErrorCode::kUnsupported, "`" + tensor + "` is not optional", tensor,
                     "absent", "given");
  }
  return {};
}

ir::TensorParam tensor_param(const ArgDef& arg, const Config& config) {
  ir::TensorParam param;
  param.name = arg.name;
  param.dtype = config.dtype(arg.name);
  for (const Expr& extent : arg.shape) param.shape.push_back(config.resolve(extent));
  param.role = arg.role;
  param.align_bytes = arg.align_bytes != 0 ? arg.align_bytes : size_bytes(param.dtype);
  param.unit_inner_stride = arg.unit_inner_stride;
  for (const std::string& other : arg.may_alias)
    if (config.has(other)) param.may_alias.push_back(other);
  return param;
}

// Ranges are declared in double; the ends of int64 are not doubles.
int64_t saturated(double value) {
  if (value >= 0x1p63) return INT64_MAX;
  return value <= -0x1p63 ? INT64_MIN : static_cast<int64_t>(value);
}

ir::ScalarParam scalar_param(const AttrDef& attr) {
  ir::ScalarParam param;
  param.name = attr.name;
  param.is_float = attr.is_float;
  param.has_range = attr.has_range;
  param.min_exclusive = attr.min_exclusive;
  param.fmin = attr.min;
  param.fmax = attr.max;
  if (!attr.is_float && attr.has_range) {
    param.min = Expr(saturated(attr.min));
    param.max = Expr(saturated(attr.max));
  }
  return param;
}

// Symbols that only tensors left out of this config would bind.
std::set<std::string> absent_symbols(const OpDef& op, const Config& config) {
  std::set<std::string> absent;
  for (const ArgDef& arg : op.args)
    if (!config.has(arg.name))
      for (const Expr& extent : arg.shape) collect_symbols(config.resolve(extent), absent);
  for (const ArgDef& arg : op.args)
    if (config.has(arg.name))
      for (const Expr& extent : arg.shape)
        for (const std::string& symbol : symbols_of(config.resolve(extent))) absent.erase(symbol);
  for (const AttrDef& attr : op.attrs) absent.erase(attr.name);
  return absent;
}

// The clauses that say something under this config.
Status add_clauses(const OpDef& op, const Config& config, ir::Program& program) {
  const std::set<std::string> absent = absent_symbols(op, config);
  auto mentions_absent = [&](const Expr& e) {
    const std::set<std::string> symbols = symbols_of(e);
    return std::any_of(symbols.begin(), symbols.end(),
                       [&](const std::string& s) { return absent.count(s) > 0; });
  };
  for (ir::Clause clause : op.clauses) {
    if (!clause.tensor.empty() && !config.has(clause.tensor)) continue;
    for (Expr* e : {&clause.condition, &clause.lo, &clause.hi, &clause.used_unit, &clause.except})
      *e = config.resolve(*e);
    if (mentions_absent(clause.condition) || mentions_absent(clause.lo) ||
        mentions_absent(clause.hi))
      continue;
    if (clause.kind == ir::Clause::kCondition && clause.condition.is_const()) {
      if (clause.condition.value() != 0) continue;
      return refusal(op, ErrorCode::kUnsupported, clause.why, "", config.str(),
                     "a config for which it holds");
    }
    program.clauses.push_back(std::move(clause));
  }
  return {};
}

}  // namespace

Config OpDef::complete(Config config) const {
  for (const ArgDef& a : args) {
    if (a.optional) config.present.try_emplace(a.name, false);
    config.dtypes.try_emplace(a.name, settled_dtype(*this, a, config));
  }
  for (const FlagDef& f : flags) config.flags.try_emplace(f.name, f.default_value);
  return config;
}

Status OpDef::check_config(const Config& partial) const {
  RT_RETURN_IF_ERROR(check_names(*this, partial));
  const Config config = complete(partial);
  for (const ArgDef& a : args)
    if (config.has(a.name)) RT_RETURN_IF_ERROR(check_dtype(*this, a, config));
  for (const FlagDef& f : flags) RT_RETURN_IF_ERROR(check_flag(*this, f, config));
  for (const auto& refuses : refusals) {
    Status status = refuses(config);
    if (status.ok()) continue;
    Diag diag = status.diag();
    if (diag.subject.empty()) diag.subject = name;
    return diag;
  }
  return {};
}

Result<ir::Program> OpDef::interface(const Config& partial) const {
  RT_RETURN_IF_ERROR(check_config(partial));
  const Config config = complete(partial);
  ir::Program program;
  program.name = name;
  for (const ArgDef& a : args)
    if (config.has(a.name)) program.tensors.push_back(tensor_param(a, config));
  for (const AttrDef& a : attrs) program.scalars.push_back(scalar_param(a));
  RT_RETURN_IF_ERROR(add_clauses(*this, config, program));
  return program;
}

Result<ir::Program> OpDef::build(const KernelDef& kernel_def, const Config& partial) const {
  Result<ir::Program> program = interface(partial);
  if (!program.ok()) return program.diag();
  if (!kernel_def.build)
    return refusal(*this, ErrorCode::kUnsupported,
                   "the kernel `" + kernel_def.name + "` has no tile program", kernel_def.name,
                   "a hand-written text", "a kernel of the tile route");
  dsl::Kernel kernel(std::move(*program));
  kernel_def.build(kernel, complete(partial));
  return kernel.finish();
}

std::string_view route_name(Route route) {
  switch (route) {
    case Route::kAuto:
      return "auto";
    case Route::kTile:
      return "tile";
    case Route::kRaw:
      return "raw";
    case Route::kReference:
      return "reference";
  }
  return "";
}

std::vector<const KernelDef*> OpDef::candidates(const Config& config, const Env& dims,
                                                const TargetInfo& target, Route route) const {
  std::vector<const KernelDef*> raw, tile;
  for (const KernelDef& k : kernels) {
    if (!k.takes(config, dims, target)) continue;
    if (!k.is_raw())
      tile.push_back(&k);
    else if (route == Route::kRaw || (k.preferred && k.preferred(config, dims, target)))
      raw.push_back(&k);
  }
  if (route == Route::kRaw) return raw;
  if (route == Route::kAuto) tile.insert(tile.begin(), raw.begin(), raw.end());
  return tile;
}

}  // namespace rooftile
