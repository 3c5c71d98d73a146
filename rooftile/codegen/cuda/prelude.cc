// SPDX-License-Identifier: Apache-2.0
#include "rooftile/codegen/cuda/prelude.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

namespace rooftile::codegen::cuda {
namespace {

using Mode = Operand::Mode;
constexpr size_t kColumns = 100;

std::string_view constraint(std::string_view type) {
  if (type == "float") return "f";
  if (type == "u64" || type == "i64" || type == "const void*" || type == "const TensorMap&")
    return "l";
  return type == "u16" ? "h" : "r";
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

bool take_word(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text = trimmed(text.substr(word.size()));
  return true;
}

Operand parse_operand(std::string_view text) {
  Operand operand;
  if (take_word(text, "out "))
    operand.mode = Mode::kOut;
  else if (take_word(text, "inout "))
    operand.mode = Mode::kInOut;
  else if (take_word(text, "result "))
    operand.mode = Mode::kResult;
  else if (take_word(text, "imm "))
    operand.mode = Mode::kImmediate;
  operand.reg = take_word(text, "reg ") || operand.mode == Mode::kOut ||
                operand.mode == Mode::kInOut || operand.mode == Mode::kResult;
  if (const size_t bracket = text.find('['); bracket != std::string_view::npos) {
    operand.count = std::stoi(std::string(text.substr(bracket + 1)));
    text = text.substr(0, bracket);
  }
  const size_t space = text.rfind(' ');
  operand.type = std::string(text.substr(0, space));
  operand.name = std::string(text.substr(space + 1));
  return operand;
}

// Items joined by ", " and broken into lines that start with `indent`.
std::string wrapped(const std::vector<std::string>& items, const std::string& indent) {
  std::string out;
  size_t column = indent.size();
  for (size_t i = 0; i < items.size(); ++i) {
    const std::string item = items[i] + (i + 1 < items.size() ? "," : "");
    if (column + 1 + item.size() > kColumns) {
      out += "\n" + indent;
      column = indent.size();
    } else if (i > 0) {
      out += " ";
      ++column;
    }
    out += item;
    column += item.size();
  }
  return out;
}

bool is_output(const Operand& o) {
  return o.mode == Mode::kOut || o.mode == Mode::kInOut || o.mode == Mode::kResult;
}

// The C++ expressions of an operand's registers.
std::vector<std::string> registers(const Operand& o) {
  std::vector<std::string> out;
  if (o.count == 0) {
    std::string value = o.name;
    if (o.mode == Mode::kOut || o.mode == Mode::kInOut) value = "*" + value;
    if (o.type == "const TensorMap&") value = "&" + value;
    if (o.type == "bool" && o.mode == Mode::kIn) value = "(u32)" + value;
    return {value};
  }
  for (int i = 0; i < o.count; ++i) out.push_back(fmt::format("{}[{}]", o.name, i));
  return out;
}

// An asm statement: operands numbered, outputs first.
class Assembly {
 public:
  explicit Assembly(const Helper& helper) : helper_(helper) {
    for (const Operand& o : helper.operands)
      if (is_output(o)) add(o, outputs_);
    for (const Operand& o : helper.operands)
      if (!is_output(o)) add(o, inputs_);
  }

  std::string text() const {
    const std::vector<std::string> lines = template_lines();
    const std::string head = helper_.pure ? "  asm(" : "  asm volatile(";
    const std::string tail = ");\n";
    if (lines.size() == 1) {
      std::string one = head + lines[0] + lists(" ", "") + tail;
      if (one.size() <= kColumns + 1) return one;
    }
    const std::string indent(6, ' ');
    std::string out = head + "\n";
    for (size_t i = 0; i < lines.size(); ++i)
      out += indent + lines[i] + (i + 1 < lines.size() ? "\n" : "");
    return out + lists("\n" + indent, indent + "  ") + tail;
  }

 private:
  // ": outputs : inputs : "memory"", the first two after `before`.
  std::string lists(const std::string& before, const std::string& indent) const {
    std::string out = before + ":";
    if (!outputs_.empty()) out += " " + wrapped(outputs_, indent);
    if (inputs_.empty() && helper_.pure) return out;
    out += outputs_.empty() ? ":" : before + ":";
    if (!inputs_.empty()) out += " " + wrapped(inputs_, indent);
    if (helper_.pure) return out;
    return out + (inputs_.empty() ? ": \"memory\"" : " : \"memory\"");
  }

  void add(const Operand& o, std::vector<std::string>& list) {
    std::string placeholders;
    const std::string sign = o.mode == Mode::kInOut ? "+" : is_output(o) ? "=" : "";
    const std::string_view letter = o.mode == Mode::kImmediate ? "n" : constraint(o.type);
    for (const std::string& reg : registers(o)) {
      placeholders += fmt::format("{}%{}", placeholders.empty() ? "" : ", ", next_++);
      list.push_back(fmt::format("\"{}{}\"({})", sign, letter, reg));
    }
    numbers_[o.name] = o.count > 0 ? "{" + placeholders + "}" : placeholders;
  }

  // The template with operands put in, as C string literals: one a line of PTX.
  std::vector<std::string> template_lines() const {
    std::vector<std::string> lines;
    std::string line;
    const auto flush = [&](bool more) {
      for (const std::string& part : broken(line + (more ? "\\n" : "")))
        lines.push_back("\"" + part + "\"");
      line.clear();
    };
    const std::string& ptx = helper_.ptx;
    for (size_t i = 0; i < ptx.size(); ++i) {
      if (ptx[i] == '\n') {
        flush(true);
      } else if (ptx[i] == '$') {
        size_t end = i + 1;
        while (end < ptx.size() && (std::isalnum(static_cast<unsigned char>(ptx[end])) != 0)) ++end;
        line += numbers_.at(ptx.substr(i + 1, end - i - 1));
        i = end - 1;
      } else {
        line += ptx[i];
      }
    }
    flush(false);
    return lines;
  }

  // Long lines (the registers of a product) in pieces.
  static std::vector<std::string> broken(const std::string& line) {
    std::vector<std::string> out;
    size_t begin = 0;
    while (line.size() - begin > kColumns - 10) {
      const size_t at = line.rfind(' ', begin + kColumns - 10);
      if (at == std::string::npos || at <= begin) break;
      out.push_back(line.substr(begin, at + 1 - begin));
      begin = at + 1;
    }
    out.push_back(line.substr(begin));
    return out;
  }

  const Helper& helper_;
  std::vector<std::string> outputs_, inputs_;
  std::map<std::string, std::string> numbers_;
  int next_ = 0;
};

std::string parameter(const Operand& o) {
  if (o.mode == Mode::kOut || o.mode == Mode::kInOut) return o.type + "* " + o.name;
  if (o.count > 0) return "const " + o.type + "* " + o.name;
  return o.type + " " + o.name;
}

}  // namespace

std::string_view type_text(lanes::Ty type) {
  constexpr std::array<std::string_view, 6> kNames = {"bool", "i32", "u32", "i64", "u64", "float"};
  return kNames[static_cast<size_t>(type)];
}

std::vector<Operand> parse_operands(std::string_view text) {
  std::vector<Operand> out;
  while (!(text = trimmed(text)).empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    out.push_back(parse_operand(text.substr(0, comma)));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return out;
}

std::string definition(const Helper& helper) {
  const Operand* result = nullptr;
  std::string templates;
  std::vector<std::string> parameters;
  for (const Operand& o : helper.operands) {
    if (o.mode == Mode::kResult)
      result = &o;
    else if (o.mode == Mode::kImmediate)
      templates += fmt::format("{}int {}", templates.empty() ? "" : ", ", o.name);
    else
      parameters.push_back(parameter(o));
  }
  std::string out = templates.empty() ? "" : "template <" + templates + ">\n";
  const std::string head = fmt::format("static __device__ __forceinline__ {} {}(",
                                       result != nullptr ? result->type : "void", helper.name);
  out += head + wrapped(parameters, std::string(4, ' ')) + ") {\n";
  if (helper.ptx.empty()) return out + helper.body + "}\n";
  if (result == nullptr) return out + Assembly(helper).text() + "}\n";
  // A predicate leaves PTX as 0 or 1.
  const bool is_pred = result->type == "bool";
  out += fmt::format("  {} {};\n", is_pred ? "u32" : result->type, result->name);
  out += Assembly(helper).text();
  out += fmt::format("  return {}{};\n}}\n", result->name, is_pred ? " != 0" : "");
  return out;
}

std::string Prelude::use(const Helper& helper) {
  std::string signature = helper.name + "(";
  for (const Operand& o : helper.operands) signature += fmt::format("{} {},", o.type, o.count);
  if (signatures_.insert(signature).second) {
    definitions_.push_back(definition(helper));
    names_.insert(helper.name);
    for (const Operand& o : helper.operands) tensor_maps_ |= o.type == "const TensorMap&";
  }
  return helper.name;
}

std::string Prelude::text() const {
  std::string out =
      "typedef signed char i8;\n"
      "typedef unsigned char u8;\n"
      "typedef unsigned short u16;\n"
      "typedef int i32;\n"
      "typedef unsigned int u32;\n"
      "typedef long long i64;\n"
      "typedef unsigned long long u64;\n\n";
  if (tensor_maps_) out += "struct alignas(64) TensorMap {\n  u64 word[16];\n};\n\n";
  for (const std::string& text : definitions_) out += text + "\n";
  return out;
}

}  // namespace rooftile::codegen::cuda
