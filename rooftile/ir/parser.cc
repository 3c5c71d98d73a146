// SPDX-License-Identifier: Apache-2.0
// Reads the text form that printer.cc writes (grammar there) and verifies the result.
//
// Line by line: a declaration or node is one line, a line that ends in `{` opens a region, `}`
// closes it. Errors name the line, what stands there and what was expected.
#include <cctype>
#include <cstdlib>
#include <map>
#include <optional>

#include "rooftile/ir/types.h"

namespace rooftile::ir {
namespace {

// The unread part of one line. Every take_* skips blanks first; on failure nothing is consumed.
class Cursor {
 public:
  explicit Cursor(std::string_view line) : rest_(line) {}

  std::string_view rest() {
    skip_blanks();
    return rest_;
  }
  bool at_end() { return rest().empty(); }

  bool take(std::string_view token) {
    skip_blanks();
    if (rest_.substr(0, token.size()) != token) return false;
    // A word must end where the token ends: "to" does not match "total".
    const bool word = name_char(token.back());
    if (word && rest_.size() > token.size() && name_char(rest_[token.size()])) return false;
    rest_.remove_prefix(token.size());
    return true;
  }

  std::optional<std::string> name() {
    skip_blanks();
    size_t length = 0;
    while (length < rest_.size() && name_char(rest_[length])) ++length;
    if (length == 0) return std::nullopt;
    std::string out(rest_.substr(0, length));
    rest_.remove_prefix(length);
    return out;
  }

  std::optional<int64_t> integer() {
    skip_blanks();
    const std::string text(rest_.substr(0, 24));
    char* end = nullptr;
    const long long value = std::strtoll(text.c_str(), &end, 10);
    if (end == text.c_str()) return std::nullopt;
    rest_.remove_prefix(static_cast<size_t>(end - text.c_str()));
    return value;
  }

  std::optional<double> number() {
    skip_blanks();
    const std::string text(rest_.substr(0, 40));
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    if (end == text.c_str()) return std::nullopt;
    rest_.remove_prefix(static_cast<size_t>(end - text.c_str()));
    return value;
  }

  std::optional<Expr> expr() {
    skip_blanks();
    return parse_expr_prefix(rest_);
  }

  std::optional<ValueId> value() {
    if (!take("%")) return std::nullopt;
    auto id = integer();
    if (!id || *id < 0 || *id > 10'000'000) return std::nullopt;
    return static_cast<ValueId>(*id);
  }

  std::optional<std::string> quoted() {
    if (!take("\"")) return std::nullopt;
    std::string out;
    for (size_t i = 0; i < rest_.size(); ++i) {
      if (rest_[i] == '"') {
        rest_.remove_prefix(i + 1);
        return out;
      }
      if (rest_[i] == '\\' && i + 1 < rest_.size()) {
        ++i;
        out += rest_[i] == 'n' ? '\n' : rest_[i];
      } else {
        out += rest_[i];
      }
    }
    return std::nullopt;
  }

  // ` @ file:line` at the end of a line; the file may contain any character but a blank.
  std::optional<SourceLoc> location() {
    if (!take("@")) return SourceLoc{};
    skip_blanks();
    const size_t end = std::min(rest_.find(' '), rest_.size());
    const std::string_view word = rest_.substr(0, end);
    const size_t colon = word.rfind(':');
    if (colon == std::string_view::npos) return std::nullopt;
    SourceLoc loc{std::string(word.substr(0, colon)),
                  std::atoi(std::string(word.substr(colon + 1)).c_str())};
    rest_.remove_prefix(end);
    return loc;
  }

 private:
  static bool name_char(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
  }
  void skip_blanks() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\t')) rest_.remove_prefix(1);
  }
  std::string_view rest_;
};

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<Program> run() {
    while (next_line()) {
      RT_RETURN_IF_ERROR(statement());
      if (!cursor_.at_end()) return expected("the end of the line").diag();
    }
    if (!open_.empty()) return expected("`}`").diag();
    for (size_t i = 0; i < nodes_.size(); ++i) {
      auto it = nodes_.find(static_cast<ValueId>(i));
      if (it == nodes_.end()) return expected("a definition of %" + std::to_string(i)).diag();
      program_.nodes.push_back(std::move(it->second));
    }
    return std::move(program_);
  }

