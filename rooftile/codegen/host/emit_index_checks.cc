// SPDX-License-Identifier: Apache-2.0
// Clauses of the contract: conditions over dims and attributes, and index tensors, whose values
// become addresses.
#include <fmt/format.h>

#include "rooftile/codegen/host/emit_checks.h"
#include "rooftile/codegen/host/emit_expr.h"

namespace rooftile::host {
namespace {

std::string_view c_type(DType dtype) {
  switch (dtype) {
    case DType::kI64:
      return "rth::i64";
    case DType::kU32:
      return "rth::u32";
    case DType::kI8:
      return "signed char";
    case DType::kU8:
    case DType::kBool:
      return "unsigned char";
    default:
      return "rth::i32";
  }
}

// Which kind of fault a broken condition is: an attribute's, a declared size limit's, or the
// shapes'.
ErrorCode condition_code(const ir::Program& program, const Expr& condition) {
  bool only_attrs = true;
  for (const std::string& symbol : symbols_of(condition))
    only_attrs = only_attrs && program.scalar(symbol) != nullptr;
  if (has_index_load(condition)) return ErrorCode::kIndexRange;
  if (only_attrs) return ErrorCode::kAttrRange;
  const bool is_limit = condition.kind() == ExprKind::kLe &&
                        condition.args()[0].kind() == ExprKind::kSym &&
                        condition.args()[1].is_const();
  return is_limit ? ErrorCode::kSizeLimit : ErrorCode::kExtent;
}

// The first tensor with an extent in the condition is the one to name.
std::string blamed_argument(const ir::Program& program, const Expr& condition) {
  for (const std::string& symbol : symbols_of(condition)) {
    if (program.scalar(symbol)) return symbol;
    for (const ir::TensorParam& tensor : program.tensors)
      for (const Expr& extent : tensor.shape)
        if (extent.kind() == ExprKind::kSym && extent.name() == symbol) return tensor.name;
  }
  return "";
}

// Row r of a rank-2 or higher index tensor is walked by `for` loops over all axes but the last.
struct RowLoops {
  std::string open, close, pointer, inner_extent, inner_stride;
  std::vector<std::string> indices;
};

RowLoops row_loops(const ir::TensorParam& tensor) {
  const std::string id = identifier(tensor.name);
  const size_t rank = tensor.shape.size();
  RowLoops loops;
  loops.pointer = fmt::format("(const {}*)p_{}", c_type(tensor.dtype), id);
  for (size_t i = 0; i + 1 < rank; ++i) {
    loops.open += fmt::format("  for (rth::i64 i{0} = 0; i{0} < n_{1}_{0}; ++i{0})\n", i, id);
    loops.pointer += fmt::format(" + i{0} * s_{1}_{0}", i, id);
    loops.indices.push_back(fmt::format("i{}", i));
  }
  loops.open += "  {\n";
  loops.close = "  }\n";
  loops.inner_extent = rank == 0 ? "1" : fmt::format("n_{}_{}", id, rank - 1);
  loops.inner_stride = rank == 0 ? "1" : fmt::format("s_{}_{}", id, rank - 1);
  return loops;
}

// "page_table[{i2}, {i3}] = {i4}": the element, and the values that fill it in.
std::string element_pattern(const ir::TensorParam& tensor, const RowLoops& loops,
                            std::vector<std::string>& values) {
  std::string out = tensor.name + "[";
  auto append = [&](const std::string& value) {
    out += fmt::format("{{i{}}}", values.size());
    values.push_back(value);
  };
  for (const std::string& index : loops.indices) {
    append(index);
    out += ", ";
  }
  if (!tensor.shape.empty()) append("at");
  out += "] = ";
  append("row[at * stride]");
  return out;
}

}  // namespace

std::string ContractEmitter::element_reader(const ir::TensorParam& tensor) {
  const std::string id = identifier(tensor.name);
  std::string params, guard, offset = "0";
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    params += fmt::format("rth::i64 i{}, ", i);
    guard += fmt::format("{}(rth::u64)i{} >= (rth::u64)n_{}_{}", i ? " || " : "", i, id, i);
    offset += fmt::format(" + i{0} * s_{1}_{0}", i, id);
  }
  std::string out =
      fmt::format("  const auto at_{} = [&]({}bool& out_of_bounds) -> rth::i64 {{\n", id, params);
  if (!guard.empty())
    out += fmt::format("    if ({}) {{ out_of_bounds = true; return 0; }}\n", guard);
  return out + fmt::format("    return ((const {}*)p_{})[{}];\n  }};\n", c_type(tensor.dtype), id,
                           offset);
}

