// SPDX-License-Identifier: Apache-2.0
// Rules of operands that depend on dtype and immediates; the fixed ones are rows of operands.def.
#include "rooftile/lanes/operands.h"

#include <fmt/format.h>

#include <array>

namespace rooftile::lanes {
namespace {

constexpr std::array kInstructions = {
#define RT_INSTR(e, text, who, reads, writes, proxy, completes) \
  InsInfo{Ins::e,                                               \
          text,                                                 \
          Who::who,                                             \
          static_cast<uint8_t>(reads),                          \
          static_cast<uint8_t>(writes),                         \
          Proxy::proxy,                                         \
          Completes::completes},
#include "rooftile/lanes/instr.def"
#undef RT_INSTR
};

struct Row {
  Ins ins;
  Operands operands;
};
constexpr std::array kOperands = {
#define RT_OPERANDS(e, results, regs, args, needs) Row{Ins::e, {results, regs, args, needs}},
#include "rooftile/lanes/operands.def"
#undef RT_OPERANDS
};

constexpr bool same_order() {
  if (kOperands.size() != kInstructions.size()) return false;
  for (size_t i = 0; i < kOperands.size(); ++i)
    if (kOperands[i].ins != kInstructions[i].ins) return false;
  return true;
}
static_assert(same_order(), "operands.def lists the instructions in the order of instr.def");

}  // namespace

const InsInfo& ins_info(Ins ins) { return kInstructions[static_cast<size_t>(ins)]; }
const Operands& operands(Ins ins) { return kOperands[static_cast<size_t>(ins)].operands; }

Ty element_type(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return Ty::kF32;
    case DType::kI32:
    case DType::kI8:
      return Ty::kI32;
    case DType::kI64:
      return Ty::kI64;
    default:
      return Ty::kU32;
  }
}

RawRegs raw_regs(DType dtype, int width) {
  if (width == 1) return {element_type(dtype), 1};
  const int bytes = width * size_bytes(dtype);
  if (width < 1 || (bytes != 4 && bytes != 8 && bytes != 16)) return {};
  const bool whole = dtype == DType::kF32 || dtype == DType::kI32;
  return {whole ? element_type(dtype) : Ty::kU32, bytes / 4};
}

std::string atomic_error(Fn op, DType dtype, bool shared) {
  const bool add = op == Fn::kAdd, order = op == Fn::kMin || op == Fn::kMax;
  const bool bits = op == Fn::kAnd || op == Fn::kOr || op == Fn::kXor;
  if (!add && !order && !bits) return "no atomic " + std::string(fn_info(op).name);
  if (dtype == DType::kI32 || dtype == DType::kU32) return "";
  if (dtype == DType::kI64 && !shared) return "";
  if (dtype == DType::kF32 && add) return "";
  return fmt::format("no atomic {} on {}", fn_info(op).name, name(dtype));
}

std::string wgmma_error(const Instr& instr) {
  const DType dtype = instr.dtype;
  const bool half = dtype == DType::kBf16 || dtype == DType::kF16;
  const bool fp8 = dtype == DType::kF8E4M3 || dtype == DType::kF8E5M2;
  const bool int8 = dtype == DType::kI8 || dtype == DType::kU8;
  if (!half && !fp8 && !int8) return fmt::format("no wgmma on {}", name(dtype));
  if (instr.n < 8 || instr.n > 256 || instr.n % 8 != 0)
    return fmt::format("n = {}; wgmma has multiples of 8 from 8 to 256", instr.n);
  if (int8 && instr.n > 32 && instr.n % 16 != 0)
    return fmt::format("n = {}; above 32, integer wgmma has multiples of 16", instr.n);
  if ((instr.trans_a || instr.trans_b) && !half)
    return fmt::format("{} operands are K-major only", name(dtype));
  if (instr.trans_a && instr.regs.size() > 1) return "fragments of A cannot be transposed";
  return "";
}

}  // namespace rooftile::lanes