 private:
  bool next_line() {
    while (!text_.empty()) {
      const size_t end = std::min(text_.find('\n'), text_.size());
      cursor_ = Cursor(text_.substr(0, end));
      text_.remove_prefix(std::min(end + 1, text_.size()));
      ++line_number_;
      if (!cursor_.at_end() && cursor_.rest()[0] != '#') return true;
    }
    return false;
  }

  Status expected(std::string what) {
    Diag diag;
    diag.code = ErrorCode::kIrParse;
    diag.subject = program_.name;
    diag.message = "line " + std::to_string(line_number_) + " of the tile IR cannot be parsed";
    diag.found = cursor_.at_end() ? "the end of the line" : "`" + std::string(cursor_.rest()) + "`";
    diag.expected = std::move(what);
    return diag;
  }

  Status statement() {
    if (cursor_.take("program")) return set(program_.name, cursor_.name(), "a name");
    if (cursor_.take("tensor")) return tensor();
    if (cursor_.take("scalar")) return scalar();
    if (cursor_.take("param")) {
      program_.tile_params.emplace_back();
      return set(program_.tile_params.back(), cursor_.name(), "a name");
    }
    for (const auto& [word, kind] : kClauses)
      if (cursor_.take(word)) return clause(kind);
    if (cursor_.take("}")) return close_region();
    if (cursor_.take("yield")) {
      if (open_.empty()) return expected("a region around `yield`");
      return values(nodes_[open_.back()].block.yields);
    }
    return node();
  }

  template <class T>
  Status set(T& target, std::optional<T> value, std::string what) {
    if (!value) return expected(std::move(what));
    target = std::move(*value);
    return {};
  }

  Status need(std::string_view token) {
    return cursor_.take(token) ? Status() : expected("`" + std::string(token) + "`");
  }

  // ---- declarations ----

  static constexpr std::pair<std::string_view, Clause::Kind> kClauses[] = {
      {"needs", Clause::kCondition},
      {"index_range", Clause::kIndexRange},
      {"non_decreasing", Clause::kNonDecreasing},
      {"first_is", Clause::kFirstIs},
      {"last_is", Clause::kLastIs},
      {"distinct", Clause::kDistinct}};

  Status type(DType& dtype, Shape& shape) {
    auto word = cursor_.name();
    auto found = word ? dtype_from_name(*word) : std::nullopt;
    if (!found) return expected("a dtype");
    dtype = *found;
    RT_RETURN_IF_ERROR(need("["));
    while (!cursor_.take("]")) {
      if (!shape.empty()) RT_RETURN_IF_ERROR(need(","));
      shape.emplace_back();
      RT_RETURN_IF_ERROR(set(shape.back(), cursor_.expr(), "an extent"));
    }
    return {};
  }

  Status tensor() {
    TensorParam t;
    t.unit_inner_stride = false;
    RT_RETURN_IF_ERROR(set(t.name, cursor_.name(), "a name"));
    RT_RETURN_IF_ERROR(need(":"));
    RT_RETURN_IF_ERROR(type(t.dtype, t.shape));
    auto word = cursor_.name();
    RT_RETURN_IF_ERROR(
        set(t.role, word ? role_find(*word) : std::nullopt, "in, out, inout or workspace"));
    int64_t align = 1;
    RT_RETURN_IF_ERROR(need("align"));
    RT_RETURN_IF_ERROR(set(align, cursor_.integer(), "a number of bytes"));
    t.align_bytes = static_cast<int>(align);
    t.unit_inner_stride = cursor_.take("unit");
    t.allow_overlap = cursor_.take("overlap");
    while (cursor_.take("alias")) {
      t.may_alias.emplace_back();
      RT_RETURN_IF_ERROR(set(t.may_alias.back(), cursor_.name(), "a tensor"));
    }
    RT_RETURN_IF_ERROR(set(t.loc, cursor_.location(), "file:line"));
    program_.tensors.push_back(std::move(t));
    return {};
  }

  Status scalar() {
    ScalarParam s;
    RT_RETURN_IF_ERROR(set(s.name, cursor_.name(), "a name"));
    RT_RETURN_IF_ERROR(need(":"));
    s.is_float = cursor_.take("float");
    if (!s.is_float) RT_RETURN_IF_ERROR(need("int"));
    s.has_range = cursor_.take("range");
    if (s.has_range) {
      RT_RETURN_IF_ERROR(s.is_float ? set(s.fmin, cursor_.number(), "a number")
                                    : set(s.min, cursor_.expr(), "an expression"));
      s.min_exclusive = cursor_.take("exclusive");
      RT_RETURN_IF_ERROR(need("to"));
      RT_RETURN_IF_ERROR(s.is_float ? set(s.fmax, cursor_.number(), "a number")
                                    : set(s.max, cursor_.expr(), "an expression"));
    }
    program_.scalars.push_back(std::move(s));
    return {};
  }