std::string ContractEmitter::conditions() {
  std::string out = "\n  // Conditions of the contract.\n";
  auto reads_tensor = [this](const ir::TensorParam& tensor) {
    for (const ir::Clause& clause : program_.clauses)
      for (const Expr& part :
           {clause.condition, clause.lo, clause.hi, clause.used_unit, clause.except})
        if (part.str().find(tensor.name + "[") != std::string::npos) return true;
    return false;
  };
  for (const ir::TensorParam* tensor : tensors_)
    if (!is_float(tensor->dtype) && reads_tensor(*tensor)) out += element_reader(*tensor);

  for (const HostCheck& check : checks_) {
    if (check.kind != HostCheck::kAttrRange) continue;
    const ir::ScalarParam& scalar = *check.scalar;
    std::vector<std::string> values = {symbol_variable(scalar.name), "least", "most"};
    std::string when = value_pattern({scalar.min, scalar.max}, values);
    out += fmt::format("  {{\n    bad = false;\n    const rth::i64 least = {}, most = {};\n",
                       emit_expr(scalar.min), emit_expr(scalar.max));
    out += require(
        fmt::format("bad || {0} < least || {0} > most", values[0]),
        {ErrorCode::kAttrRange, scalar.name, "`" + scalar.name + "` is out of range", "{i0}",
         fmt::format("{{i1}} <= {} <= {{i2}}", scalar.name), when, "pass a value in the range"},
        values, 4);
    out += "  }\n";
  }
  for (const HostCheck& check : checks_) {
    if (check.kind != HostCheck::kCondition) continue;
    const ir::Clause& clause = *check.clause;
    std::vector<std::string> values;
    std::string when = value_pattern({clause.condition}, values);
    out += fmt::format("  bad = false;\n  {{\n    const bool holds = {} != 0;\n",
                       emit_expr(clause.condition));
    out += require(
        "bad || !holds",
        {condition_code(program_, clause.condition), blamed_argument(program_, clause.condition),
         clause.why.empty() ? "a condition of the contract does not hold" : clause.why, when,
         clause.condition.str(), "", "pass arguments for which the condition holds"},
        values, 4);
    out += "  }\n";
  }
  return out;
}

std::string ContractEmitter::index_range(const ir::Clause& clause, const ir::TensorParam& tensor) {
  RowLoops loops = row_loops(tensor);
  std::vector<std::string> values = {"least", "limit"};
  std::string found = element_pattern(tensor, loops, values);
  std::string expected = fmt::format("{{i0}} <= {}[...] < {{i1}}, that is {} <= ... < {}",
                                     tensor.name, clause.lo.str(), clause.hi.str());
  if (clause.has_except) expected += ", or " + clause.except.str();
  Site site{ErrorCode::kIndexRange,
            tensor.name,
            fmt::format("`{}` holds an index out of range", tensor.name),
            found,
            expected,
            clause.why,
            fmt::format("correct the values of `{}`", tensor.name)};
  std::string out = fmt::format("  bad = false;\n  {{\n  const rth::i64 least = {}, limit = {};\n",
                                emit_expr(clause.lo), emit_expr(clause.hi));
  out += clause.has_except ? fmt::format("  const rth::InRangeOr admits{{least, limit, {}}};\n",
                                         emit_expr(clause.except))
                           : "  const rth::InRange admits{least, limit};\n";
  out += loops.open;
  std::string extent = loops.inner_extent;
  if (!clause.used.empty()) {
    // A negative count is refused by the clause on `used` itself.
    const std::string id = identifier(clause.used);
    out +=
        fmt::format("    const rth::i64 used = ((const {0}*)p_{1})[i0 * s_{1}_0], unit = {2};\n",
                    c_type(program_.tensor(clause.used)->dtype), id, emit_expr(clause.used_unit));
    out += "    const rth::i64 in_use = used > 0 && unit > 0 ? (used - 1) / unit + 1 : 0;\n";
    extent = fmt::format("in_use < {0} ? in_use : {0}", loops.inner_extent);
  }
  out += fmt::format("    const {}* row = {};\n    const rth::i64 extent = {}, stride = {};\n",
                     c_type(tensor.dtype), loops.pointer, extent, loops.inner_stride);
  out += "    if (__builtin_expect(bad || !rth::all_admitted(row, extent, stride, admits), 0)) {\n";
  out += "      const rth::i64 at = bad ? 0 : rth::first_refused(row, extent, stride, admits);\n";
  out += "      if (extent != 0) return " + sites_.raise(site, values) + ";\n    }\n";
  return out + loops.close + "  }\n";
}

