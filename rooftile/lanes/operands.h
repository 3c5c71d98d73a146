// SPDX-License-Identifier: Apache-2.0
// What operands an instruction takes (operands.def), and how memory maps to raw registers.
#pragma once

#include <string>
#include <string_view>

#include "rooftile/lanes/lanes.h"

namespace rooftile::lanes {

struct Operands {
  std::string_view results, regs, args, needs;
};
const Operands& operands(Ins ins);

// Registers that a global access of `width` elements of `dtype` moves: their type and number;
// number 0 where no such access exists.
struct RawRegs {
  Ty type = Ty::kU32;
  int count = 0;
};
RawRegs raw_regs(DType dtype, int width);

// The register that one element of `dtype` is in: narrow types are zero-extended, i8 by its sign.
Ty element_type(DType dtype);

// Accumulators of a wgmma or mma on operands of `dtype`: f32, or i32 for integers.
constexpr Ty accumulator_type(DType dtype) {
  return dtype == DType::kI8 || dtype == DType::kU8 ? Ty::kI32 : Ty::kF32;
}

// "" if the hardware has this atomic (`result`: one that returns the old value).
std::string atomic_error(Fn op, DType dtype, bool shared);
// "" if wgmma has this shape.
std::string wgmma_error(const Instr& instr);

}  // namespace rooftile::lanes