  Status clause(Clause::Kind kind) {
    Clause c;
    c.kind = kind;
    if (kind == Clause::kCondition) {
      RT_RETURN_IF_ERROR(set(c.condition, cursor_.expr(), "a condition"));
    } else {
      RT_RETURN_IF_ERROR(set(c.tensor, cursor_.name(), "a tensor"));
      if (kind != Clause::kNonDecreasing && kind != Clause::kDistinct)
        RT_RETURN_IF_ERROR(set(c.lo, cursor_.expr(), "an expression"));
      if (kind == Clause::kIndexRange) {
        RT_RETURN_IF_ERROR(need("to"));
        RT_RETURN_IF_ERROR(set(c.hi, cursor_.expr(), "an expression"));
        if (cursor_.take("used")) {
          RT_RETURN_IF_ERROR(set(c.used, cursor_.name(), "a tensor"));
          RT_RETURN_IF_ERROR(need("by"));
          RT_RETURN_IF_ERROR(set(c.used_unit, cursor_.expr(), "an expression"));
        }
      }
      if (kind == Clause::kIndexRange || kind == Clause::kDistinct) {
        c.has_except = cursor_.take("except");
        if (c.has_except) RT_RETURN_IF_ERROR(set(c.except, cursor_.expr(), "an expression"));
      }
    }
    RT_RETURN_IF_ERROR(set(c.why, cursor_.quoted(), "the reason in quotes"));
    program_.clauses.push_back(std::move(c));
    return {};
  }

  // ---- nodes ----

  Block& current_block() { return open_.empty() ? program_.body : nodes_[open_.back()].block; }

  Status close_region() {
    if (open_.empty()) return expected("no `}`, no region is open");
    open_.pop_back();
    return {};
  }

  Status node() {
    Node n;
    RT_RETURN_IF_ERROR(set(n.id, cursor_.value(), "a declaration, a node or `}`"));
    if (nodes_.count(n.id) != 0) return expected("one definition of %" + std::to_string(n.id));
    const bool region = !cursor_.take("=");
    RT_RETURN_IF_ERROR(region ? region_head(n) : action(n));
    if (!region && n.has_value()) {
      RT_RETURN_IF_ERROR(need(":"));
      RT_RETURN_IF_ERROR(type(n.dtype, n.shape));
    }
    if (auto label = cursor_.quoted()) n.label = *label;
    RT_RETURN_IF_ERROR(set(n.loc, cursor_.location(), "file:line"));
    if (region) RT_RETURN_IF_ERROR(need("{"));
    const ValueId id = n.id;
    current_block().nodes.push_back(id);
    nodes_.emplace(id, std::move(n));
    if (region) open_.push_back(id);
    return {};
  }

  Status values(std::vector<ValueId>& out) {
    do {
      out.emplace_back();
      RT_RETURN_IF_ERROR(set(out.back(), cursor_.value(), "a value"));
    } while (cursor_.take(","));
    return {};
  }

  Status region_head(Node& n) {
    if (cursor_.take("loop")) {
      n.op = Op::kLoop;
      RT_RETURN_IF_ERROR(set(n.name, cursor_.name(), "a loop variable"));
      RT_RETURN_IF_ERROR(need("="));
      RT_RETURN_IF_ERROR(set(n.begin, cursor_.expr(), "an expression"));
      RT_RETURN_IF_ERROR(need("to"));
      RT_RETURN_IF_ERROR(set(n.end, cursor_.expr(), "an expression"));
      RT_RETURN_IF_ERROR(need("step"));
      RT_RETURN_IF_ERROR(set(n.step, cursor_.expr(), "an expression"));
      return cursor_.take("carry") ? values(n.operands) : Status();
    }
    if (cursor_.take("when")) {
      n.op = Op::kWhen;
      return set(n.expr, cursor_.expr(), "a condition");
    }
    if (!cursor_.take("tiles")) return expected("`=`, loop, when or tiles");
    n.op = Op::kTiles;
    do {
      n.vars.emplace_back();
      n.extents.emplace_back();
      RT_RETURN_IF_ERROR(set(n.vars.back(), cursor_.name(), "an index"));
      RT_RETURN_IF_ERROR(need("="));
      RT_RETURN_IF_ERROR(set(n.extents.back(), cursor_.expr(), "an extent"));
    } while (cursor_.take(","));
    return {};
  }