std::string ContractEmitter::non_decreasing(const ir::Clause& clause,
                                            const ir::TensorParam& tensor) {
  RowLoops loops = row_loops(tensor);
  std::vector<std::string> values = {"row[(at - 1) * stride]"};
  std::string found = element_pattern(tensor, loops, values);
  Site site{ErrorCode::kIndexOrder,
            tensor.name,
            fmt::format("`{}` decreases", tensor.name),
            found + " after {i0}",
            "each value at least the one before",
            clause.why,
            fmt::format("correct the values of `{}`", tensor.name)};
  std::string out = "  {\n" + loops.open;
  out += fmt::format("    const {}* row = {};\n    const rth::i64 extent = {}, stride = {};\n",
                     c_type(tensor.dtype), loops.pointer, loops.inner_extent, loops.inner_stride);
  out += "    const rth::i64 at = rth::first_decrease(row, extent, stride);\n";
  out += require("at < extent", site, values, 4);
  return out + loops.close + "  }\n";
}

std::string ContractEmitter::distinct(const ir::Clause& clause, const ir::TensorParam& tensor) {
  RowLoops loops = row_loops(tensor);
  std::vector<std::string> values;
  std::string found = element_pattern(tensor, loops, values);
  std::string expected = "each value once";
  if (clause.has_except) expected += ", but for " + clause.except.str();
  Site site{ErrorCode::kIndexOrder,
            tensor.name,
            fmt::format("`{}` holds a value twice", tensor.name),
            found + ", as an element before it",
            expected,
            clause.why,
            fmt::format("correct the values of `{}`", tensor.name)};
  std::string out =
      fmt::format("  bad = false;\n  {{\n  const rth::i64 except = {};\n",
                  clause.has_except ? emit_expr(clause.except) : "-__INT64_MAX__ - 1");
  out += loops.open;
  out += fmt::format("    const {}* row = {};\n    const rth::i64 extent = {}, stride = {};\n",
                     c_type(tensor.dtype), loops.pointer, loops.inner_extent, loops.inner_stride);
  out += "    const rth::i64 at = rth::first_repeat(row, extent, stride, except);\n";
  out += require("bad || at < extent", site, values, 4);
  return out + loops.close + "  }\n";
}

// The first or last element of every row equals a value.
std::string ContractEmitter::end_value(const ir::Clause& clause, const ir::TensorParam& tensor) {
  const bool first = clause.kind == ir::Clause::kFirstIs;
  RowLoops loops = row_loops(tensor);
  std::vector<std::string> values = {"wanted"};
  std::string found = element_pattern(tensor, loops, values);
  Site wrong{ErrorCode::kIndexOrder,
             tensor.name,
             fmt::format("`{}` {} with the wrong value", tensor.name, first ? "starts" : "ends"),
             found,
             clause.lo.str() + " = {i0}",
             clause.why,
             fmt::format("correct the values of `{}`", tensor.name)};
  Site empty{
      ErrorCode::kIndexOrder,
      tensor.name,
      fmt::format("`{}` is empty", tensor.name),
      "no element",
      fmt::format("at least one, {} = {}", first ? "the first" : "the last", clause.lo.str()),
      clause.why,
      fmt::format("pass `{}` with its {} value", tensor.name, first ? "first" : "last")};
  std::string out =
      fmt::format("  bad = false;\n  {{\n  const rth::i64 wanted = {};\n", emit_expr(clause.lo));
  out += loops.open;
  out += fmt::format("    const {}* row = {};\n    const rth::i64 extent = {}, stride = {};\n",
                     c_type(tensor.dtype), loops.pointer, loops.inner_extent, loops.inner_stride);
  out += require("extent == 0", empty, {}, 4);
  out += fmt::format("    const rth::i64 at = {};\n", first ? "0" : "extent - 1");
  out += require("bad || row[at * stride] != wanted", wrong, values, 4);
  return out + loops.close + "  }\n";
}

std::string ContractEmitter::index_tensors() {
  std::string out;
  for (const HostCheck& check : checks_) {
    if (check.kind != HostCheck::kIndex) continue;
    const ir::Clause& clause = *check.clause;
    const ir::TensorParam* tensor = check.tensor;
    out += fmt::format("\n  // {}: {}\n", clause.tensor, clause.why);
    if (clause.kind == ir::Clause::kIndexRange) out += index_range(clause, *tensor);
    if (clause.kind == ir::Clause::kNonDecreasing) out += non_decreasing(clause, *tensor);
    if (clause.kind == ir::Clause::kFirstIs || clause.kind == ir::Clause::kLastIs)
      out += end_value(clause, *tensor);
    if (clause.kind == ir::Clause::kDistinct) out += distinct(clause, *tensor);
  }
  return out;
}

}  // namespace rooftile::host
