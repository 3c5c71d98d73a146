// SPDX-License-Identifier: Apache-2.0
// Binds an instruction's operands to those of its helper.
#include "rooftile/codegen/cuda/instr_text.h"

#include <fmt/format.h>

#include <array>

namespace rooftile::codegen::cuda {
namespace {

using lanes::Ins;
using lanes::Instr;
using Mode = Operand::Mode;

struct InstrRow {
  Ins ins;
  std::string_view name, operands, ptx;
};
constexpr std::array kRows = {
#define RT_INSTR_PTX(ins, name, operands, ptx) InstrRow{Ins::ins, name, operands, ptx},
#define RT_INSTR_CALL(ins, name) InstrRow{Ins::ins, name, "", ""},
#include "rooftile/codegen/cuda/instr_text.def"
#undef RT_INSTR_PTX
#undef RT_INSTR_CALL
};

const InstrRow* row_of(Ins ins) {
  for (const InstrRow& row : kRows)
    if (row.ins == ins) return &row;
  return nullptr;
}

// A product whose first argument, keep, is a constant has it in its text.
bool keep_is_constant(const Instr& i) {
  return i.ins == Ins::kWgmma && i.args[0]->kind == lanes::ValKind::kInt;
}

std::string call_text(const Helper& helper, const Instr& i, const std::string& name,
                      ValueText& values) {
  std::vector<lanes::RegRef> regs = i.results;
  regs.insert(regs.end(), i.regs.begin(), i.regs.end());
  size_t next_reg = 0, next_arg = keep_is_constant(i) ? 1 : 0;
  std::string result, immediates, args;
  const auto add = [&](const std::string& text) { args += (args.empty() ? "" : ", ") + text; };
  for (const Operand& o : helper.operands) {
    if (o.mode == Mode::kImmediate)
      immediates = fmt::format("<{}>", i.n);
    else if (o.mode == Mode::kResult)
      result = values.reg(regs[next_reg++]) + " = ";
    else if (o.mode == Mode::kOut || o.mode == Mode::kInOut || (o.reg && o.count > 0))
      add(values.pointer(regs[next_reg++]));
    else if (o.reg)
      add(values.reg(regs[next_reg++]));
    else if (o.type == "const TensorMap&")
      add(values.name(i.map));
    else if (o.type == "const void*")
      add(values.address(i.global));
    else if (o.name == "bytes" && i.bytes > 0)
      add(std::to_string(i.bytes) + "u");
    else if (o.name == "guard")
      add(values(i.guard));
    else
      add(values(i.args[next_arg++]));
  }
  return result + name + immediates + "(" + args + ");";
}

// Ties registers to their place in the program: one empty asm a register.
std::vector<std::string> pin_text(const Instr& i, Prelude& prelude, ValueText& values) {
  std::vector<std::string> out;
  for (const lanes::RegRef& ref : i.regs) {
    const std::string type(type_text(values.register_type(ref.name)));
    Helper helper;
    helper.name = "pin";
    helper.operands = parse_operands("imm n, inout " + type + " r");
    helper.body = fmt::format(
        "#pragma unroll\n"
        "  for (i32 i = 0; i < n; ++i) asm volatile(\"\" : \"+{}\"(r[i]) : : \"memory\");\n",
        type == "float"                  ? "f"
        : type == "u64" || type == "i64" ? "l"
                                         : "r");
    out.push_back(fmt::format("{}<{}>({});", prelude.use(helper), ref.count, values.pointer(ref)));
  }
  return out;
}

InstrContext context_of(const Instr& i, const ValueText& values) {
  InstrContext context;
  const std::vector<lanes::RegRef>& first = i.results.empty() ? i.regs : i.results;
  if (!first.empty()) context.register_type = values.register_type(first[0].name);
  for (const lanes::TensorUse& t : values.program().tensors)
    if (t.name == i.global.tensor) context.read_only = t.unaliased && !t.written;
  for (const lanes::TensorMapUse& m : values.program().maps)
    if (m.name == i.map) context.map_rank = static_cast<int>(m.box.size());
  return context;
}

}  // namespace

std::vector<std::string> instr_text(const Instr& i, Prelude& prelude, ValueText& values) {
  std::vector<std::string> out;
  if (i.ins == Ins::kPin) {
    out = pin_text(i, prelude, values);
  } else if (const InstrRow* row = row_of(i.ins); row == nullptr) {
    const Helper helper = family_helper(i, context_of(i, values));
    out = {call_text(helper, i, prelude.use(helper), values)};
  } else {
    const Helper helper{.name = std::string(row->name),
                        .operands = parse_operands(row->operands),
                        .ptx = std::string(row->ptx)};
    out = {call_text(helper, i, row->ptx.empty() ? helper.name : prelude.use(helper), values)};
  }
  if (!i.guard.present() || takes_guard(i.ins)) return out;
  const std::string condition = "if (" + values(i.guard) + ") ";
  for (std::string& line : out) line = condition + line;
  return out;
}

}  // namespace rooftile::codegen::cuda