  Status action(Node& n) {
    auto word = cursor_.name();
    if (!word) return expected("an operation");
    if (const EwInfo* ew = ew_find(*word)) {
      n.op = Op::kElementwise;
      n.ew = ew->ew;
      return values(n.operands);
    }
    if (*word == "store_add") {
      n.mode = StoreMode::kAdd;
      word = "store";
    }
    for (int op = 0; op < static_cast<int>(Op::kLoop); ++op)
      if (*word == op_name(static_cast<Op>(op)) && static_cast<Op>(op) != Op::kElementwise) {
        n.op = static_cast<Op>(op);
        return arguments(n);
      }
    return expected("an operation instead of `" + *word + "`");
  }

  Status axis(Node& n) {
    int64_t value = 0;
    RT_RETURN_IF_ERROR(set(value, cursor_.integer(), "an axis"));
    n.axis = static_cast<int>(value);
    return {};
  }

  Status arguments(Node& n) {
    switch (n.op) {
      case Op::kFill:
        return set(n.number, cursor_.number(), "a number");
      case Op::kScalar:
        return set(n.name, cursor_.name(), "a name");
      case Op::kFromIndex:
        return set(n.expr, cursor_.expr(), "an expression");
      case Op::kIota:
        RT_RETURN_IF_ERROR(set(n.expr, cursor_.expr(), "an expression"));
        RT_RETURN_IF_ERROR(need("axis"));
        return axis(n);
      case Op::kCarried:
      case Op::kResult:
        RT_RETURN_IF_ERROR(axis(n));
        RT_RETURN_IF_ERROR(need("of"));
        return values(n.operands);
      case Op::kLoad:
        return region(n);
      case Op::kStore:
        RT_RETURN_IF_ERROR(region(n));
        RT_RETURN_IF_ERROR(need(","));
        return values(n.operands);
      case Op::kReduce:
      case Op::kScan: {
        auto kind = cursor_.name();
        RT_RETURN_IF_ERROR(
            set(n.reduce, kind ? reduce_find(*kind) : std::nullopt, "sum, max, min or argmax"));
        RT_RETURN_IF_ERROR(values(n.operands));
        RT_RETURN_IF_ERROR(need("axis"));
        return axis(n);
      }
      default:
        return values(n.operands);
    }
  }

  Status region(Node& n) {
    RT_RETURN_IF_ERROR(set(n.name, cursor_.name(), "a tensor"));
    RT_RETURN_IF_ERROR(need("["));
    while (!cursor_.take("]")) {
      if (!n.region.empty()) RT_RETURN_IF_ERROR(need(","));
      n.region.emplace_back();
      RT_RETURN_IF_ERROR(dim(n.region.back()));
    }
    return {};
  }

  Status dim(DimIndex& d) {
    if (cursor_.rest().substr(0, 1) == "%") {
      d.kind = DimIndex::kIndirect;
      RT_RETURN_IF_ERROR(set(d.indirect, cursor_.value(), "an index tile"));
    } else {
      RT_RETURN_IF_ERROR(set(d.begin, cursor_.expr(), "an index"));
      if (!cursor_.take(":+")) return {};
      d.kind = DimIndex::kRange;
      RT_RETURN_IF_ERROR(set(d.extent, cursor_.expr(), "an extent"));
      if (cursor_.take("step")) RT_RETURN_IF_ERROR(set(d.step, cursor_.integer(), "a step"));
    }
    int64_t axis = 0;
    RT_RETURN_IF_ERROR(need("=>"));
    RT_RETURN_IF_ERROR(set(axis, cursor_.integer(), "a tile axis"));
    d.tile_axis = static_cast<int>(axis);
    return {};
  }

  std::string_view text_;
  Cursor cursor_{""};
  int line_number_ = 0;
  Program program_;
  std::map<ValueId, Node> nodes_;
  std::vector<ValueId> open_;
};

}  // namespace

Result<Program> parse(std::string_view text) {
  Result<Program> program = Parser(text).run();
  if (!program.ok()) return program;
  RT_RETURN_IF_ERROR(verify(*program));
  return program;
}

}  // namespace rooftile::ir
