// SPDX-License-Identifier: Apache-2.0
// The text form of a program; parser.cc reads it back. One statement a line, so that a difference
// of two programs is a difference of lines.
//
//   program rms_norm
//   tensor x : bf16[T, H] in align 2 unit
//   scalar eps : float range 0 exclusive to 1
//   needs H % 8 == 0 "vectors of 8"
//   %0 tiles row = T {
//     %1 = load x[row, 0:+H => 0] : bf16[H] "x" @ rooftile/ops/norm/rms_norm/rms_norm.cc:12
//     ...
//   }
//
// In a region, `begin:+extent step s => axis` is a range (step 1 is not written), `%7 => 0` an
// index tile and a bare expression a point.
#include <cmath>
#include <cstdio>
#include <string>

#include "rooftile/ir/types.h"

namespace rooftile::ir {
namespace {

std::string number_str(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[40];
  // 17 digits always read back to the same double; most constants need far fewer.
  for (int digits : {6, 9, 17}) {
    std::snprintf(buffer, sizeof buffer, "%.*g", digits, value);
    if (std::strtod(buffer, nullptr) == value) break;
  }
  return buffer;
}

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out + "\"";
}

std::string value_str(ValueId id) { return "%" + std::to_string(id); }

std::string values_str(const std::vector<ValueId>& ids) {
  std::string out;
  for (ValueId id : ids) out += (out.empty() ? "" : ", ") + value_str(id);
  return out;
}

class Printer {
 public:
  explicit Printer(const Program& program) : program_(program) {}

  std::string run() {
    line("program " + program_.name);
    for (const TensorParam& t : program_.tensors) tensor(t);
    for (const ScalarParam& s : program_.scalars) scalar(s);
    for (const Clause& c : program_.clauses) clause(c);
    for (const std::string& param : program_.tile_params) line("param " + param);
    block(program_.body);
    return std::move(out_);
  }

 private:
  void line(const std::string& text) {
    out_.append(2 * depth_, ' ');
    out_ += text;
    out_ += '\n';
  }

  static std::string location(const SourceLoc& loc) {
    return loc.file.empty() ? "" : " @ " + loc.str();
  }

  void tensor(const TensorParam& t) {
    std::string text = "tensor " + t.name + " : " + type_str(t.dtype, t.shape) + " " +
                       std::string(role_name(t.role));
    text += " align " + std::to_string(t.align_bytes);
    if (t.unit_inner_stride) text += " unit";
    if (t.allow_overlap) text += " overlap";
    for (const std::string& other : t.may_alias) text += " alias " + other;
    line(text + location(t.loc));
  }

  void scalar(const ScalarParam& s) {
    std::string text = "scalar " + s.name + " : " + (s.is_float ? "float" : "int");
    if (s.has_range) {
      text += " range " + (s.is_float ? number_str(s.fmin) : s.min.str());
      if (s.min_exclusive) text += " exclusive";
      text += " to " + (s.is_float ? number_str(s.fmax) : s.max.str());
    }
    line(text);
  }

  void clause(const Clause& c) {
    std::string text;
    switch (c.kind) {
      case Clause::kCondition:
        text = "needs " + c.condition.str();
        break;
      case Clause::kIndexRange:
        text = "index_range " + c.tensor + " " + c.lo.str() + " to " + c.hi.str();
        if (!c.used.empty()) text += " used " + c.used + " by " + c.used_unit.str();
        if (c.has_except) text += " except " + c.except.str();
        break;
      case Clause::kNonDecreasing:
        text = "non_decreasing " + c.tensor;
        break;
      case Clause::kFirstIs:
        text = "first_is " + c.tensor + " " + c.lo.str();
        break;
      case Clause::kLastIs:
        text = "last_is " + c.tensor + " " + c.lo.str();
        break;
      case Clause::kDistinct:
        text = "distinct " + c.tensor;
        if (c.has_except) text += " except " + c.except.str();
        break;
    }
    line(text + " " + in_quotes(c.why));
  }

  static std::string dim(const DimIndex& d) {
    if (d.kind == DimIndex::kPoint) return d.begin.str();
    const std::string axis = " => " + std::to_string(d.tile_axis);
    if (d.kind == DimIndex::kIndirect) return value_str(d.indirect) + axis;
    const std::string step = d.step == 1 ? "" : " step " + std::to_string(d.step);
    return d.begin.str() + ":+" + d.extent.str() + step + axis;
  }

  static std::string region(const Node& n) {
    std::string out = n.name + "[";
    for (size_t i = 0; i < n.region.size(); ++i) out += (i > 0 ? ", " : "") + dim(n.region[i]);
    return out + "]";
  }

  // What the node does, without its type, label and place.
  static std::string action(const Node& n) {
    const std::string op(op_name(n.op));
    const std::string args = values_str(n.operands);
    const std::string axis = " axis " + std::to_string(n.axis);
    switch (n.op) {
      case Op::kFill:
        return op + " " + number_str(n.number);
      case Op::kScalar:
        return op + " " + n.name;
      case Op::kFromIndex:
        return op + " " + n.expr.str();
      case Op::kIota:
        return op + " " + n.expr.str() + axis;
      case Op::kCarried:
      case Op::kResult:
        return op + " " + std::to_string(n.axis) + " of " + args;
      case Op::kLoad:
        return op + " " + region(n);
      case Op::kStore:
        return (n.mode == StoreMode::kAdd ? "store_add " : "store ") + region(n) + ", " + args;
      case Op::kElementwise:
        return std::string(ew_info(n.ew).name) + " " + args;
      case Op::kReduce:
      case Op::kScan:
        return op + " " + std::string(reduce_name(n.reduce)) + " " + args + axis;
      default:
        return op + " " + args;
    }
  }

  void region_head(const Node& n, const std::string& text) {
    const std::string label = n.label.empty() ? "" : " " + in_quotes(n.label);
    line(value_str(n.id) + " " + text + label + location(n.loc) + " {");
    ++depth_;
    block(n.block);
    if (!n.block.yields.empty()) line("yield " + values_str(n.block.yields));
    --depth_;
    line("}");
  }

  void node(const Node& n) {
    if (n.op == Op::kLoop) {
      std::string text =
          "loop " + n.name + " = " + n.begin.str() + " to " + n.end.str() + " step " + n.step.str();
      if (!n.operands.empty()) text += " carry " + values_str(n.operands);
      return region_head(n, text);
    }
    if (n.op == Op::kWhen) return region_head(n, "when " + n.expr.str());
    if (n.op == Op::kTiles) {
      std::string text = "tiles";
      for (size_t i = 0; i < n.vars.size(); ++i)
        text += (i > 0 ? ", " : " ") + n.vars[i] + " = " + n.extents[i].str();
      return region_head(n, text);
    }
    std::string text = value_str(n.id) + " = " + action(n);
    if (n.has_value()) text += " : " + type_str(n.dtype, n.shape);
    if (!n.label.empty()) text += " " + in_quotes(n.label);
    line(text + location(n.loc));
  }

  void block(const Block& b) {
    for (ValueId id : b.nodes) node(program_.node(id));
  }

  const Program& program_;
  std::string out_;
  size_t depth_ = 0;
};

}  // namespace

std::string print(const Program& program) { return Printer(program).run(); }

}  // namespace rooftile::ir
